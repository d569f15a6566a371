"""Tests of the pass that drops assertions and numeric checks."""

from __future__ import annotations

import tensorflow as tf

from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.passes import drop_checks, prune
from tests.support.programs.compiled_programs import ops, program_of, scalar_target, unindented

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

    assert str(_dropped(body, SCALAR)) == "function 0(x: float32[])"


def test_numeric_check_becomes_identity():
    program = _dropped(lambda x: tf.debugging.check_numerics(x, "bad") * 2.0, SCALAR)
    assert str(program) == unindented("""
        function 0(x: float32[])
          CheckNumerics = Identity(x)
          mul/y = Const() {dtype=float32, value=2.0}
          mul = Mul(CheckNumerics:output:0, mul/y:output:0)
          Identity = Identity(mul:z:0, ^NoOp)
          NoOp = NoOp(^CheckNumerics)
          return Identity:output:0
          run CheckNumerics
        """)


def test_what_the_host_runs_stays():
    def body(x):
        tf.debugging.Assert(x > 0, [x])
        return tf.debugging.check_numerics(x, "bad") * 2.0

    program = program_of(body, SCALAR)
    for node in program.functions[program.entry].node_def:
        node.attr["_xla_outside_compilation"].s = b"outside"
    before = str(program)
    assert "= Assert(" in before and "= CheckNumerics(" in before
    drop_checks.run(program, scalar_target())
    verify.check_structure(program)
    assert str(program) == before
