"""Tests of remedies: what they save, by hand, and that what they say is what is planned."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.alternatives import remedies, stage_split
from tensorflow_ipu.planner.settings import Settings
from tests.support.layered_workloads import dense
from tests.support.workloads import pipeline

MIB = 2**20
# Twelve matrices of 256 KiB and as much momentum.
WORKLOAD = dense([256] * 13, batch=16)


def _settings(tiles, **changes):
    return Settings(chip=chips.MK2.with_tiles(tiles), **changes)


def _by_name(plan):
    return {remedy.name: remedy for remedy in remedies.remedies(plan)}


@pytest.fixture(scope="module")
def too_big():
    """6 MiB of variables on three tiles of 624 KiB: three times too big."""
    plan = planning.plan(WORKLOAD, _settings(3))
    assert plan.fullest.worst_bytes > 3 * plan.fullest.capacity
    return plan


def test_the_first_remedy_makes_it_fit(too_big):
    first, *rest = remedies.remedies(too_big)
    assert first.fits
    assert first.name.startswith("pipeline with")
    assert first.plan.fits
    again = planning.plan(first.plan.workload, first.plan.settings)
    assert again.fullest.worst_bytes == first.worst == first.plan.fullest.worst_bytes
    assert first.saving == too_big.fullest.worst_bytes - first.worst
    assert rest


def test_the_fewest_stages_that_suffice_are_proposed(too_big):
    first = remedies.remedies(too_big)[0]
    stages = first.plan.workload.ipus
    fewer = stage_split.split(WORKLOAD, too_big.settings, stages - 1).workload
    assert not planning.plan(fewer, too_big.settings).fits
    lines = first.instruction.splitlines()
    assert sum(line.startswith("config.auto_select_ipus = ") for line in lines) == 1
    assert sum(line.startswith("stage ") for line in lines) == stages


def test_remedies_that_fit_and_cost_least_come_first(too_big):
    found = remedies.remedies(too_big)
    fits = [remedy.fits for remedy in found]
    assert fits == sorted(fits, reverse=True)
    ratios = [remedy.cycles_ratio for remedy in found if remedy.fits]
    assert ratios == sorted(ratios)
    savings = [remedy.saving for remedy in found if not remedy.fits]
    assert savings == sorted(savings, reverse=True)
    assert all(remedy.saving > 0 for remedy in found)


def test_float16_halves_what_is_float32(too_big):
    remedy = _by_name(too_big)["float16"]
    for name in ("variables", "optimizer state"):
        after = remedy.plan.memory[0].category(name)
        assert after.total * 2 == too_big.memory[0].category(name).total == 3 * MIB
    assert not any(b.dtype == "float32" for b in remedy.plan.workload.buffers)


def test_offloading_takes_the_state_off_the_chip(too_big):
    remedy = _by_name(too_big)["offload optimizer state"]
    offloaded = [v.name for v in remedy.plan.workload.variables if v.offloaded]
    assert offloaded == [f"dense{i}/momentum" for i in range(12)]
    assert remedy.plan.memory[0].category("variables").total == 3 * MIB
    assert "offload_weight_update_variables=True" in remedy.instruction
    assert remedy.cycles_ratio > 1


def test_replicas_split_what_is_offloaded():
    plan = planning.plan(WORKLOAD, _settings(3, replicas=2))
    found = _by_name(plan)
    remedy = found["optimizer state split over replicas"]
    assert "replicated_optimizer_state_sharding=True" in remedy.instruction
    split = {v.split for v in remedy.plan.workload.variables if v.offloaded}
    assert split == {2}
    assert "offload optimizer state" in found
    assert all("split over" not in name for name in _by_name(planning.plan(WORKLOAD, _settings(3))))


def test_smaller_temporaries_are_a_remedy_for_large_batches():
    """Batches this large need temporaries, which a smaller proportion bounds."""
    plan = planning.plan(dense([512, 512, 512], batch=2048), _settings(8))
    remedy = next(r for r in remedies.remedies(plan) if r.name.startswith("smaller temporaries"))
    assert 'config.matmuls.poplar_options["availableMemoryProportion"] = "0.' in remedy.instruction
    assert remedy.plan.settings.matmul_proportion in (0.3, 0.1)
    assert remedy.plan.workload is plan.workload


def test_a_smaller_batch_that_divides_is_a_remedy():
    plan = planning.plan(dense([256, 256, 256], batch=4096), _settings(8))
    assert not plan.fits
    remedy = next(r for r in remedies.remedies(plan) if r.name.startswith("mini-batches of"))
    size = remedy.plan.workload.batch
    assert 4096 % size == 0
    assert size < 4096
    assert f"dataset.batch({size}" in remedy.instruction
    assert remedy.fits


def test_recomputation_is_a_remedy_in_a_pipeline():
    before = pipeline(4, batch=256, width=128)
    plan = planning.plan(before, _settings(16))
    remedy = _by_name(plan)["recompute activations"]
    assert remedy.instruction == "config.allow_recompute = True"
    stash = [ipu.category("stash") for ipu in remedy.plan.memory]
    assert sum(c.total for c in stash if c) < sum(
        c.total for ipu in plan.memory if (c := ipu.category("stash"))
    )
    assert remedy.cycles_ratio > 1
    again = planning.plan(remedy.plan.workload, remedy.plan.settings)
    assert "recompute activations" not in _by_name(again)


def test_pipelines_that_recompute_are_a_remedy():
    """The stash of a pipeline can be more than what it takes off an IPU, unless it recomputes."""
    plan = planning.plan(dense([64] * 9, batch=4096), _settings(16))
    assert not plan.fits
    found = _by_name(plan)
    (name,) = (name for name in found if name.startswith("pipeline with"))
    remedy = found[name]
    recomputes = name.endswith("that recompute")
    assert remedy.plan.settings.recompute == recomputes
    assert (remedy.plan.workload.pipeline.recomputation is not None) == recomputes
    assert ("config.allow_recompute = True" in remedy.instruction) == recomputes
    assert recomputes


def test_two_remedies_are_combined_where_none_suffices(monkeypatch):
    """Without more IPUs: float16 halves it, offloading halves it again."""
    from tensorflow_ipu.planner.alternatives import changes

    possible = changes.possible
    monkeypatch.setattr(
        changes, "possible", lambda target: (c for c in possible(target) if c.kind != "ipus")
    )
    workload = dense([256] * 13, batch=16)
    wanted = None
    for tiles in range(5, 11):
        plan = planning.plan(workload, _settings(tiles))
        single = [r for r in remedies.remedies(plan) if " and " not in r.name]
        if not plan.fits and not any(r.fits for r in single):
            wanted = next((r for r in remedies.remedies(plan) if " and " in r.name), wanted)
    assert wanted is not None
    assert wanted.fits
    assert len(wanted.instruction.splitlines()) >= 2
    assert not any(remedy.name == wanted.name and not remedy.fits for remedy in [wanted])


def test_a_program_that_fits_has_remedies_too():
    """What else could be saved: for reports."""
    plan = planning.plan(WORKLOAD, _settings(1472))
    assert plan.fits
    assert "float16" in _by_name(plan)


def test_a_program_without_anything_to_save_has_remedies_too():
    make = dataclasses.replace(dense([8, 8], momentum=False), ops=(), batch=None)
    assert isinstance(remedies.remedies(planning.plan(make, _settings(16))), tuple)


@pytest.mark.parametrize("replicas", [2, 3])
def test_no_remedy_asks_for_more_ipus_than_there_are(replicas):
    """A replica occupies a power of two of the machine's 16 IPUs."""
    plan = planning.plan(WORKLOAD, _settings(2, replicas=replicas))
    asked = [
        int(line.split("=")[1])
        for remedy in remedies.remedies(plan)
        for line in remedy.instruction.splitlines()
        if line.startswith("config.auto_select_ipus")
    ]
    assert asked
    assert max(asked) <= 16


def test_remedies_ask_for_the_ipus_of_one_instance():
    """Each process configures its own."""
    alone = planning.plan(WORKLOAD, _settings(2, replicas=2))
    shared = planning.plan(WORKLOAD, _settings(2, replicas=8, instances=4))
    asked = [
        [
            line
            for remedy in remedies.remedies(plan)
            for line in remedy.instruction.splitlines()
            if line.startswith("config.auto_select_ipus")
        ]
        for plan in (alone, shared)
    ]
    assert asked[0] == asked[1] and asked[0]
