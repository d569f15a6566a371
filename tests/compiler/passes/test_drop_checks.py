"""Tests of the pass that drops assertions and numeric checks."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.passes import drop_checks, prune
from tests.support.compiled_programs import ops, program_of, scalar_target

SCALAR = tf.TensorSpec([], tf.float32)


def _dropped(function, *specs):
    program = program_of(function, *specs)
    drop_checks.run(program, scalar_target())
    prune.run(program, scalar_target())
    verify.check_structure(program)
    return program


def test_assertion_and_its_strings_go():
    def body(x):
        tf.debugging.Assert(x > 0, ["x is negative:", x])
        return x + 1

    program = _dropped(body, SCALAR)
    assert "Assert" not in ops(program)
    assert not any(
        node.attr["dtype"].type == tf.string.as_datatype_enum for _, node in program.nodes()
    )


def test_assertion_alone_leaves_a_legal_program():
    def body(x):
        tf.raw_ops.Assert(condition=x > 0, data=[x])

    assert "Assert" not in ops(_dropped(body, SCALAR))


def test_numeric_check_becomes_identity():
    program = _dropped(lambda x: tf.debugging.check_numerics(x, "bad") * 2.0, SCALAR)
    assert "CheckNumerics" not in ops(program)
    assert "Identity" in ops(program)


def test_what_the_host_runs_stays():
    def body(x):
        tf.debugging.Assert(x > 0, [x])
        return tf.debugging.check_numerics(x, "bad") * 2.0

    program = program_of(body, SCALAR)
    for node in program.functions[program.entry].node_def:
        node.attr["_xla_outside_compilation"].s = b"outside"
    drop_checks.run(program, scalar_target())
    verify.check_structure(program)
    assert {"Assert", "CheckNumerics"} <= set(ops(program))
