"""The gradient of a choice between two graphs, compared with TensorFlow."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops
from popxl.transforms import autodiff

from tests.support.popxl import popxl_programs


def build(flag, x, w):
    """Stores the result, and the gradients of a graph that chooses."""
    ir = popxl.gcg().ir

    def choose(flag, x, w):
        x = ops.sin(x)
        one = ir.create_graph(lambda a, b: [ops.exp(ops.tanh(a) * b), a + b], x, w)
        other = ir.create_graph(lambda a: [a * a, ops.tanh(a)], x)
        y, z = ops.conditional(flag, one, other, [x, w], [x])
        return y * z

    graph = ir.create_graph(choose, flag, x, w)
    info = autodiff(graph, grads_required=graph.inputs[1:])
    forward = ops.call_with_info(graph, flag, x, w)
    start = popxl.constant(np.float32([1, 2, 3]))
    dx, dw = ops.call(info.graph, start, inputs_dict=info.inputs_dict(forward))
    return {"y": forward.outputs[0], "dx": dx, "dw": dw}


def expected(flag, x, w):
    x, w = tf.constant(x), tf.constant(w)
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        s = tf.sin(x)
        y = tf.exp(tf.tanh(s) * w) * (s + w) if flag else s * s * tf.tanh(s)
    gradients = tape.gradient(
        y, [x, w], tf.constant([1.0, 2, 3]), unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    return [y, *gradients]


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_gradients_are_those_of_graph_that_was_chosen(replicas):
    data = np.random.default_rng(0).normal(size=(2, replicas, 3)).astype(np.float32)
    flags = np.arange(replicas) % 2 == 0
    for chosen in (flags, ~flags):
        lead = slice(None) if replicas > 1 else 0
        found = popxl_programs.run(
            build, [chosen[lead], data[0][lead], data[1][lead]], replicas=replicas
        )
        for replica in range(replicas):
            wanted = expected(chosen[replica], data[0, replica], data[1, replica])
            for name, array in zip(("y", "dx", "dw"), wanted):
                own = found[name][replica] if replicas > 1 else found[name]
                np.testing.assert_allclose(own, array, rtol=1e-5, atol=1e-6, err_msg=name)
