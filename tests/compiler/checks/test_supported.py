"""Kernels of the device: ops without one are refused by name, with advice."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.checks import supported
from tests.support.programs.compiled_programs import default_target, program_of

VECTOR = tf.TensorSpec([4], tf.float32)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.cast(x, tf.float64) + 1.0, "AddV2"),
        (lambda x: tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64))), "FFT"),
        (lambda x: tf.strings.as_string(x), "AsString"),
        (lambda x: tf.py_function(lambda y: y, [x], tf.float32), "EagerPyFunc"),
        (lambda x: tf.linalg.qr(tf.reshape(x, [2, 2]))[0], "Qr"),
    ],
)
def test_what_the_device_lacks_is_named(function, op):
    program = program_of(function, VECTOR)
    with pytest.raises(tf.errors.InvalidArgumentError, match="unsupported operations") as error:
        supported.check(program, default_target())
    assert f"({op})" in str(error.value)
    assert "no supported kernel for IPU devices" in str(error.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.nn.depth_to_space(tf.reshape(x, [1, 1, 1, 4]), 2),  # by its data format
        lambda x: tf.gather_nd(x, [[1]]),  # by what happens to bad indices, since TensorFlow 2.18
    ],
)
def test_kernels_chosen_by_more_than_types_are_known(function):
    supported.check(program_of(function, VECTOR), default_target())


def test_what_to_print_with_is_named():
    def body(x):
        tf.print("x is", x)
        return x + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        supported.check(program_of(body, VECTOR), default_target())
    text = str(error.value)
    assert "(PrintV2): the device has no strings (print tensors with ipu.internal_ops" in text
    assert "ipu.internal_ops.print_tensor" in text


def test_lacking_types_do_not_select_another_op():
    """The device has sums of segments: advice for programs of fixed shapes is beside the point."""
    program = program_of(lambda x: tf.math.segment_sum(tf.cast(x, tf.float64), [0] * 4), VECTOR)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        supported.check(program, default_target())
    assert "(SegmentSum): no supported kernel for IPU devices" in str(error.value)
    assert "unsorted_segment_sum" not in str(error.value)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("EagerPyFunc", "it calls Python"),
        ("StringUpper", "the device has no strings"),
        ("FFT", "no supported kernel"),
        ("MatMul", None),
    ],
)
def test_ops_refused_whatever_their_types_are_known(op, reason):
    found = supported.refused_whatever_types(op_def_registry.get(op))
    assert found == reason or reason in found


def test_host_ops_outside_compilation_are_accepted():
    program = program_of(lambda x: tf.py_function(lambda y: y, [x], tf.float32), VECTOR)
    for _, node in program.nodes():
        node.attr["_xla_outside_compilation"].s = b"outside"
    supported.check(program, default_target())
