"""Gradients that are accumulated over calls."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.named_replica_grouping import NamedReplicaGrouping

RNG = np.random.default_rng(8)
STEPS = 4
X = RNG.normal(size=(STEPS, 2, 3)).astype(np.float32)


class Product(addons.Module):
    """A sum of products."""

    def build(self, x: popxl.Tensor):
        w = self.add_variable_input("w", lambda: np.ones(3), popxl.float32)
        return ops.sum(x * w * w)


def test_accumulators_hold_mean_since_counter_reset():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream((2, 3), popxl.float32)
        x = ops.host_load(data)
        factories, forward = Product().create_graph(x)
        accumulating, backward = addons.autodiff_with_accumulation(
            forward, forward.args.tensors, grads_required=forward.graph.inputs[:1]
        )
        assert accumulating.keys_flat() == ["mean_accum_counter", "accum.w"]
        assert all(tensor.by_ref for tensor in backward.args.tensors)
        info = backward.grad_graph_info
        assert info.outputs == (forward.graph.inputs[0], forward.args.w)
        assert len(backward.graph.outputs) == 1
        weights, state = factories.init(), accumulating.init()
        call = forward.bind(weights).call_with_info(x)
        bound = backward.bind(state)
        back = bound.call_with_info(popxl.constant(2.0), args=info.inputs_dict(call))
        by_x = addons.ops.host_store(info.fwd_graph_ins_to_grad_parent_outs(back)[info.outputs[0]])
        mean = addons.ops.host_store(ops.identity(state.accum.w))
        count = addons.ops.host_store(ops.identity(state.mean_accum_counter))
    with popxl.Session(ir, "ipu_hw") as session:
        for first in (0, 2):
            for step in range(first, first + 2):
                found = session.run({data: X[step]})
                np.testing.assert_allclose(found[by_x], 2 * np.ones((2, 3)))
                expected = 4 * X[first : step + 1].sum(1).mean(0)
                np.testing.assert_allclose(found[mean], expected, rtol=1e-5)
                assert found[count] == step - first + 1
            session.write_variable_data(state.mean_accum_counter, 0)


def test_the_counter_alone_starts_a_new_mean():
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        data = popxl.h2d_stream((2, 3), popxl.float32)
        factories, forward = Product().create_graph(data.spec)
        accumulating, backward = addons.autodiff_with_accumulation(
            forward, [forward.args.w], grads_provided=forward.graph.outputs
        )
        weights, state = factories.init(), accumulating.init()
        var_updates.accumulator_zero_(state.mean_accum_counter)

        def step(weight: popxl.Tensor, kept: list[popxl.TensorByRef]):
            with popxl.in_sequence():
                x = ops.host_load(data)
                call = forward.bind(addons.NamedTensors(w=weight)).call_with_info(x)
                names = dict(zip(("accum.w", "mean_accum_counter"), kept))
                bound = backward.bind(addons.NamedTensors.from_dict(names))
                inputs = backward.grad_graph_info.inputs_dict(call)
                bound.call(popxl.constant(1.0), args=inputs)

        tensors = [state.accum.w, state.mean_accum_counter]
        ops.repeat(ir.create_graph(step, weights.w, tensors), STEPS, weights.w, *tensors)
    with popxl.Session(ir, "ipu_hw") as session:
        for _ in range(2):
            session.run({data: X})
            expected = 2 * X.sum(1).mean(0)
            np.testing.assert_allclose(
                session.get_tensor_data(state.accum.w), expected, rtol=1e-5, atol=1e-6
            )


class Deep(addons.Module):
    """Two products with activations that their gradients read."""

    def build(self, x: popxl.Tensor, shift: popxl.Tensor):
        w = self.add_variable_input("w", lambda: np.linspace(0.1, 0.9, 9).reshape(3, 3), x.dtype)
        hidden = ops.tanh(x @ w + shift)
        return ops.tanh(hidden @ w)


def test_recomputed_gradients_are_equal_and_read_no_activations():
    ir = popxl.Ir()
    with ir.main_graph:
        x, shift = popxl.variable(X[0]), popxl.variable(np.float32(0.1))
        factories, forward = Deep().create_graph(x, shift)
        accumulating, backward = addons.autodiff_with_accumulation(
            forward, forward.args.tensors, grads_required=[forward.graph.inputs[0]]
        )
        again = addons.recompute_graph(backward)
        assert again.graph.name == f"{backward.graph.name}_recomp"
        assert set(again.grad_graph_info.inputs) <= {
            *forward.graph.inputs,
            *backward.grad_graph_info.inputs[:1],
        }
        assert again.args.keys_flat() == backward.args.keys_flat()
        weights = factories.init()
        call = forward.bind(weights).call_with_info(x, shift)
        slope = popxl.constant(np.ones((2, 3), np.float32))
        streams = []
        for graph in (backward, again):
            state = accumulating.init()
            inputs = graph.grad_graph_info.inputs_dict(call)
            with popxl.in_sequence():
                found = graph.bind(state).call(slope, args=inputs)
                streams.append([*map(addons.ops.host_store, (*found, state.accum.w))])
    with popxl.Session(ir) as session:
        results = session.run()
    for one, other in zip(*streams):
        assert results[one].any()
        np.testing.assert_array_equal(results[one], results[other])


def test_accumulators_are_like_forward_tensors_with_their_names():
    ir = popxl.Ir(4)
    with ir.main_graph:
        groups, everyone = ir.replica_grouping(group_size=2), ir.replica_grouping()
        shards = popxl.TensorSpec((2,), popxl.float32, (4,))

        def fn(x: popxl.Tensor, w: popxl.Tensor, s: popxl.Tensor, n: popxl.Tensor):
            return ops.cast(x * w, popxl.float32), s * s

        half, whole = popxl.TensorSpec((3,), popxl.float16), popxl.TensorSpec((), popxl.int32)
        graph = ir.create_graph(fn, half, half, shards, whole)
        x, w, s, _ = graph.inputs
        named = addons.GraphWithNamedArgs(graph, addons.NamedTensors.from_dict({"fc.w": w}))
        factories, backward = addons.autodiff_with_accumulation(
            named,
            [x, w, s],
            grads_required=[w],
            replica_groupings=NamedReplicaGrouping.from_dict({"fc.w": groups, "s": groups}),
        )
    names = ["mean_accum_counter", "accum.x", "accum.fc.w", "accum.s"]
    assert factories.keys_flat() == backward.args.keys_flat() == names
    types = [factories[name].dtype.name for name in names]
    assert types == ["float32", "float16", "float16", "float32"]
    assert [factories[n].replica_grouping for n in names] == [everyone, everyone, groups, groups]
    assert (factories.accum.s.meta_shape, factories.accum.s.shard_over) == ((4,), 2)
    assert factories.mean_accum_counter.shape == () and not factories.accum.x.next_data().any()
    # Gradients that are kept are still listed, but not returned.
    info = backward.grad_graph_info
    assert info.outputs == (w, x, w, s) and len(backward.graph.outputs) == 1
    assert backward.graph.inputs[-4:] == tuple(backward.args[name] for name in names)


def test_gradient_graphs_are_those_of_popxl(main):
    def fn(x: popxl.Tensor, n: popxl.Tensor):
        return ops.tanh(x) * ops.cast(n, popxl.float32)

    spec, number = popxl.TensorSpec((2,), popxl.float32), popxl.TensorSpec((), popxl.int32)
    graph = main.ir.create_graph(fn, spec, number)
    with pytest.raises(popxl.errors.popart_exception, match="Unable to provide required gradient"):
        addons.autodiff(graph)
    made = addons.autodiff(graph, grads_required=graph.inputs[:1])
    assert made.graph.name.startswith(f"{graph.name}_bwd") and not len(made.args)
    assert made.grad_graph_info.outputs == graph.inputs[:1]
    other = main.ir.create_graph(fn, spec, number)
    with pytest.raises(popxl.errors.popart_exception, match="is not in the forward graph"):
        addons.autodiff(graph, other.outputs[:1])
    with pytest.raises(AttributeError, match="Not a gradient graph"):
        addons.recompute_graph(addons.GraphWithNamedArgs(graph))


def test_recomputed_gradients_take_inputs_in_name_order(main):
    def fn(z: popxl.Tensor, x: popxl.Tensor, seed: popxl.Tensor, a: popxl.Tensor):
        return ops.dropout(ops.tanh(z) + a, seed, 0.5) * x

    spec, seed = popxl.TensorSpec((64,), popxl.float32), popxl.TensorSpec((2,), popxl.uint32)
    graph = main.ir.create_graph(fn, spec, spec, seed, spec)
    z, x, seed, a = graph.inputs
    made = addons.autodiff(graph, grads_required=[z])
    again = addons.recompute_graph(made)
    fwd = [t for t in made.grad_graph_info.inputs[1:] if t in graph.inputs]
    others = sorted(set(graph.inputs) - set(fwd), key=lambda tensor: tensor.name)
    assert again.grad_graph_info.inputs == (graph.outputs[0], *fwd, *others)
    assert again.grad_graph_info.outputs == (z,)
    assert again.graph.called_graphs[0] is graph and again.graph.called_graphs[1] is made.graph
    tensors = [popxl.constant(RNG.normal(size=64).astype(np.float32)) for _ in range(3)]
    tensors.insert(2, popxl.constant(np.array([3, 4]), popxl.uint32))
    call = ops.call_with_info(graph, *tensors)
    slope = popxl.constant(np.ones(64, np.float32))
    streams = [
        addons.ops.host_store(kind.call(slope, args=kind.grad_graph_info.inputs_dict(call))[0])
        for kind in (made, again)
    ]
    with popxl.Session(main.ir) as session:
        one, other = (session.run()[stream] for stream in streams)
    assert 0 < (one == 0).sum() < 64
    np.testing.assert_array_equal(one, other)


def test_gradient_graph_descriptions_fit_replacements():
    with popxl.Ir().main_graph:
        spec = popxl.TensorSpec((3,), popxl.float32)
        graphs = [Product().create_graph(spec)[1] for _ in range(2)]
        infos = [addons.autodiff(graph).grad_graph_info for graph in graphs]
        remapped = addons.remap_grad_info(infos[0], infos[1].forward_graph, infos[1].graph)
        assert remapped.graph is infos[1].graph
        for part in ("expected_inputs", "expected_outputs"):
            found, expected = getattr(remapped, part), getattr(infos[1], part)
            assert list(map(repr, found)) == list(map(repr, expected))
        empty = popxl.gir().create_empty_graph()
        with pytest.raises(ValueError, match="has no tensor for"):
            addons.remap_grad_info(infos[0], empty, infos[1].graph)


def test_graph_built_by_hand_is_described_as_gradient():
    ir = popxl.Ir()
    data = RNG.normal(size=3).astype(np.float32)
    with ir.main_graph:
        x = popxl.variable(data)
        forward = ir.create_graph(lambda x: x * x, x)
        backward = ir.create_graph(lambda dy, x: dy * x * 2.0, x, x)
        gradient = backward.inputs[0]
        outputs = {backward.outputs[0]: forward.inputs[0]}
        arguments = ir, forward, backward, {gradient: forward.outputs[0]}
        info = addons.create_grad_graph_info(*arguments, outputs, forward.inputs)
        call = ops.call_with_info(forward, x)
        back = ops.call_with_info(
            info.graph, popxl.constant(np.ones(3, np.float32)), inputs_dict=info.inputs_dict(call)
        )
        by_x = addons.ops.host_store(info.fwd_parent_ins_to_grad_parent_outs(call, back)[x])
        with pytest.raises(ValueError, match="No forward tensor is given for"):
            addons.create_grad_graph_info(*arguments, {}, forward.inputs)
        with pytest.raises(ValueError, match="must both be graphs of"):
            addons.create_grad_graph_info(popxl.Ir(), *arguments[1:], outputs, forward.inputs)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_allclose(session.run()[by_x], 2 * data, rtol=1e-6)
