"""The pass that drops unused ops and functions."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.compiler.checks import verify
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.passes import drop_ops
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import ops, program_of, scalar_target, unindented

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
    drop_ops.prune(program, scalar_target())
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
    drop_ops.prune(program, scalar_target())
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
    drop_ops.prune(program, scalar_target())
    assert list(program.functions) == ["main"]


def test_keeps_side_effects_of_traced_functions():
    variable = tf.Variable(1.0)

    def body(x):
        variable.assign_add(x)
        tf.exp(x)
        return x

    program = program_of(body, SCALAR)
    drop_ops.prune(program, scalar_target())
    assert str(program) == unindented("""
        function 0(x: float32[], assignaddvariableop_resource: resource)
          AssignAddVariableOp = AssignAddVariableOp(assignaddvariableop_resource, x)
          Identity = Identity(x, ^NoOp)
          NoOp = NoOp(^AssignAddVariableOp)
          return Identity:output:0
          run AssignAddVariableOp
        """)


# --- Tests of the pass that drops assertions and numeric checks ---


def _dropped(function, *specs):
    program = program_of(function, *specs)
    drop_ops.drop_checks(program, scalar_target())
    drop_ops.prune(program, scalar_target())
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
    drop_ops.drop_checks(program, scalar_target())
    verify.check_structure(program)
    assert str(program) == before


# --- Tests of checks of values: dropped with a word where the user wrote them, run on the host ---

tf1 = tf.compat.v1
POSITIVE, NEGATIVE = np.float32([1, 2]), np.float32([1, -2])


def _run(function, *values, replica_count=1):
    replicas.configure(replica_count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function), [tf.constant(value) for value in values])


def _named_lines(text):
    """The source of the lines that a text names."""
    found = re.findall(r"test_drop_ops.py:(\d+)", text)
    return [linecache.getline(__file__, int(line)).strip() for line in found]


def test_checks_that_the_user_wrote_are_named(warnings):
    def step(x):
        tf.debugging.assert_positive(x)
        tf.debugging.Assert(x[0] > 0, [x])
        tf1.assert_less(x, 1.0)
        x = tf.debugging.check_numerics(x, "not a number")
        return tf.debugging.assert_all_finite(x, "not finite") + 1.0

    assert list(_run(step, NEGATIVE)) == [2.0, -1.0]
    (text,) = warnings
    assert "The chip has no checks of values" in text
    assert "ipu.scopes.outside_compilation_scope()" in text
    assert "floating_point_behaviour" in text
    assert sorted(_named_lines(text)) == sorted(
        linecache.getline(__file__, step.__code__.co_firstlineno + offset).strip()
        for offset in range(1, 6)
    )


def test_checks_in_loops_and_branches_are_named(warnings):
    def step(x):
        for _ in tf.range(2):
            if x[0] > 0:
                tf.debugging.assert_positive(x)  # in the branch
            x = x + 1.0
        return x

    assert list(_run(step, NEGATIVE)) == [3.0, 0.0]
    (text,) = warnings
    assert _named_lines(text) == ["tf.debugging.assert_positive(x)  # in the branch"]


def test_they_are_named_once(warnings):
    def step(x):
        tf.debugging.assert_positive(x)
        return x + 1.0

    for size in (1, 2, 2):
        _run(step, POSITIVE[:size])
    assert len(warnings) == 1


def test_many_dropped_checks_are_counted(warnings):
    def step(x):
        tf.debugging.assert_positive(x)
        tf.debugging.assert_non_negative(x)
        tf.debugging.assert_greater(x, 0.0)
        tf.debugging.assert_less(x, 9.0)
        tf.debugging.assert_equal(x, x + 0.0)
        tf.debugging.assert_none_equal(x, 0.0)
        return x + 1.0

    _run(step, POSITIVE)
    (text,) = warnings
    assert len(_named_lines(text)) == 5
    assert "and 1 more" in text


def test_checks_of_libraries_are_not_mentioned(warnings):
    def step(x):
        labels = tf.cast(x, tf.int32)
        matrix = tf.math.confusion_matrix(labels, labels, num_classes=3)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(reduction="sum")
        loss = loss(labels, tf.one_hot(labels, 3))
        return tf.cast(tf.reduce_sum(matrix), tf.float32) + loss

    _run(step, POSITIVE)
    assert warnings == []


def test_what_nothing_uses_is_not_mentioned(warnings):
    def computation(x):
        tf.debugging.check_numerics(x, "not a number")
        return x + 1.0

    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(computation, [tf.constant(POSITIVE)])
        session.run(result)
    assert warnings == []


def test_checks_added_by_tensorflow_are_named(run_program):
    process = run_program(
        "import tensorflow as tf\n"
        "from tensorflow.python import ipu\n"
        "tf.debugging.enable_check_numerics()\n"
        "config = ipu.config.IPUConfig()\n"
        "config.auto_select_ipus = 1\n"
        "config.configure_ipu_system()\n"
        "strategy = ipu.ipu_strategy.IPUStrategy()\n"
        "with strategy.scope():\n"
        "    print(strategy.run(tf.function(lambda x: tf.math.log(x)), [tf.constant(1.0)]))\n"
    )
    assert "The chip has no checks of values" in process.stderr


@pytest.mark.parametrize("replica_count", [1, 2])
def test_a_check_on_the_host_runs(warnings, replica_count):
    def step(x):
        with scopes.outside_compilation_scope():
            tf.debugging.assert_positive(x, message="a negative element")
            y = tf.debugging.check_numerics(x, "not a number")
        return y + 1.0

    assert list(_run(step, POSITIVE, replica_count=replica_count)) == [2.0, 3.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a negative element"):
        _run(step, NEGATIVE, replica_count=replica_count)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
        _run(step, np.float32([1, np.inf]), replica_count=replica_count)
    assert warnings == []
