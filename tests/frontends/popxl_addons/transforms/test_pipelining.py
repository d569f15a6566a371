"""Pipelines against the same program without one."""

from __future__ import annotations

import contextlib

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.layers import Linear

from tensorflow_ipu.compiler import cache

RNG = np.random.default_rng(2)
STEPS = 6
X = RNG.normal(size=(STEPS, 4, 5)).astype(np.float32)
LABELS = RNG.integers(0, 3, (STEPS, 4)).astype(np.int32)


class Stage:
    """A layer on an IPU, with its accumulated gradients."""

    def __init__(self, features, spec):
        self.factories, self.forward = Linear(features).create_graph(spec)
        self.accumulators, self.backward = addons.autodiff_with_accumulation(
            self.forward, self.forward.args.tensors, grads_required=[self.forward.graph.inputs[0]]
        )
        self.weights, self.state = self.factories.init(), self.accumulators.init()


def weights_after_training(pipelined):
    """Trains for one update of the weights; returns losses and weights."""
    np.random.seed(3)
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream(X.shape[1:], popxl.float32)
        labels = popxl.h2d_stream(LABELS.shape[1:], popxl.int32)
        target = popxl.d2h_stream((), popxl.float32)
        first = Stage(7, data.spec)
        with popxl.ipu(1):
            second = Stage(3, popxl.TensorSpec((4, 7), popxl.float32))

        def batch(stage, restored):
            with stage(0), popxl.ipu(0):
                call = first.forward.bind(first.weights).call_with_info(ops.host_load(data))
                hidden = call.outputs[0].copy_to_ipu(1)
            with stage(1), popxl.ipu(1):
                above = second.forward.bind(second.weights).call_with_info(hidden)
                expected = ops.host_load(labels)
                loss, slope = addons.cross_entropy_with_grad(above.outputs[0], expected)
                ops.host_store(target, loss)
                inputs = second.backward.grad_graph_info.inputs_dict(above)
                (slope,) = second.backward.bind(second.state).call(slope, args=inputs)
                slope = slope.copy_to_ipu(0)
            with stage(2), popxl.ipu(0):
                inputs = restored(call, first.backward.grad_graph_info)
                first.backward.bind(first.state).call(slope, args=inputs)

        if pipelined:
            with addons.pipelined_execution(STEPS) as pipeline:
                batch(pipeline.stage, pipeline.stash_and_restore_activations)
        else:
            for _ in range(STEPS):
                batch(
                    lambda number: contextlib.nullcontext(),
                    lambda call, info: info.inputs_dict(call),
                )
        for number, part in enumerate((first, second)):
            with popxl.ipu(number):
                for name, weight in part.weights.to_dict().items():
                    ops.scaled_add_(weight, part.state.accum[name], b=-0.5)
                var_updates.accumulator_zero_(part.state.mean_accum_counter)
    tensors = [*first.weights.tensors, *second.weights.tensors]
    with popxl.Session(ir, "ipu_hw") as session:
        losses = [session.run({data: X, labels: LABELS})[target] for _ in range(2)]
        weights = session.get_tensors_data(tensors)
    assert not pipelined or len(ir.main_graph.called_graphs) == 1
    return [*losses, *(weights[tensor].copy() for tensor in tensors)]


def test_training_equals_that_without_a_pipeline():
    for one, other in zip(weights_after_training(True), weights_after_training(False)):
        np.testing.assert_array_equal(one, other)


def test_loop_takes_its_place_in_order_of_program():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        total = popxl.variable(1.0)
        total += 1.0
        with addons.pipelined_execution(4) as pipeline, pipeline.stage(0):
            view = total.reshape_((1,))
            var_updates.accumulate_(view, popxl.constant([2.0]))
        (loop,) = [op for op in ir.main_graph.ops if op.called]
        assert loop.called[0].name.startswith("pipeline_graph")
        doubled = addons.ops.host_store(total * 2.0)
    with popxl.Session(ir) as session:
        assert session.run()[doubled] == 20.0
        assert session.get_tensor_data(total) == 10.0


def test_wrong_pipelines_are_refused():
    with popxl.Ir().main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        with pytest.raises(ValueError, match="Pipelining requires the steps at least 2x"):
            with addons.pipelined_execution(3) as pipeline:
                for number in range(2):
                    with pipeline.stage(number):
                        ops.relu(x)
        with pytest.raises(RuntimeError, match="must be created in a stage context"):
            with addons.pipelined_execution(3):
                ops.relu(x)
        with pytest.raises(ValueError, match="takes .*, which stage 1 makes"):
            with addons.pipelined_execution(4) as pipeline:
                with pipeline.stage(1):
                    y = ops.relu(x)
                with pipeline.stage(0), popxl.in_sequence():
                    ops.var_updates.accumulator_zero_(x)
                    ops.relu(y)
        pipeline = addons.transforms.Pipelining(4)
        with pipeline.stage(1):
            with pytest.raises(RuntimeError, match="Pass from_stage"):
                pipeline.stash_and_restore_tensor(x)
            with pytest.raises(TypeError, match="Stash must be larger than 1"):
                pipeline.stash_and_restore_tensor(x, from_stage=1)
        pipeline.close()


def test_stages_overlap_in_the_plan():
    weights_after_training(True)
    executable = cache.executables()[-1]
    plan, workload = executable.plan, executable.workload
    # Three stages on two IPUs: backward passes are stages of their own.
    assert workload.pipeline.device_mapping == (0, 1, 0)
    assert (workload.pipeline.count, workload.pipeline.repeat_count) == (STEPS, 1)
    staged = {(op.stage, op.ipu) for op in workload.ops if op.stage is not None and op.inputs}
    assert staged >= {(0, 0), (1, 1), (2, 0)}
    for copy in workload.copies:
        assert (copy.stage, copy.source, copy.destination) in {(0, 0, 1), (1, 1, 0)}
        assert copy.runs == STEPS
    assert {copy.num_bytes for copy in workload.copies} == {4 * 7 * 4}
    # Cycle m + s for the micro-batch m in the stage s: 6 of 8 cycles have all stages.
    table = executable.pipeline.schedule.table
    last = {stage: table[table["stage"] == stage]["slot"].max() for stage in range(3)}
    assert last[2] - last[0] == 2
    # So the launch is shorter than what the two IPUs do, one after the other.
    busy = sum(time.cost.cycles * time.runs for time in plan.timeline.ops)
    assert plan.timeline.cycles < busy
    # Of what stage 0 made for stage 2 three values are kept: x, of 4 rows of 5 floats.
    (memory, _) = plan.memory
    (stash,) = [c for c in memory.categories if "stash" in c.name]
    assert stash.total == 3 * 4 * 5 * 4


def test_variables_are_on_ipus_of_their_ops():
    with popxl.Ir().main_graph:
        weights = [popxl.variable(np.ones(2, np.float32)) for _ in range(2)]
        with addons.pipelined_execution(4) as pipeline:
            for number, weight in enumerate(weights):
                with pipeline.stage(number), popxl.ipu(number):
                    ops.relu(weight)
        assert [weight.ipu for weight in weights] == [0, 1]
        with popxl.ipu(1):
            ops.scaled_add_(weights[1], ops.relu(popxl.constant(np.ones(2, np.float32))))


def shared(steps, x):
    """Runs three stages that read and write two variables, cycle by cycle, in NumPy."""
    weight, total, results = np.float32(0.5), np.float32(0), []
    hidden, seen = {}, {}
    for cycle in range(steps + 2):
        for stage in range(3):
            batch = cycle - stage
            if not 0 <= batch < steps:
                continue
            if stage == 0:
                hidden[batch] = x[batch] * weight, weight
            elif stage == 1:
                seen[batch] = hidden[batch][0] + total
            else:
                results.append([seen[batch], hidden[batch][1]])
                weight += hidden[batch][0] * np.float32(0.25)
                total += seen[batch]
    return weight, total, np.array(results)


def test_stages_see_writes_of_earlier_cycles():
    """Stage 2 writes the weight that stage 0 reads, and the total that stage 1 reads."""
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream((), popxl.float32)
        target = popxl.d2h_stream((2,), popxl.float32)
        weight, total = popxl.variable(0.5), popxl.variable(0.0)
        with addons.pipelined_execution(STEPS) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                hidden = ops.host_load(data) * weight
                copied = hidden.copy_to_ipu(0)
            with pipeline.stage(1), popxl.ipu(0):
                seen = copied + total
                moved = seen.copy_to_ipu(0)
            with pipeline.stage(2), popxl.ipu(0):
                before = pipeline.stash_and_restore_tensor(weight, from_stage=0)
                both = ops.concat([moved.reshape((1,)), before.reshape((1,))])
                ops.host_store(target, both)
                restored = pipeline.stash_and_restore_tensor(hidden)
                var_updates.accumulate_(weight, restored, 0.25)
                var_updates.accumulate_(total, moved)
        doubled = addons.ops.host_store((total * 2.0).reshape((1,)))
    x = RNG.normal(size=STEPS).astype(np.float32)
    right_weight, right_total, right = shared(STEPS, x)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run({data: x})
        np.testing.assert_allclose(found[target], right, rtol=1e-6)
        np.testing.assert_allclose(session.get_tensor_data(weight), right_weight, rtol=1e-6)
        np.testing.assert_allclose(found[doubled][0, 0], 2 * right_total, rtol=1e-6)


def random_stages(seed):
    """Returns for each stage its reads and writes of three variables, by number."""
    generator = np.random.default_rng(seed)
    return [
        [(bool(generator.integers(2)), int(generator.integers(3))) for _ in range(3)]
        for _ in range(int(generator.integers(2, 5)))
    ]


def by_cycles(stages, steps, x):
    """Runs random stages cycle by cycle, in NumPy; returns results and variables."""
    variables, values = [np.float32(v) for v in (1, 2, 3)], dict(enumerate(x))
    for cycle in range(steps + len(stages)):
        for stage, actions in enumerate(stages):
            batch = cycle - stage
            if 0 <= batch < steps:
                for writes, number in actions:
                    if writes:
                        variables[number] += np.float32(0.125) * values[batch]
                    else:
                        values[batch] = values[batch] * np.float32(0.5) + variables[number]
    return [values[batch] for batch in range(steps)], variables


@pytest.mark.parametrize("seed", range(3))
def test_random_stages_run_as_cycles(seed):
    stages, steps = random_stages(seed), 9
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream((), popxl.float32)
        target = popxl.d2h_stream((), popxl.float32)
        variables, value = [popxl.variable(float(number)) for number in (1, 2, 3)], None
        with addons.pipelined_execution(steps) as pipeline:
            for stage, actions in enumerate(stages):
                with pipeline.stage(stage):
                    value = ops.host_load(data) if value is None else value.copy_to_ipu(0)
                    for writes, number in actions:
                        if writes:
                            var_updates.accumulate_(variables[number], value, 0.125)
                        else:
                            value = value * 0.5 + variables[number]
                    if stage == len(stages) - 1:
                        ops.host_store(target, value)
    x = RNG.normal(size=steps).astype(np.float32)
    results, right = by_cycles(stages, steps, x)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_allclose(session.run({data: x})[target], results, rtol=1e-5)
        found = [float(session.get_tensor_data(variable)) for variable in variables]
    np.testing.assert_allclose(found, right, rtol=1e-5)
