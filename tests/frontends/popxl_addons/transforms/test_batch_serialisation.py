"""Graphs as loops over micro-batches, against the same calls one after the other."""

from __future__ import annotations

import functools

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons.transforms.batch_serialisation import RemoteHandle, batch_serialise

STEPS, ROWS = 3, 2
RNG = np.random.default_rng(7)
X = RNG.normal(size=(STEPS, 4, 6)).astype(np.float32)
W = RNG.normal(size=(6, 6)).astype(np.float32)


class Scaled(addons.Module):
    """A product with a weight, which counts its calls."""

    def build(self, x: popxl.Tensor):
        weight = self.add_variable_input("weight", lambda: W)
        count = self.add_variable_input("count", lambda: np.float32(0), by_ref=True)
        count += 1.0
        return x @ weight


@pytest.mark.parametrize("io_mode", ["compute", "io", "io_overlapped"])
def test_rows_of_a_buffer_are_layers(io_mode):
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream(X.shape[1:], popxl.float32)
        results, kept = (popxl.d2h_stream(X.shape[1:], popxl.float32) for _ in range(2))
        factories, layer = Scaled().create_graph(data.spec)
        x, y = layer.graph.inputs[0], layer.graph.outputs[0]
        rows = addons.batch_serial_buffer(x)
        load = ir.create_graph(lambda x: ops.identity(x), data.spec)
        first = batch_serialise(
            load, STEPS, {load.inputs[0]: data}, {}, {load.inputs[0]: (rows, 0)}, None, 1, io_mode
        )
        loop = batch_serialise(
            layer, STEPS, {x: (rows, 0)}, {}, {y: RemoteHandle(rows, 1)}, None, ROWS, io_mode
        )
        last = batch_serialise(
            layer,
            STEPS,
            {x: RemoteHandle(rows, lambda row: row + ROWS)},
            {y: results, x: kept},
            {},
            io_mode=io_mode,
        )
        assert (rows.tensor_shape, rows.entries) == (X.shape[1:], STEPS * (ROWS + 1))
        variables = factories.init()
        first.graph.call(0)
        bound = loop.graph.bind(variables)
        for row in range(ROWS):
            bound.call(row)
        last.graph.bind(variables).call(0)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run({data: X})
        assert session.get_tensor_data(variables.count) == STEPS * (ROWS + 1)
    np.testing.assert_allclose(found[kept], X @ W @ W, rtol=1e-5)
    np.testing.assert_allclose(found[results], X @ W @ W @ W, rtol=1e-5)


def test_what_is_known_of_a_loop():
    ir = popxl.Ir()
    with ir.main_graph:
        factories, layer = Scaled().create_graph(popxl.TensorSpec((4, 6), popxl.float32))
    x, y = layer.graph.inputs[0], layer.graph.outputs[0]
    buffers = [addons.batch_serial_buffer(x, 1, rows=rows) for rows in (2, 1, 1)]
    target = RemoteHandle(buffers[1], None)
    result = addons.batch_serialise(
        layer, STEPS, {x: RemoteHandle(buffers[0], 2)}, {}, {y: target, x: (buffers[2], 0)}, rows=4
    )
    assert [buffer.entries for buffer in buffers] == [STEPS * (2 + 4), STEPS, 1]
    # What is loaded from a buffer is not stored again.
    assert result.stored_buffers == {y: target}
    graph = result.graph.graph
    assert graph.name == f"{layer.graph.name}__repeat_graph"
    row, weight, count = graph.inputs
    assert (row.name, row.dtype, row.shape) == ("batch_serial_loop_index", popxl.int32, ())
    assert result.graph.args.to_dict() == {"weight": weight, "count": count} and not graph.outputs
    assert (weight.by_ref, count.by_ref) == (False, True)
    assert result.remap_tensors(layer.args).to_dict() == result.graph.args.to_dict()
    with pytest.raises(KeyError):
        result.remap_tensors(addons.NamedTensors(x=x))


def test_each_step_has_another_seed():
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        target = popxl.d2h_stream((8,), popxl.float32)

        def draw(seed: popxl.Tensor, unused: popxl.Tensor):
            return ops.random_uniform(seed, (8,))

        spec = popxl.TensorSpec((2,), popxl.uint32)
        graph = ir.create_graph(draw, spec, spec)
        seed_input, unused = graph.inputs
        result = batch_serialise(graph, STEPS, {}, {graph.outputs[0]: target}, {}, seed_input)
        names = [tensor.name for tensor in result.graph.graph.inputs]
        assert names == ["batch_serial_loop_index", "batch_serial_random_seed", "unused"]
        seed = popxl.variable(popxl.create_seeds(3))
        result.graph.call(0, seed, args={result.remap_dict[unused]: seed})
        expected = []
        for _ in range(STEPS):
            own, seed = ops.split_random_seed(seed)
            (drawn,) = ops.call(graph, own, own)
            expected.append(addons.ops.host_store(drawn.reshape((1, 8))))
    ir.num_host_transfers = STEPS
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()
    for step, stream in enumerate(expected):
        np.testing.assert_array_equal(found[target][step], found[stream][0, 0])
    assert len({row.tobytes() for row in found[target]}) == STEPS


@pytest.mark.parametrize("replicas", [1, 2])
def test_entries_may_be_shards(replicas):
    ir = popxl.Ir(replicas)
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream(X.shape[1:], popxl.float32)
        results = popxl.d2h_stream(X.shape[1:], popxl.float32)
        group = ir.replica_grouping()
        graph = ir.create_graph(lambda x: ops.identity(x), data.spec)
        x, y = graph.inputs[0], graph.outputs[0]
        buffer = addons.batch_serial_buffer(x, STEPS, 1, group)
        assert buffer.tensor_shape == ((4, 6) if replicas == 1 else (12,))
        handle = RemoteHandle(buffer, 0, group)
        store = batch_serialise(graph, STEPS, {x: data}, {}, {y: handle})
        load = batch_serialise(graph, STEPS, {x: handle}, {y: results}, {}, io_mode="compute")
        store.graph.call(0)
        load.graph.call(0)
    lanes = np.stack([X] * replicas, 1) if replicas > 1 else X
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run({data: lanes})[results], lanes)


def test_wrong_loops_are_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        spec = popxl.TensorSpec((4, 6), popxl.float32)
        other = popxl.variable(X[0])
        stream = popxl.h2d_stream((3,), popxl.float32)
        graph = ir.create_graph(lambda x: ops.relu(x), spec)
        (x,) = graph.inputs
    buffer = addons.batch_serial_buffer(x)

    def refused(error, phrase, loads=None, stores=None, steps=2, **options):
        with pytest.raises(error, match=phrase):
            batch_serialise(graph, steps, loads or {}, {}, stores or {}, **options)

    refused(ValueError, "Unknown 'io_mode'", io_mode="other")
    refused(ValueError, "rows must be an integer of at least 1", rows=0)
    refused(ValueError, "steps must be an integer of at least 1", steps=0)
    refused(ValueError, "load_handles: expected some of", {other: stream})
    refused(ValueError, "store_buffers: expected some of", stores={other: (buffer, 0)})
    refused(ValueError, "seed_input: expected some of", seed_input=other)
    for wrong in (3, buffer, (3, 0)):
        refused(ValueError, "a stream or a RemoteHandle", {x: wrong})
        refused(ValueError, "a stream or a RemoteHandle", stores={x: wrong})
    refused(popxl.errors.popart_exception, "does not match callee input", {x: stream})


def test_too_few_steps_to_overlap_are_told(caplog):
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(lambda x: ops.relu(x), popxl.TensorSpec((2,), popxl.float32))
    batch_serialise(graph, 1, {}, {}, {}, io_mode="io_overlapped")
    assert "io_overlapped needs at least 2 steps" in caplog.text


class Layer(addons.Module):
    """A layer with dropout."""

    def build(self, x: popxl.Tensor, seed: popxl.Tensor):
        weight = self.add_variable_input("weight", lambda: W)
        return ops.dropout(ops.gelu(x @ weight), seed, 0.25)


class Run:
    """Layers with one weight, and their gradients, for all micro-batches: a program of one run."""

    def __init__(self, replicas, recompute, phases):
        """Makes the program.

        Args:
            replicas: how many replicas there are.
            recompute: whether activations are computed again.
            phases: makes the calls, in phases or not.
        """
        self.ir = popxl.Ir(replicas)
        self.ir.num_host_transfers = STEPS
        with self.ir.main_graph, popxl.in_sequence():
            self.data = popxl.h2d_stream(X.shape[1:], popxl.float32)
            self.results, self.slopes = (
                popxl.d2h_stream(X.shape[1:], popxl.float32) for _ in range(2)
            )
            seed_spec = popxl.TensorSpec((2,), popxl.uint32)
            factories, self.forward = Layer().create_graph(self.data.spec, seed_spec)
            accumulators, self.backward = addons.autodiff_with_accumulation(
                self.forward,
                self.forward.args.tensors,
                grads_required=[self.forward.graph.inputs[0]],
            )
            if recompute:
                self.backward = addons.recompute_graph(self.backward)
            self.weights, self.state = factories.init(), accumulators.init()
            self.seed = popxl.variable(popxl.create_seeds(5))
            phases(self)

    def values(self):
        """Runs it, and returns results, gradients and accumulators."""
        replicas = self.ir.replication_factor
        lanes = np.stack([X] * replicas, 1) if replicas > 1 else X
        with popxl.Session(self.ir, "ipu_hw") as session:
            found = session.run({self.data: lanes})
            kept = session.get_tensors_data(self.state.tensors)
        accumulated = [kept[tensor].copy() for tensor in self.state.tensors]
        return [found[self.results], found[self.slopes], *accumulated]


def one_after_the_other(run):
    """Calls the graphs for each layer and micro-batch; gradients begin with the results."""
    seeds, seed, calls = [], run.seed, []
    for _ in range(STEPS):
        own, seed = ops.split_random_seed(seed)
        seeds.append(own)
    values = [ops.host_load(run.data) for _ in range(STEPS)]
    for _ in range(ROWS):
        bound = run.forward.bind(run.weights)
        infos = [bound.call_with_info(value, seed) for value, seed in zip(values, seeds)]
        calls.append(infos)
        values = [info.outputs[0] for info in infos]
    for value in values:
        ops.host_store(run.results, value)
    for infos in reversed(calls):
        inner = [run.backward.grad_graph_info.inputs_dict(info) for info in infos]
        bound = run.backward.bind(run.state)
        values = [bound.call(value, args=args)[0] for value, args in zip(values, inner)]
    for value in values:
        ops.host_store(run.slopes, value)


def in_phases(shard, run):
    """Calls a loop over micro-batches for each layer.

    Args:
        shard: whether activations are sharded over replicas. All have the same data.
        run: the program.
    """
    graph, gradient = run.forward.graph, run.backward.graph
    x, seed, y = *graph.inputs[:2], graph.outputs[0]
    copy = run.ir.create_graph(lambda x: ops.identity(x), run.data.spec)
    rows, slopes = (addons.batch_serial_buffer(x) for _ in range(2))

    def copied(source, streams, buffers):
        """Copies a row of micro-batches."""
        targets = [dict(zip(copy.outputs, found)) for found in (streams, buffers)]
        batch_serialise(copy, STEPS, {copy.inputs[0]: source}, *targets).graph.call(0)

    group = run.ir.replica_grouping()
    extra = {tensor: group for tensor in graph.outputs[1:]} if shard else {}
    forward, backward = addons.batch_serialise_fwd_and_grad(
        run.forward,
        run.backward,
        run.forward.args,
        STEPS,
        load_handles={x: RemoteHandle(rows, 0), gradient.inputs[0]: RemoteHandle(slopes, 1)},
        store_streams={},
        store_buffers={y: (rows, 1), gradient.outputs[0]: (slopes, 0), **extra},
        seed_input=seed,
        rows=ROWS,
    )
    copied(run.data, [], [(rows, 0)])
    for row in range(ROWS):
        forward.graph.bind(run.weights).call(row, run.seed)
    copied((rows, ROWS), [run.results], [])
    copied((rows, ROWS), [], [(slopes, ROWS)])
    state = addons.NamedTensors.from_dict({**run.weights.to_dict(), **run.state.to_dict()})
    for row in reversed(range(ROWS)):
        backward.graph.bind(state).call(row)
    copied((slopes, 0), [run.slopes], [])


@pytest.fixture(scope="module")
def without_phases():
    """Results of the program without phases."""
    return Run(1, False, one_after_the_other).values()


@pytest.mark.parametrize(
    ("replicas", "recompute", "shard"),
    [(1, False, False), (1, True, False), (2, False, True)],
    ids=["activations kept", "activations computed again", "activations sharded"],
)
def test_phases_equal_the_program_without(without_phases, replicas, recompute, shard):
    found = Run(replicas, recompute, functools.partial(in_phases, shard)).values()
    for one, other in zip(found, without_phases):
        expected = np.stack([other] * replicas, 1) if one.shape != other.shape else other
        np.testing.assert_array_equal(one, expected)


def test_wrong_gradient_loops_are_refused():
    ir = popxl.Ir()
    with ir.main_graph:
        spec = popxl.TensorSpec((4, 6), popxl.float32)
        _, forward = Layer().create_graph(spec, popxl.TensorSpec((2,), popxl.uint32))
        x, seed = forward.graph.inputs[:2]
        backward = addons.autodiff(forward, grads_required=[x])

        def refused(error, phrase, grad=backward, loads=None):
            with pytest.raises(error, match=phrase):
                addons.batch_serialise_fwd_and_grad(
                    forward, grad, forward.args, 2, loads or {}, {}, {}, seed
                )

        refused(ValueError, "must have a load_handle")
        refused(AttributeError, "Not a gradient graph", forward)
        buffer = addons.batch_serial_buffer(x)
        forward.graph.take_outputs()
        refused(
            RuntimeError,
            "Fwd Connection",
            backward,
            {backward.graph.inputs[0]: (buffer, 0)},
        )
