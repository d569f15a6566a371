"""Tests of the pass that frees ops from devices."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.passes import host_placement
from tests.support.compiled_programs import program_of, scalar_target


def test_devices_and_colocation_go():
    def body(x):
        with tf.device("/device:IPU:0"):
            y = x + 1.0
        with tf.compat.v1.colocate_with(y):
            return y * 2.0

    program = program_of(body, tf.TensorSpec([], tf.float32))
    assert any(node.device for _, node in program.nodes())
    host_placement.run(program, scalar_target())
    for _, node in program.nodes():
        assert not node.device
        assert "_class" not in node.attr
