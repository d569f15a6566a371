"""The pass that annotates arguments with types and shapes."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.ir.target import Argument
from tensorflow_ipu.compiler.passes import specialize
from tests.support.programs.compiled_programs import default_target, program_of


def test_the_entry_has_shapes_and_types():
    variable = tf.Variable(tf.zeros([3], tf.float16))
    program = program_of(lambda x: x * tf.cast(variable, tf.float32), tf.TensorSpec([2, 3]))
    arguments = (
        Argument(tf.float32, tf.TensorShape([2, 3]), is_variable=False),
        Argument(tf.float16, tf.TensorShape([3]), is_variable=True),
    )
    specialize.annotate_arguments(program, default_target(*arguments))
    head = "function 0(x: float32[2, 3], cast_readvariableop_resource: variable float16[3])"
    assert str(program).splitlines()[0] == head
