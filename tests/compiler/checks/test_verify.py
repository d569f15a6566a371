"""Tests of what the compiler accepts."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler import passes
from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.passes import runner
from tests.support.programs.compiled_programs import default_target, program_of

VECTOR = tf.TensorSpec([4], tf.float32)


def test_a_traced_function_is_whole():
    verify.check_structure(program_of(lambda x: tf.map_fn(tf.exp, x), VECTOR))


def test_a_missing_input_is_named():
    program = program_of(lambda x: x + 1.0, VECTOR)
    program.functions[program.entry].node_def[-1].input[0] = "nobody:z:0"
    with pytest.raises(tf.errors.InternalError, match="nobody:z:0, which does not exist"):
        verify.check_structure(program)


def test_a_missing_function_is_named():
    program = program_of(lambda x: tf.map_fn(tf.exp, x), VECTOR)
    removed = next(name for name in program.functions if name != program.entry)
    del program.functions[removed]
    with pytest.raises(tf.errors.InternalError, match="which does not exist"):
        verify.check_structure(program)


def test_two_nodes_of_one_name_are_refused():
    program = program_of(lambda x: x + 1.0, VECTOR)
    function = program.functions[program.entry]
    function.node_def.add().CopyFrom(function.node_def[0])
    with pytest.raises(tf.errors.InternalError, match="has two nodes called"):
        verify.check_structure(program)


def test_a_lost_effect_is_named(monkeypatch):
    def drop(program, target):
        function = program.functions[program.entry]
        next(node for node in function.node_def if node.op == "PrintV2").name = "other"
        for node in function.node_def:
            node.input[:] = [name.replace("^PrintV2", "^other") for name in node.input]
        function.control_ret.clear()

    monkeypatch.setitem(passes.LOWERING, "numerics", drop)
    program = program_of(lambda x: (tf.print("x"), x)[1], VECTOR)
    with pytest.raises(tf.errors.InternalError, match="pass numerics has lost .*'PrintV2'"):
        runner.lower(program, default_target())


def test_an_effect_that_nothing_waits_for_is_named():
    program = program_of(lambda x: (tf.print("x"), x)[1], VECTOR)
    verify.check_effects(program)
    program.functions[program.entry].control_ret.clear()
    with pytest.raises(tf.errors.InternalError, match="PrintV2 has an effect that may be dropped"):
        verify.check_effects(program)


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
        verify.check_supported(program)
    assert f"({op})" in str(error.value)
    assert "no supported kernel for IPU devices" in str(error.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.nn.depth_to_space(tf.reshape(x, [1, 1, 1, 4]), 2),  # by its data format
        lambda x: tf.gather_nd(x, [[1]]),  # by what happens to bad indices, since TensorFlow 2.18
    ],
)
def test_kernels_that_are_chosen_by_more_than_types_are_known(function):
    verify.check_supported(program_of(function, VECTOR))


def test_what_to_print_with_is_named():
    def body(x):
        tf.print("x is", x)
        return x + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        verify.check_supported(program_of(body, VECTOR))
    text = str(error.value)
    assert "(PrintV2): the device has no strings (print tensors with ipu.internal_ops" in text
    assert "ipu.internal_ops.print_tensor" in text


def test_types_that_the_device_lacks_are_no_reason_for_another_op():
    """The device has sums of segments: advice for programs of fixed shapes is beside the point."""
    program = program_of(lambda x: tf.math.segment_sum(tf.cast(x, tf.float64), [0] * 4), VECTOR)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        verify.check_supported(program)
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
def test_ops_that_are_refused_whatever_their_types_are_known(op, reason):
    found = verify.refused_whatever_types(op_def_registry.get(op))
    assert found == reason or reason in found


def test_host_ops_outside_compilation_are_accepted():
    program = program_of(lambda x: tf.py_function(lambda y: y, [x], tf.float32), VECTOR)
    for _, node in program.nodes():
        node.attr["_xla_outside_compilation"].s = b"outside"
    verify.check_supported(program)
