"""Bytes of variables that an op reads and writes."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.analysis.variable_traffic import bytes_of


def test_an_assignment_to_a_slice_writes_the_slice() -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(tf.zeros([8, 4]))
        variable[2:5].assign(tf.ones([3, 4]))
    (op,) = (op for op in graph.get_operations() if op.type == "ResourceStridedSliceAssign")
    assert bytes_of(op) == (0, 3 * 4 * 4)
