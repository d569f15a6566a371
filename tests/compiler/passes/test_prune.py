"""The pass that drops unused ops and functions."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.passes import prune
from tests.support.programs.compiled_programs import program_of, scalar_target, unindented

SCALAR = tf.TensorSpec([], tf.float32)


def _function(name: str, *nodes: tuple[str, str, list[str]], ret: str = "", run: str = ""):
    function = function_pb2.FunctionDef()
    function.signature.name = name
    function.signature.input_arg.add(name="x", type=tf.float32.as_datatype_enum)
    for node, op, inputs in nodes:
        function.node_def.add(name=node, op=op, input=inputs)
    if ret:
        function.ret["r"] = ret
    if run:
        function.control_ret["c"] = run
        function.signature.control_output.append("c")
    return function


def test_keeps_what_results_need():
    main = _function(
        "main",
        ("a", "Neg", ["x"]),
        ("unused", "Exp", ["a:y:0"]),
        ("b", "Neg", ["a:y:0", "^c"]),
        ("c", "NoOp", []),
        ("stateful", "IpuPrintTensor", ["x"]),
        ret="b:y:0",
    )
    program = Program({"main": main}, "main")
    prune.run(program, scalar_target())
    assert str(program) == unindented("""
        function 0(x: float32)
          a = Neg(x)
          b = Neg(a:y:0, ^c)
          c = NoOp()
          return b:y:0
        """)


def test_keeps_what_control_results_need():
    main = _function("main", ("p", "IpuPrintTensor", ["n:y:0"]), ("n", "Neg", ["x"]), run="p")
    program = Program({"main": main}, "main")
    prune.run(program, scalar_target())
    assert str(program) == unindented("""
        function 0(x: float32)
          p = IpuPrintTensor(n:y:0)
          n = Neg(x)
          run p
        """)


def test_drops_functions_that_nothing_calls():
    main = _function("main", ("a", "Neg", ["x"]), ("dead", "PartitionedCall", ["x"]), ret="a:y:0")
    main.node_def[1].attr["f"].func.name = "helper"
    program = Program({"main": main, "helper": _function("helper", ret="x")}, "main")
    prune.run(program, scalar_target())
    assert list(program.functions) == ["main"]


def test_keeps_side_effects_of_traced_functions():
    variable = tf.Variable(1.0)

    def body(x):
        variable.assign_add(x)
        tf.exp(x)
        return x

    program = program_of(body, SCALAR)
    prune.run(program, scalar_target())
    assert str(program) == unindented("""
        function 0(x: float32[], assignaddvariableop_resource: resource)
          AssignAddVariableOp = AssignAddVariableOp(assignaddvariableop_resource, x)
          Identity = Identity(x, ^NoOp)
          NoOp = NoOp(^AssignAddVariableOp)
          return Identity:output:0
          run AssignAddVariableOp
        """)
