"""Tests of the pass that frees ops from devices."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.passes import host_placement
from tests.support.programs.compiled_programs import program_of, scalar_target, unindented


def test_devices_and_colocation_go():
    def body(x):
        with tf.device("/device:IPU:0"):
            y = x + 1.0
        with tf.compat.v1.colocate_with(y):
            return y * 2.0

    program = program_of(body, tf.TensorSpec([], tf.float32))
    assert "add = AddV2(x, add/y:output:0) {device=/device:IPU:0}" in str(program)
    assert "{device=/device:IPU:0, _class=[loc:@add]}" in str(program)
    host_placement.run(program, scalar_target())
    assert str(program) == unindented("""
        function 0(x: float32[])
          add/y = Const() {dtype=float32, value=1.0}
          add = AddV2(x, add/y:output:0)
          mul/y = Const() {dtype=float32, value=2.0}
          mul = Mul(add:z:0, mul/y:output:0)
          Identity = Identity(mul:z:0)
          return Identity:output:0
        """)
