"""Tests of remedies: savings by hand, and statements equal to the plans."""

from __future__ import annotations

import dataclasses
import gc

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.advice import out_of_memory, remedies
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipeline

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


@pytest.fixture(scope="module")
def found(too_big):
    """Returns the remedies that are found for it."""
    return remedies.remedies(too_big)


def test_the_first_remedy_makes_it_fit(too_big, found):
    first, *rest = found
    assert first.fits
    assert first.plan.fits
    again = planning.plan(first.plan.workload, first.plan.settings)
    assert again.fullest.worst_bytes == first.worst == first.plan.fullest.worst_bytes
    assert first.saving == too_big.fullest.worst_bytes - first.worst
    assert rest


def test_a_pipeline_is_written_stage_by_stage(found):
    remedy = next(r for r in found if "pipeline with" in r.name)
    stages = remedy.plan.workload.ipus
    lines = remedy.instruction.splitlines()
    assert sum(line.startswith("config.auto_select_ipus = ") for line in lines) == 1
    said = [line for line in lines if line.startswith("stage ")]
    assert len(said) == stages
    assert said[0].startswith("stage 0: dense0") and "from model.py:1 (step)" in said[0]
    count = remedy.plan.workload.pipeline.count
    assert f"gradient_accumulation_steps_per_replica={count}" in remedy.instruction


def test_remedies_that_fit_and_cost_least_come_first(found):
    fits = [remedy.fits for remedy in found]
    assert fits == sorted(fits, reverse=True)
    ratios = [remedy.cycles_ratio for remedy in found if remedy.fits]
    assert ratios == sorted(ratios)
    savings = [remedy.saving for remedy in found if not remedy.fits]
    assert savings == sorted(savings, reverse=True)
    assert all(remedy.saving > 0 for remedy in found)


def test_float16_halves_what_is_float32(too_big, found):
    remedy = next(remedy for remedy in found if remedy.name == "float16")
    for name in ("variables", "optimizer state"):
        after = remedy.plan.memory[0].category(name)
        assert after.total * 2 == too_big.memory[0].category(name).total == 3 * MIB
    assert not any(b.dtype == "float32" for b in remedy.plan.workload.buffers)


def test_offloading_takes_the_state_off_the_chip(found):
    remedy = next(remedy for remedy in found if remedy.name == "offload optimizer state")
    offloaded = [v.name for v in remedy.plan.workload.variables if v.offloaded]
    assert offloaded == [f"dense{i}/momentum" for i in range(12)]
    assert remedy.plan.memory[0].category("variables").total == 3 * MIB
    assert "offload_weight_update_variables=True" in remedy.instruction
    assert remedy.cycles_ratio > 1
    assert not any("split over" in remedy.name for remedy in found)  # there is one replica


def test_replicas_split_what_is_offloaded():
    found = remedies.remedies(planning.plan(WORKLOAD, _settings(3, replicas=2)), plans=48)
    by_name = {remedy.name: remedy for remedy in found}
    remedy = by_name["optimizer state split over replicas"]
    assert "replicated_optimizer_state_sharding=True" in remedy.instruction
    assert {v.split for v in remedy.plan.workload.variables if v.offloaded} == {2}
    assert "offload optimizer state" in by_name


def test_smaller_temporaries_are_a_remedy_for_large_batches():
    """Batches this large need temporaries, which a smaller proportion bounds."""
    plan = planning.plan(dense([512, 512, 512], batch=2048), _settings(8))
    remedy = next(r for r in remedies.remedies(plan) if r.name.startswith("smaller temporaries"))
    assert 'config.matmuls.poplar_options["availableMemoryProportion"] = "0.' in remedy.instruction
    assert remedy.plan.settings.matmul_proportion in (0.3, 0.1)
    assert remedy.plan.settings.convolution_proportion == 0.6  # it has no convolutions


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
    assert not any("recompute activations" in name for name in _by_name(again))


def test_combinations_follow_single_changes_that_do_not_suffice(found):
    """Three times too big: float16 alone leaves one and a half times the capacity."""
    first = found[0]
    assert " and " in first.name
    assert len(first.instruction.splitlines()) >= 2
    assert not next(remedy for remedy in found if remedy.name == "float16").fits


@pytest.mark.parametrize("plans", [2, 4])
def test_few_plans_find_what_fits_too(too_big, plans):
    """As for a program of thousands of ops."""
    found = remedies.remedies(too_big, plans)
    assert found[0].fits
    assert len(found) <= plans


def test_budget_of_plans_depends_on_number_of_ops():
    small, large = (dataclasses.replace(WORKLOAD, ops=WORKLOAD.ops * times) for times in (1, 1000))
    plan = planning.plan(WORKLOAD, _settings(3))
    budgets = [
        remedies.budget_of(dataclasses.replace(plan, workload=workload))
        for workload in (small, large)
    ]
    assert budgets == [24, 2]


def test_large_programs_have_all_usual_remedies(monkeypatch):
    """As few plans as for tens of thousands of ops: the usual changes are planned besides."""
    monkeypatch.setattr(remedies, "_OPS", 0)
    plan = planning.plan(pipeline(4, batch=256, width=128), _settings(16))
    found = remedies.search(plan)
    names = [remedy.name for remedy in found.remedies]
    for name in ("recompute activations", "offload activations", "schedule", "mini-batches of"):
        assert any(name in one for one in names), (name, names)
    assert "matmul_proportion" in found.untried
    assert not {"recompute", "activations", "schedule", "batch"} & set(found.untried)
    last = out_of_memory.report(plan, True, found.remedies, found.untried).splitlines()[-1]
    assert last.startswith("Not tried alone: ") and "`tensorflow-ipu remedies`" in last
    assert "memory for temporaries of matrix products" in last
    assert remedies.search(plan) is found  # the report of the program has the same


def test_a_program_that_fits_has_remedies_too():
    """Returns further savings, for reports."""
    plan = planning.plan(WORKLOAD, _settings(1472))
    assert plan.fits
    assert "float16" in _by_name(plan)


def test_program_without_anything_to_save_has_remedies_too():
    make = dataclasses.replace(dense([8, 8], momentum=False), ops=(), batch=None)
    assert remedies.remedies(planning.plan(make, _settings(16))) == ()


def _asked(plan, plans=12):
    """IPUs that remedies ask for."""
    return [
        int(line.split("=")[1])
        for remedy in remedies.remedies(plan, plans)
        for line in remedy.instruction.splitlines()
        if line.startswith("config.auto_select_ipus")
    ]


@pytest.mark.parametrize("replicas", [2, 3])
def test_no_remedy_asks_for_lacking_ipus(replicas):
    """A replica occupies a power of two of the machine's 16 IPUs."""
    asked = _asked(planning.plan(WORKLOAD, _settings(2, replicas=replicas)))
    assert asked
    assert max(asked) <= 16


def test_remedies_ask_for_the_ipus_of_one_instance():
    """Each process configures its own: 8 replicas in 4 of them are 2 in each."""
    asked = _asked(planning.plan(WORKLOAD, _settings(2, replicas=8, instances=4)), plans=8)
    assert asked
    assert all(number in (4, 8, 16) for number in asked)


def test_a_plan_may_go_at_exit(monkeypatch):
    """The interpreter has emptied the module by then; an error in a callback is a warning."""
    plan = planning.plan(dense([256] * 3, batch=16), _settings(3))
    remedies.remedies(plan)
    monkeypatch.setattr(remedies, "Findings", None)
    del plan
    gc.collect()
