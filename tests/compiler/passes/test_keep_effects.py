"""Tests of the pass that keeps effects between the beginning and the end of a function."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.passes import keep_effects
from tests.support.programs.compiled_programs import program_of, scalar_target, unindented

SCALAR = tf.TensorSpec([], tf.float32)


def _function(name: str, nodes: list[tuple[str, str, list[str]]], **results: str):
    function = function_pb2.FunctionDef()
    function.signature.name = name
    function.signature.input_arg.add(name="x", type=tf.float32.as_datatype_enum)
    for node, op, inputs in nodes:
        function.node_def.add(name=node, op=op, input=inputs)
    for result, reference in results.items():
        function.signature.output_arg.add(name=result, type=tf.float32.as_datatype_enum)
        function.ret[result] = reference
    return function


def _kept(program: Program) -> Program:
    keep_effects.run(program, scalar_target())
    verify.check_structure(program)
    verify.check_effects(program)
    return program


def test_effects_lie_between_arguments_and_results():
    """One result waits for an effect already, and nobody uses it."""
    called = _function(
        "called",
        [
            ("a", "IpuPrintTensor", ["x"]),
            ("b", "IpuPrintTensor", ["a:output:0"]),
            ("c", "Identity", ["x", "^b"]),
        ],
        first="c:output:0",
        second="x",
    )
    main = _function(
        "main",
        [("call", "PartitionedCall", ["x"]), ("use", "Neg", ["call:output:1"])],
        result="use:y:0",
    )
    main.node_def[0].attr["f"].func.name = "called"
    assert str(_kept(Program({"main": main, "called": called}, "main"))) == unindented("""
        function 0(x: float32)
          call = StatefulPartitionedCall(x) {f=function 1}
          use = Neg(call:output:1)
          return use:y:0
          run call
        function 1(x: float32)
          a = IpuPrintTensor(x, ^ipu_at_start)
          b = IpuPrintTensor(a:output:0)
          c = Identity(x, ^b)
          ipu_at_start = NoOp(^x)
          second/ipu_at_end = Identity(x, ^b)
          return c:output:0
          return second/ipu_at_end:output:0
          run b
        """)


def test_conditions_and_branches_end_after_effects_not_bodies():
    def program(x):
        def condition(v):
            tf.print("condition")
            return v < 10

        def body(v):
            tf.print("body")
            return [v + 1]

        looped = tf.while_loop(condition, body, [x])[0]
        return tf.cond(x > 0, lambda: (tf.print("then"), looped)[1], lambda: x)

    traced = program_of(program, SCALAR)
    for function in traced.functions.values():  # as TensorFlow 1 traces
        function.control_ret.clear()
        del function.signature.control_output[:]
        for node in function.node_def:
            node.input[:] = [reference for reference in node.input if reference[0] != "^"]
    kept = _kept(traced)
    waiting = {
        name: any(node.name.endswith("ipu_at_end") for node in function.node_def)
        for name, function in kept.functions.items()
    }
    (loop,) = (node for _, node in kept.nodes() if node.op == "While")
    (branch,) = (node for _, node in kept.nodes() if node.op == "If")
    assert waiting[loop.attr["cond"].func.name]
    assert not waiting[loop.attr["body"].func.name]
    assert waiting[branch.attr["then_branch"].func.name]
    assert not waiting[branch.attr["else_branch"].func.name]


def test_programs_without_effects_in_functions_are_unchanged():
    program = program_of(lambda x: tf.map_fn(tf.exp, tf.fill([3], x)), SCALAR)
    before = str(program)
    assert str(_kept(program)) == before
