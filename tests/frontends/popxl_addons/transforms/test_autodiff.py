"""Gradients that are accumulated over calls."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl.ops import var_updates

RNG = np.random.default_rng(8)
STEPS = 4
X = RNG.normal(size=(STEPS, 2, 3)).astype(np.float32)


class Product(addons.Module):
    """A sum of products."""

    def build(self, x: popxl.Tensor):
        w = self.add_variable_input("w", lambda: np.ones(3), popxl.float32)
        return ops.sum(x * w * w)


def test_accumulators_hold_the_mean_of_the_gradients_since_the_counter_was_zero():
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
