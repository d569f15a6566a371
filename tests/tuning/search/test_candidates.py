"""Tests of candidates: each choice changes the program and settings in its own way only."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.search.candidates import Candidates
from tensorflow_ipu.tuning.search.choices import ON_CHIP, REMOTE, SPLIT, Choices
from tensorflow_ipu.util import op_names
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipeline

WORKLOAD = dense([128] * 5, batch=16)
PIPELINE = pipeline(2, batch=16, width=64)


def _candidates(workload=WORKLOAD, ipus=16, fewer=True, **settings):
    return Candidates(workload, Settings(chip=chips.MK2.with_tiles(16), **settings), ipus, fewer)


def test_nothing_chosen_is_the_program_itself():
    candidate = _candidates().candidate(Choices())
    assert candidate.workload is WORKLOAD
    assert candidate.settings == Settings(chip=chips.MK2.with_tiles(16))


@pytest.mark.parametrize(
    ("choices", "changed"),
    [
        (Choices(matmul_proportion=0.1), {"matmul_proportion": 0.1}),
        (Choices(convolution_proportion=0.1), {"convolution_proportion": 0.1}),
        (Choices(slice_proportion=0.1), {"slice_proportion": 0.1}),
        (Choices(recompute=True), {"recompute": True}),
        (
            Choices(partials="float16"),
            {"matmul_partials": "float16", "convolution_partials": "float16"},
        ),
        (Choices(activations=REMOTE), {"offload_activations": True}),
    ],
)
def test_options_change_the_settings_only(choices, changed):
    candidate = _candidates().candidate(choices)
    assert candidate.workload is WORKLOAD
    assert candidate.settings == Settings(chip=chips.MK2.with_tiles(16)).replace(**changed)


def test_choices_are_made_together():
    candidate = _candidates(ipus=4).candidate(
        Choices(precision="float16", batch=8, stages=2, replicas=2, recompute=True)
    )
    workload = candidate.workload
    assert workload.batch == 8
    assert workload.pipeline.stages == 2 and workload.ipus == 2
    assert workload.pipeline.recomputation is not None
    assert not any(buffer.dtype == "float32" for buffer in workload.buffers)
    assert candidate.settings.replicas == 2
    assert any(op.type == op_names.CROSS_REPLICA_SUM for op in workload.ops)


@pytest.mark.parametrize(
    ("state", "offloaded", "split"),
    [(ON_CHIP, False, 1), (REMOTE, True, 1), (SPLIT, True, 2), (None, True, 1)],
)
def test_new_pipelines_have_state_where_chosen(state, offloaded, split):
    """Without a choice it is in streaming memory, as by default in the API."""
    candidate = _candidates(ipus=4).candidate(Choices(stages=2, optimizer_state=state, replicas=2))
    found = [v for v in candidate.workload.variables if v.role == "optimizer state"]
    assert found
    assert {(v.offloaded, v.split) for v in found} == {(offloaded, split)}


def test_shards_have_no_pipeline():
    candidate = _candidates().candidate(Choices(shards=4))
    assert candidate.workload.pipeline is None and candidate.workload.ipus == 4
    assert len(candidate.parts) == 4


def test_gradients_of_several_mini_batches_are_added_up():
    """An update for each becomes one for four, with variables for the sums of gradients."""
    candidate = _candidates().candidate(Choices(count=4.0))
    sums = [v for v in candidate.workload.variables if v.role == "accumulator"]
    trained = [v for v in WORKLOAD.variables if v.role == "weight"]
    assert sum(v.num_bytes for v in sums) == sum(v.num_bytes for v in trained)
    applied = [op for op in candidate.workload.ops if op_names.is_optimizer_update(op.type)]
    assert {op.runs for op in applied} == {1}
    assert {op.runs for op in candidate.workload.ops if op.name.endswith("MatMul_1")} == {4}
    # The state of the optimizer goes to streaming memory, unless it is told not to.
    assert {v.offloaded for v in candidate.workload.variables if v.role == "optimizer state"} == {
        True
    }
    kept = _candidates().candidate(Choices(count=4.0, optimizer_state=ON_CHIP)).plan()
    plain = planning.plan(WORKLOAD, kept.settings)
    assert kept.fullest.worst_bytes > plain.fullest.worst_bytes


def test_pipeline_counts_are_multiples_of_current_ones():
    before = PIPELINE.pipeline.count
    assert _candidates(PIPELINE).candidate(Choices(count=2.0)).workload.pipeline.count == 2 * before
    cut = _candidates().candidate(Choices(stages=2)).workload.pipeline.count
    assert _candidates().candidate(Choices(stages=2, count=2.0)).workload.pipeline.count == 2 * cut


@pytest.mark.parametrize("choice", [{"schedule": "Interleaved"}, {"weights": SPLIT}])
def test_only_pipelines_have_what_only_they_have(choice):
    with pytest.raises(ValueError, match="Only pipelines"):
        _candidates().candidate(Choices(**choice))


@pytest.mark.parametrize(
    ("ipus", "stages", "wanted", "replicas"),
    [(4, 2, 4, 2), (4, 4, 4, 1), (16, 4, 4, 4), (4, None, 2, 2)],
)
def test_replicas_fill_available_ipus(ipus, stages, wanted, replicas):
    candidate = _candidates(ipus=ipus).candidate(Choices(stages=stages, replicas=wanted))
    assert candidate.settings.replicas == replicas


def test_fixed_replicas_without_enough_ipus_fail():
    candidates = _candidates(ipus=4, fewer=False, replicas=4)
    with pytest.raises(
        ValueError, match=r"4 replica\(s\) with 2 IPU\(s\) each need more than the 4"
    ):
        candidates.candidate(Choices(stages=2))
    with pytest.raises(ValueError, match="need more than the 2"):
        _candidates(ipus=2).candidate(Choices(stages=4))


def test_canonical_form_says_how_many_replicas_there_are():
    candidates = _candidates(ipus=4, replicas=4)
    assert candidates.canonical(Choices(stages=2)) == Choices(stages=2, replicas=2)
    assert candidates.canonical(Choices(replicas=4)) == Choices()


def test_canonical_form_drops_defaults_of_new_pipelines():
    candidates = _candidates(ipus=2)
    assert candidates.canonical(Choices(stages=2, optimizer_state=REMOTE)) == Choices(stages=2)
    assert candidates.canonical(Choices(optimizer_state=REMOTE)) == Choices(optimizer_state=REMOTE)
