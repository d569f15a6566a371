"""Tests of stashes of pipelines by hand, with and without recomputation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import FREE
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule, RecomputationMode
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder, pipeline, pipelines

FAST = settings(max_examples=12, derandomize=True, deadline=None)


# Bytes of a tensor between layers: 32 rows of 128 floats.
TENSOR = 4 * 32 * 128


GROUPED, INTERLEAVED, SEQUENTIAL = (
    PipelineSchedule.Grouped,
    PipelineSchedule.Interleaved,
    PipelineSchedule.Sequential,
)


def stashes(workload, **changes):
    """Bytes of the stash of each IPU."""
    plan = Planner(workload).memory(Settings(**changes))
    return [found.category("stash").total if found.category("stash") else 0 for found in plan]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    ("schedule", "per_distance"), [(GROUPED, 2), (INTERLEAVED, 1), (SEQUENTIAL, 0)],
    ids=lambda value: getattr(value, "name", str(value)),
)  # fmt: skip
@pytest.mark.parametrize("recompute", [False, True])
def test_stash_depths_follow_the_schedule(stages, schedule, per_distance, recompute):
    # A stage saves its input and the results of its two layers; it needs only its input to make the
    # others again.
    tensors = 1 if recompute else 3
    expected = [per_distance * (stages - 1 - s) * tensors * TENSOR for s in range(stages)]
    assert stashes(pipeline(stages, schedule), recompute=recompute) == expected


def test_the_pipeline_itself_may_recompute():
    modes = (None, RecomputationMode.Auto, RecomputationMode.RecomputeThenBackpropagate)
    found = [stashes(pipeline(2, GROUPED, recomputation=mode))[0] for mode in modes]
    assert found == [6 * TENSOR, 2 * TENSOR, 2 * TENSOR]


def test_few_mini_batches_make_a_small_stash():
    # With one mini-batch there is nothing to put aside.
    assert stashes(pipeline(4, GROUPED, count=1)) == [0, 0, 0, 0]
    assert stashes(pipeline(4, GROUPED, count=3)) == [
        2 * 3 * TENSOR, 2 * 3 * TENSOR, 2 * 3 * TENSOR, 0,
    ]  # fmt: skip


def test_offloaded_stashes_take_no_room():
    assert stashes(pipeline(4, GROUPED), offload_activations=True) == [0, 0, 0, 0]


def test_inference_has_no_stash():
    assert stashes(pipeline(4, GROUPED, training=False)) == [0, 0, 0, 0]


def test_serialized_batches_are_stashed():
    # Each stage puts aside one of two mini-batches, as it handles both before it goes back.
    found = stashes(
        pipeline(2, SEQUENTIAL, count=4, devices=(0, 0), batch_serialization_iterations=2)
    )
    assert found[0] > 0


def test_the_stash_follows_the_schedule_of_the_settings():
    grouped = Planner(pipeline(3, GROUPED)).memory(Settings())
    sequential = Planner(pipeline(3, SEQUENTIAL)).memory(Settings())
    assert grouped[0].worst_bytes >= sequential[0].worst_bytes
    assert grouped[2].worst_bytes == sequential[2].worst_bytes


def test_stash_is_always_live_and_names_its_tensors():
    (found, _) = Planner(pipeline(2, GROUPED)).memory(Settings())
    assert found.category("stash").always_live
    entries = [entry for entry in found.at_peak if entry.category == "stash"]
    assert [entry.num_bytes for entry in entries] == [2 * TENSOR] * 3
    assert all("stash of stage 0 (2 mini-batches)" in entry.name for entry in entries)
    assert all(entry.source.startswith("model.py:") for entry in entries)


def test_random_results_are_made_again_from_their_seeds(monkeypatch):
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    kinds = ("Relu", "StatelessRandomUniform")
    found = [stashes(_with_dropout(kind), recompute=True)[0] for kind in kinds]
    assert found == [2 * TENSOR, 2 * TENSOR]


def test_checkpoints_are_kept(monkeypatch):
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    assert stashes(_with_dropout("Relu", checkpoint=True), recompute=True)[0] == 2 * 2 * TENSOR


@pytest.mark.parametrize(("every", "most"), [(None, 10), (4, 7), (2, 7), (1, 10)])
def test_ops_between_checkpoints_are_recomputed_at_once(monkeypatch, every, most):
    # With two gradients there are: of eight layers, the checkpoints whose gradient is not made yet,
    # and all layers of the last part. Of parts of four that is one checkpoint and four layers.
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    assert _most_in_backward(_layers(8, every)) == most


def test_recomputing_first_makes_all_of_a_stage_again(monkeypatch):
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    then = RecomputationMode.RecomputeThenBackpropagate
    assert _most_in_backward(_layers(8, 2, mode=then)) == 10


def _most_in_backward(workload):
    """Most live tensors of the first IPU in its backward pass."""
    (found, _) = Planner(workload).memory(Settings(recompute=True))
    back = [workload.ops[op].phase == "backward" for op in found.live_ops.tolist()]
    return found.live_bytes[back].max() / TENSOR


def test_activation_squares_do_not_restore_them_early(monkeypatch):
    # A square in the backward pass needs no gradient, so programs may have it anywhere.
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    peaks = []
    for squares in (False, True):
        (found, _) = Planner(_layers(8, 2, squares)).memory(Settings(recompute=True))
        peaks.append(found.live_bytes.max())
    assert peaks[1] <= peaks[0] + TENSOR


def _layers(
    count, every, squares=False, mode=RecomputationMode.RecomputeAndBackpropagateInterleaved
):
    """Returns two stages; the first has a checkpoint after each `every` layers."""
    make = Builder(2)
    start = make.begin("While", trip_count=8)
    shape, first = (32, 128), {"ipu": 0, "stage": 0}
    x = make.op("IpuInfeedDequeue", [], shape, **first)
    made = []
    for number in range(count):
        x = make.op("MatMul", [x], shape, name=f"layer_{number}", **first)
        made.append(x)
        if every and (number + 1) % every == 0:
            make.op("Identity", [x], alias=x, name=f"recomputation_checkpoint_{number}", **first)
    y = make.op("MatMul", [x], shape, ipu=1, stage=1)
    back = {"phase": "backward"}
    g = make.op("MatMul", [y, x], shape, name="loss_grad", ipu=1, stage=1, **back)
    if squares:
        made[0] = make.op("MatMul", [made[0]], shape, name="square", **first, **back)
    for number, saved in reversed(list(enumerate(made))):
        g = make.op("MatMul", [g, saved], shape, name=f"grad_{number}", **first, **back)
    make.end(start)
    return make.workload(pipeline=PipelineDescription((0, 1), 8, recomputation=mode))


def _with_dropout(kind, checkpoint=False, last_checkpoint=False):
    """Two stages; the first one has a random op if `kind` is one."""
    make = Builder(2)
    start = make.begin("While", trip_count=8)
    shape = (32, 128)
    x = make.op("IpuInfeedDequeue", [], shape, ipu=0, stage=0)
    a = make.op("Exp", [x], shape, ipu=0, stage=0)
    b = make.op(kind, [a], shape, ipu=0, stage=0)
    if checkpoint:
        make.op("Identity", [b], alias=b, name="recomputation_checkpoint", ipu=0, stage=0)
    c = make.op("Exp", [b], shape, ipu=0, stage=0)
    if last_checkpoint:
        make.op("Identity", [c], alias=c, name="recomputation_checkpoint", ipu=0, stage=0)
    d = make.op("Exp", [c], shape, ipu=1, stage=1)
    back = {"phase": "backward"}
    g = make.op("Mul", [d, c], shape, ipu=1, stage=1, **back)
    for saved in (c, b, a, x):
        g = make.op("Mul", [g, saved], shape, ipu=0, stage=0, **back)
    make.end(start)
    return make.workload(pipeline=PipelineDescription((0, 1), 8))


def test_sequential_recomputation_frees_activations(monkeypatch):
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    # Both stages on one IPU: while the second one works, the first one's results need not be there.
    workload = pipeline(2, SEQUENTIAL, devices=(0, 0))
    kept, again = (
        Planner(workload).memory(Settings(recompute=recompute))[0] for recompute in (False, True)
    )
    assert again.live_bytes.max() < kept.live_bytes.max()


@given(workload=pipelines())
@FAST
def test_recomputation_never_raises_memory(workload):
    for kept, again in zip(
        Planner(workload).memory(Settings()), Planner(workload).memory(Settings(recompute=True))
    ):
        assert again.worst_bytes <= kept.worst_bytes
        assert (again.live_worst <= kept.live_worst.max()).all()
    assert sum(stashes(workload, recompute=True)) <= sum(stashes(workload))


def test_passed_on_values_are_stashed_by_next_stage(monkeypatch):
    # The first stage ends with a checkpoint, from which only the second one starts.
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)
    assert stashes(_with_dropout("Relu", last_checkpoint=True), recompute=True)[0] == 2 * TENSOR


# --- Recomputation without a pipeline, by hand ---

SHAPE = (64, 1024)


TENSOR_RECOMPUTATION = 4 * 64 * 1024


@pytest.fixture(autouse=True)
def free(monkeypatch):
    """Ops that need nothing but their operands and results."""
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)


def convolutions(layers, cheap="Relu"):
    """Layers of convolution, normalisation and non-linearity, forward and back."""
    make = Builder()
    weight = make.variable("w", (1,))
    value = make.op("IpuInfeedDequeue", [], SHAPE, name="in")
    kept = []
    for i in range(layers):
        x = make.op("Conv2D", [value, weight], SHAPE, name=f"{i}/conv")
        z = make.op("FusedBatchNormV3", [x, weight], SHAPE, name=f"{i}/norm")
        y = make.op(cheap, [z], SHAPE, name=f"{i}/{cheap}")
        kept.append((value, x, y))
        value = y
    g = value
    for i, (before, x, y) in reversed(list(enumerate(kept))):
        scope = f"gradients/{i}"
        g = make.op("ReluGrad", [g, y], SHAPE, name=f"{scope}/relu")
        g = make.op("FusedBatchNormGradV3", [g, x], SHAPE, name=f"{scope}/norm")
        step = make.op("Conv2DBackpropFilter", [before, g], (1,), name=f"{scope}/filter")
        make.op("ResourceApplyGradientDescent", [weight, step], name=f"{scope}/update")
        g = make.op("Conv2DBackpropInput", [weight, g], SHAPE, name=f"{scope}/input")
    return make.workload()


def live(workload, recompute):
    """Live tensors, as a multiple of one, by op."""
    (found,) = Planner(workload).memory(Settings(recompute=recompute))
    return {
        workload.ops[op].name: round(n / TENSOR_RECOMPUTATION, 2)
        for op, n in zip(found.live_ops, found.live_bytes.tolist())
    }


def test_results_of_cheap_ops_are_made_again():
    workload = convolutions(6)
    kept, again = live(workload, recompute=False), live(workload, recompute=True)
    # Kept: the input, and of each layer the results of the convolution and of Relu. At the end of
    # the last layer's forward pass that is all of them.
    assert kept["5/Relu"] == 1 + 2 * 6
    # Again: the results of Relu are made from those of the convolutions, by way of normalisation.
    # Only the last one is there, as its gradient comes at once.
    assert again["5/Relu"] == 1 + 6 + 1
    # In the middle of the backward pass there are the input, three results of convolutions, the
    # gradient, and of the three results of Relu the one that is needed now.
    assert kept["gradients/3/filter"] == 1 + 3 + 1 + 3
    assert again["gradients/3/filter"] == 1 + 3 + 1 + 1


def test_expensive_results_are_kept():
    workload = convolutions(4, cheap="MatMul")
    assert live(workload, recompute=True) == live(workload, recompute=False)


def test_it_needs_what_it_is_made_from():
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], SHAPE, name="in")
    half = make.op("Tile", [x], (2, *SHAPE), name="large")
    y = make.op("Exp", [half], (2, *SHAPE), name="exp")
    make.op("Max", [y], (), name="loss")
    g = make.op("Mul", [y, y], (2, *SHAPE), name="gradients/mul")
    make.op("Max", [g], (), name="gradients/max")
    workload = make.workload()
    # `large` is gone by then, and making it again is not cheap.
    assert live(workload, recompute=True) == live(workload, recompute=False)
