"""The text of a Program: shown and hidden attributes."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler.ir.program import Program, called_functions
from tests.support.programs.compiled_programs import program_of, unindented

VECTOR = tf.TensorSpec([2])


def _branch(x: tf.Tensor) -> tf.Tensor:
    return tf.cond(x[0] > 0, lambda: tf.exp(x), lambda: tf.sin(x))


def test_functions_have_numbers_in_order_of_their_use() -> None:
    first, second = (program_of(lambda x: tf.sin(_branch(x)), VECTOR) for _ in range(2))
    assert first.functions.keys() != second.functions.keys()
    assert str(first) == str(second)
    heads = [line for line in str(first).splitlines() if not line.startswith(" ")]
    assert heads == [
        "function 0(x: float32[2])",
        "function 1(cond_sin_x: float32[2])",
        "function 2(cond_exp_x: float32[2])",
    ]
    assert "else_branch=function 1, output_shapes" not in str(first)
    assert "{Tout=[float32], else_branch=function 1, then_branch=function 2}" in str(first)


def test_attributes_of_scopes_are_readable() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        with scopes.ipu_shard([0, 2]), scopes.stochastic_rounding(True):
            y = tf.exp(x)
        with scopes.partials_type(tf.float16):
            return tf.matmul(y[None], y[:, None], name="product")

    text = str(program_of(function, VECTOR))
    assert "Exp = Exp(x) {ipus=0+2, STOCHASTIC_ROUNDING=THREESTATE_ON}" in text
    assert "{PARTIALS_TYPE=F16}" in next(x for x in text.splitlines() if "product = " in x)


def test_derivable_attributes_are_left_out() -> None:
    program = program_of(
        lambda x: tf.cast(tf.matmul(x, x, transpose_b=True), tf.float16), tf.TensorSpec([2, None])
    )
    assert str(program) == unindented("""
        function 0(x: float32[2, None])
          MatMul = MatMul(x, x) {transpose_b=True}
          Cast = Cast(MatMul:product:0) {DstT=float16}
          Identity = Identity(Cast:y:0)
          return Identity:output:0
        """)


def test_large_constants_are_shown_by_type_and_shape() -> None:
    text = str(program_of(lambda: (tf.constant([1, 2]), tf.constant([[0.5] * 5] * 2))))
    assert "Const = Const() {dtype=int32, value=[1, 2]}" in text
    assert "Const_1 = Const() {dtype=float32, value=float32[2, 5]}" in text


def test_attributes_of_an_unknown_op_are_all_shown() -> None:
    function = function_pb2.FunctionDef()
    function.signature.name = "main"
    node = function.node_def.add(name="a", op="NobodysOp", input=["x"])
    node.attr["T"].type = tf.int32.as_datatype_enum
    node.attr["names"].list.s.extend([b"b", b"\xff"])
    node.attr["empty"].list.SetInParent()
    node.attr["_hidden"].b = True
    assert str(Program({"main": function}, "main")) == unindented(r"""
        function 0()
          a = NobodysOp(x) {T=int32, empty=[], names=[b, \xff]}
        """)


def test_functions_that_nothing_calls_come_last() -> None:
    program = program_of(_branch, VECTOR)
    other = program_of(lambda: tf.constant(1))
    unused = other.functions[other.entry]
    unused.signature.name = "unused"
    functions = {"unused": unused, **program.functions}
    text = str(Program(functions, program.entry))
    assert text.startswith(str(program))
    assert text[len(str(program)) :].strip().startswith("function 3()")


def test_called_functions_are_all_that_attributes_name() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.while_loop(lambda y: y[0] < 3, lambda y: (tf.function(tf.exp)(y),), (x,))[0]
        branches = [lambda: tf.sin(y), lambda: _branch(y), lambda: tf.cos(y)]
        return tf.switch_case(tf.cast(x[0], tf.int32), branches)

    program = program_of(function, VECTOR)
    seen = set()
    for _, node in program.nodes():
        named = [
            one.name
            for key in sorted(node.attr)
            for one in (
                [node.attr[key].func]
                if node.attr[key].HasField("func")
                else node.attr[key].list.func
            )
        ]
        assert called_functions(node) == named
        seen.update(named)
    assert len(seen) >= 7
    assert program.names_by_use()[0] == program.entry
    assert set(program.names_by_use()) == set(program.functions) == seen | {program.entry}
