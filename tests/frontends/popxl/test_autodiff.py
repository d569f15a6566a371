"""Gradient graphs: values against TensorFlow, their inputs, and refusals."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops
from popxl.transforms import ExpectedConnectionType, autodiff

RNG = np.random.default_rng(1)
X = RNG.normal(size=(3, 4)).astype(np.float32)
W = RNG.normal(size=(4, 4)).astype(np.float32)
B = RNG.normal(size=4).astype(np.float32)


def layer(x: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor):
    return ops.gelu(x @ w + b)


def tf_layer(x, w, b):
    return tf.nn.gelu(x @ w + b, approximate=True)


def gradients(build, arrays):
    """Returns the values and gradients that a program computes for ones.

    Args:
        build: takes variables; returns the graph's outputs and gradients by array, in main.
        arrays: the values of the variables.
    """
    ir = popxl.Ir()
    with ir.main_graph:
        tensors = build(*(popxl.variable(array) for array in arrays))
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
        for stream, tensor in zip(streams, tensors):
            ops.host_store(stream, tensor)
    with popxl.Session(ir) as session:
        found = session.run()
    return [found[stream] for stream in streams]


def expected(function, arrays):
    variables = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        result = function(*variables)
    return [result.numpy(), *(g.numpy() for g in tape.gradient(result, variables))]


def assert_close(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def differentiated(graph, info, *inputs):
    """Calls a graph and its gradient graph, with ones for the gradient."""
    forward = ops.call_with_info(graph, *inputs)
    ones = popxl.constant(np.ones(forward.outputs[0].shape, np.float32))
    backward = ops.call_with_info(info.graph, ones, inputs_dict=info.inputs_dict(forward))
    found = info.fwd_parent_ins_to_grad_parent_outs(forward, backward)
    return [forward.outputs[0], *(found[tensor] for tensor in inputs)]


def test_gradients_equal_those_of_tensorflow():
    def build(x, w, b):
        graph = popxl.gir().create_graph(layer, x, w, b)
        return differentiated(graph, autodiff(graph), x, w, b)

    assert_close(gradients(build, [X, W, B]), expected(tf_layer, [X, W, B]))


def test_called_graphs_are_differentiated_once_with_activations():
    def network(x: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor):
        graph = popxl.gir().create_graph(layer, x, w, b)
        (hidden,) = ops.call(graph, x, w, b)
        (again,) = ops.call(graph, hidden + x, w, b)
        return again * hidden

    def build(x, w, b):
        graph = popxl.gir().create_graph(network, x, w, b)
        (inner,) = graph.called_graphs
        infos = autodiff(graph, return_all_grad_graphs=True)
        assert set(infos) == {graph, inner}
        assert infos[graph].graph.called_graphs == (infos[inner].graph,)
        assert all(len(op.outputs) == len(inner.outputs) > 1 for op in inner.call_sites)
        return differentiated(graph, infos[graph], x, w, b)

    def reference(x, w, b):
        hidden = tf_layer(x, w, b)
        return tf_layer(hidden + x, w, b) * hidden

    assert_close(gradients(build, [X, W, B]), expected(reference, [X, W, B]))


def test_the_gradient_graph_reads_what_its_ops_need():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = popxl.variable(X), popxl.variable(W)
        graph = ir.create_graph(lambda x, w: ops.exp(x @ w) + x, x, w)
        before = ops.call_with_info(graph, x, w)
        info = autodiff(graph)
    result, exponential = graph.outputs
    assert graph.inputs == info.outputs
    assert exponential.producer.opType() == "Exp"
    read = sorted([exponential, *graph.inputs], key=lambda tensor: tensor.id)
    assert [(c.connection_type.value, c.fwd_tensor) for c in info.expected_inputs] == [
        ("FwdGrad", result),
        *(("Fwd", tensor) for tensor in read),
    ]
    assert info.graph.id == f"{graph.id}_bwd" and info.forward_graph is graph
    assert info.graph.inputs[0].name == f"Gradient___{result.name}"
    assert len(before.outputs) == 2 and "autodiff_output" in before.outputs[1].name
    assert info.expected_outputs[0].connection_type is ExpectedConnectionType.FwdGrad
    with ir.main_graph, pytest.raises(TypeError, match="does not match the graph"):
        info.inputs_dict(ops.call_with_info(ir.create_graph(lambda x: x, x), x))


def test_graphs_of_loops_are_computed_again_in_gradient():
    def build(x):
        graph = popxl.gir().create_graph(lambda x: ops.tanh(ops.sin(x)), x)
        ops.repeat(graph, 2, x)
        info = autodiff(graph)
        assert len(graph.outputs) == 1
        return differentiated(graph, info, x)

    assert_close(gradients(build, [X]), expected(lambda x: tf.tanh(tf.sin(x)), [X]))


def test_gradients_of_some_tensors_only():
    def build(x, w):
        graph = popxl.gir().create_graph(lambda x, w: ops.detach(x) * w + x, x, w)
        info = autodiff(graph, grads_required=[graph.inputs[1]])
        assert len(info.graph.outputs) == 1
        forward = ops.call_with_info(graph, x, w)
        given = popxl.constant(np.full((3, 4), 2, np.float32))
        return ops.call(info.graph, given, inputs_dict=info.inputs_dict(forward))

    assert_close(gradients(build, [X, X + 1]), [2 * X])


def test_graphs_that_have_no_gradient_are_refused():
    ir = popxl.Ir()
    error = popxl.errors.popart_exception
    with ir.main_graph:
        x, n = popxl.variable(X), popxl.variable(1)
        plain = ir.create_graph(lambda x, n: x + x, x, n)
        for graph, options, message in (
            (plain, {}, "Unable to provide required gradient output"),
            (plain, {"grads_required": []}, "empty vector"),
            (plain, {"grads_provided": [x]}, "this tensor is not in the forward graph"),
            (ir.create_graph(lambda x: ops.relu_(x + 0), x), {}, "contains a modifying op"),
            (ir.create_graph(lambda x: ops.detach(x), x), {}, "Unable to provide"),
        ):
            with pytest.raises(error, match=message):
                autodiff(graph, **options)


def test_a_gradient_graph_has_names_and_an_order():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        inside = []

        def build(a: popxl.Tensor, b: popxl.Tensor):
            inside.append(a * 2.0)
            return ops.exp(inside[0]), ops.rename(b * 3.0, "other")

        graph = ir.create_graph(build, x, x)
        first, second = graph.outputs
        wanted = [graph.inputs[0], inside[0]]
        info = autodiff(graph, [second, first], wanted)
        again = autodiff(graph, [first], wanted[:1])
    # A gradient that nothing takes is an input all the same.
    assert [t.name for t in info.graph.inputs][:2] == [
        "Gradient___other",
        f"Gradient___{first.name}",
    ]
    assert (info.inputs[:2], info.outputs) == ((second, first), tuple(wanted))
    assert again.graph.id == f"{graph.id}_bwd_0"
    kinds = [connection.connection_type.value for connection in info.expected_inputs]
    assert kinds[:2] == ["FwdGrad"] * 2 and set(kinds[2:]) == {"Fwd"}
    read = [tensor.id for tensor in info.inputs[2:]]
    assert read == sorted(read) and set(info.inputs[2:]) <= {*graph.inputs, *graph.outputs}


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_integers_have_gradients(dtype):
    ir = popxl.Ir()
    a, b = np.array([1, 2], dtype), np.array([3, -4], dtype)
    with ir.main_graph:
        x, y = popxl.variable(a), popxl.variable(b)
        stores = []
        for build in (
            lambda a, b: a + a + b,
            lambda a, b: a * b,
            lambda a, b: ops.concat_([a, b]),
            lambda a, b: ops.gather(a, popxl.constant([1, 1])),
        ):
            graph = ir.create_graph(build, x, y)
            required = graph.inputs[: 1 + (len(stores) < 3)]
            info = autodiff(graph, grads_required=required)
            assert {t.dtype for t in info.graph.outputs} == {x.dtype}
            call = ops.call_with_info(graph, x, y)
            seed = popxl.constant(np.arange(1, 1 + graph.outputs[0].nelms).astype(dtype))
            grads = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
            stores.append([popxl.d2h_stream(t.shape, t.dtype) for t in grads])
            for stream, t in zip(stores[-1], grads):
                ops.host_store(stream, t)
    with popxl.Session(ir) as session:
        found = session.run()
    got = [[found[stream].tolist() for stream in row] for row in stores]
    assert got == [[[2, 4], [1, 2]], [[3, -8], [1, 4]], [[1, 2], [3, 4]], [[0, 3]]]


def test_products_keep_their_operands_and_result():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2))
        for build, outputs in (
            (lambda x, w, b: x * w + b, ["add_out", "mul_out"]),
            (lambda x, w, b: x / w + b, ["add_out", "div_out"]),
            (lambda x, w, b: x - w + b, ["add_out"]),
        ):
            graph = ir.create_graph(build, x, x, x)
            autodiff(graph)
            assert [t.name for t in graph.outputs] == outputs
