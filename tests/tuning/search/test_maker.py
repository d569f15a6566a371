"""Tests of the programs of configurations: each choice does what it says, and only that."""

from __future__ import annotations

import pytest

from tensorflow_ipu import op_names
from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.search.choices import ON_CHIP, REMOTE, SPLIT, Choices
from tensorflow_ipu.tuning.search.maker import Maker
from tests.support.planner.layered_workloads import dense
from tests.support.planner.workloads import pipeline

WORKLOAD = dense([128] * 5, batch=16)
PIPELINE = pipeline(2, batch=16, width=64)


def _maker(workload=WORKLOAD, ipus=16, fewer=True, **settings):
    return Maker(workload, Settings(chip=chips.MK2.with_tiles(16), **settings), ipus, fewer)


def test_nothing_chosen_is_the_program_itself():
    made = _maker().make(Choices())
    assert made.workload is WORKLOAD
    assert made.settings == Settings(chip=chips.MK2.with_tiles(16))


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
    made = _maker().make(choices)
    assert made.workload is WORKLOAD
    assert made.settings == Settings(chip=chips.MK2.with_tiles(16)).replace(**changed)


def test_choices_are_made_together():
    made = _maker(ipus=4).make(
        Choices(precision="float16", batch=8, stages=2, replicas=2, recompute=True)
    )
    workload = made.workload
    assert workload.batch == 8
    assert workload.pipeline.stages == 2 and workload.ipus == 2
    assert workload.pipeline.recomputation is not None
    assert not any(buffer.dtype == "float32" for buffer in workload.buffers)
    assert made.settings.replicas == 2
    assert any(op.type == op_names.CROSS_REPLICA_SUM for op in workload.ops)


@pytest.mark.parametrize(
    ("state", "offloaded", "split"),
    [(ON_CHIP, False, 1), (REMOTE, True, 1), (SPLIT, True, 2), (None, True, 1)],
)
def test_new_pipelines_have_their_state_where_it_was_chosen(state, offloaded, split):
    """Without a choice it is in streaming memory, as by default in the API."""
    made = _maker(ipus=4).make(Choices(stages=2, optimizer_state=state, replicas=2))
    found = [v for v in made.workload.variables if v.role == "optimizer state"]
    assert found
    assert {(v.offloaded, v.split) for v in found} == {(offloaded, split)}


def test_shards_have_no_pipeline():
    made = _maker().make(Choices(shards=4))
    assert made.workload.pipeline is None and made.workload.ipus == 4
    assert len(made.parts) == 4


def test_gradients_of_several_mini_batches_are_added_up():
    """An update for each becomes one for four, with variables for the sums of gradients."""
    made = _maker().make(Choices(count=4.0))
    sums = [v for v in made.workload.variables if v.role == "accumulator"]
    trained = [v for v in WORKLOAD.variables if v.role == "weight"]
    assert sum(v.num_bytes for v in sums) == sum(v.num_bytes for v in trained)
    applied = [op for op in made.workload.ops if op_names.is_optimizer_update(op.type)]
    assert {op.runs for op in applied} == {1}
    assert {op.runs for op in made.workload.ops if op.name.endswith("MatMul_1")} == {4}
    # The state of the optimizer goes to streaming memory, unless it is told not to.
    assert {v.offloaded for v in made.workload.variables if v.role == "optimizer state"} == {True}
    kept = _maker().make(Choices(count=4.0, optimizer_state=ON_CHIP)).plan()
    plain = planning.plan(WORKLOAD, kept.settings)
    assert kept.fullest.worst_bytes > plain.fullest.worst_bytes


def test_counts_of_pipelines_are_multiples_of_what_they_have():
    before = PIPELINE.pipeline.count
    assert _maker(PIPELINE).make(Choices(count=2.0)).workload.pipeline.count == 2 * before
    cut = _maker().make(Choices(stages=2)).workload.pipeline.count
    assert _maker().make(Choices(stages=2, count=2.0)).workload.pipeline.count == 2 * cut


@pytest.mark.parametrize("choice", [{"schedule": "Interleaved"}, {"weights": SPLIT}])
def test_only_pipelines_have_what_only_they_have(choice):
    with pytest.raises(ValueError, match="Only pipelines"):
        _maker().make(Choices(**choice))


@pytest.mark.parametrize(
    ("ipus", "stages", "wanted", "replicas"),
    [(4, 2, 4, 2), (4, 4, 4, 1), (16, 4, 4, 4), (4, None, 2, 2)],
)
def test_replicas_are_as_many_as_there_are_ipus_for(ipus, stages, wanted, replicas):
    made = _maker(ipus=ipus).make(Choices(stages=stages, replicas=wanted))
    assert made.settings.replicas == replicas


def test_replicas_that_have_to_stay_are_an_error_where_the_ipus_do_not_suffice():
    maker = _maker(ipus=4, fewer=False, replicas=4)
    with pytest.raises(
        ValueError, match=r"4 replica\(s\) with 2 IPU\(s\) each need more than the 4"
    ):
        maker.make(Choices(stages=2))
    with pytest.raises(ValueError, match="need more than the 2"):
        _maker(ipus=2).make(Choices(stages=4))


def test_the_canonical_form_says_how_many_replicas_there_are():
    maker = _maker(ipus=4, replicas=4)
    assert maker.canonical(Choices(stages=2)) == Choices(stages=2, replicas=2)
    assert maker.canonical(Choices(replicas=4)) == Choices()


def test_the_canonical_form_leaves_out_what_new_pipelines_have_anyway():
    maker = _maker(ipus=2)
    assert maker.canonical(Choices(stages=2, optimizer_state=REMOTE)) == Choices(stages=2)
    assert maker.canonical(Choices(optimizer_state=REMOTE)) == Choices(optimizer_state=REMOTE)
