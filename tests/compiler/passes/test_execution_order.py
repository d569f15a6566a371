"""Tests of the pass that makes loops sequential."""

from __future__ import annotations

import dataclasses
import re

import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler.checks import replica_checks, verify
from tensorflow_ipu.compiler.ir import effects, function_nodes
from tensorflow_ipu.compiler.ir.program import Program, input_node
from tensorflow_ipu.compiler.passes import execution_order, specialize
from tensorflow_ipu.ops import all_to_all_op, cross_replica_ops, replication_ops
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tests.support.programs.compiled_programs import ops, program_of, scalar_target, unindented


def test_every_loop_runs_one_iteration_at_a_time():
    def body(x):
        for _ in tf.range(3):
            for _ in tf.range(2):
                x += 1.0
        return x

    program = program_of(body, tf.TensorSpec([], tf.float32))
    before = str(program)
    assert before.count("= StatelessWhile(") == 2 and "parallel_iterations" not in before
    execution_order.run_iterations_in_turn(program, scalar_target())
    expected = re.sub(r"(cond=function \d+)}", r"\1, parallel_iterations=1}", before)
    assert str(program) == expected != before


# --- Tests of the pass that puts collectives into one order, and of the one for constants ---

SCALAR = tf.TensorSpec([], tf.float32)


def _target(replicas: int):
    return dataclasses.replace(scalar_target(), replicas=replicas)


def _ordered(function, replicas: int = 2) -> Program:
    program = program_of(function, SCALAR)
    for one in program.functions.values():  # as TensorFlow 1 traces: nothing runs but for a result
        one.control_ret.clear()
        del one.signature.control_output[:]
        for node in one.node_def:
            kept = [reference for reference in node.input if not reference.startswith("^")]
            del node.input[:]
            node.input.extend(kept)
    execution_order.order_collectives(program, _target(replicas))
    verify.check_structure(program)
    return program


def _chain(function) -> list[str]:
    """Returns the names of a function's collectives in the only order that its edges allow."""
    nodes = {node.name: node for node in function_nodes.topological(function.node_def)}
    above: dict[str, set[str]] = {}
    for name, node in nodes.items():
        direct = {input_node(reference) for reference in node.input} & set(nodes)
        above[name] = direct.union(*(above[source] for source in direct))
    links = [name for name, node in nodes.items() if effects.is_collective(node)]
    for before, after in zip(links, links[1:]):
        assert before in above[after], f"{after} does not wait for {before}"
    return links


def test_independent_collectives_are_chained_in_order_of_program():
    def program(x):
        a = cross_replica_sum(x, name="a")
        b = all_to_all_op.all_gather(x * 2, 2, name="b")
        c = cross_replica_sum(x + 1, name="c")
        return c + a + tf.reduce_sum(b)

    ordered = _ordered(program)
    entry = ordered.functions[ordered.entry]
    assert _chain(entry) == ["a", "b", "c"]


def test_collectives_follow_the_flow_of_data():
    """Nodes are listed before their inputs."""

    def program(x):
        return cross_replica_sum(cross_replica_sum(x, name="first") * 2, name="second")

    ordered = program_of(program, SCALAR)
    nodes = ordered.functions[ordered.entry].node_def
    backwards = [type(node).FromString(node.SerializeToString()) for node in reversed(nodes)]
    del nodes[:]
    nodes.extend(backwards)
    execution_order.order_collectives(ordered, _target(2))
    assert _chain(ordered.functions[ordered.entry]) == ["first", "second"]


def test_no_edge_where_data_flows():
    program = _ordered(lambda x: cross_replica_sum(cross_replica_sum(x)))
    assert "^" not in str(program)


def test_nodes_that_run_functions_are_links():
    @tf.function
    def called(x):
        return cross_replica_sum(x, name="called")

    def program(x):
        before = cross_replica_sum(x, name="before")
        looped = loops.repeat(2, lambda v: cross_replica_sum(v, name="body"), [x])
        branched = tf.cond(x > 0, lambda: cross_replica_sum(x, name="then"), lambda: x)
        result = called(x)
        return before + looped + branched + result + cross_replica_sum(x, name="after")

    ordered = _ordered(program)
    entry = ordered.functions[ordered.entry]
    sources = {node.name: list(node.input) for node in entry.node_def}
    loop, branch, call = (
        next(node.name for node in entry.node_def if node.op in kinds)
        for kinds in (
            ["While", "StatelessWhile"],
            ["If", "StatelessIf"],
            ["StatefulPartitionedCall"],
        )
    )
    assert "^before" in sources[loop]
    assert f"^{loop}" in sources[branch]
    assert f"^{branch}" in sources[call]
    assert f"^{call}" in sources["after"]


@pytest.mark.parametrize(
    ("function", "replicas"),
    [
        (lambda x: cross_replica_sum(x) + cross_replica_sum(x + 1), 1),
        (lambda x: replication_ops.ipu_replication_normalise(x) + 1, 2),
    ],
)
def test_programs_without_independent_collectives_are_unchanged(function, replicas):
    program = program_of(function, SCALAR)
    before = str(program)
    execution_order.order_collectives(program, _target(replicas))
    assert str(program) == before


class TestConstants:
    """Values that follow from the number of replicas."""

    def test_the_number_of_replicas_becomes_a_constant(self):
        program = program_of(replication_ops.replication_factor)
        specialize.fix_replicas(program, _target(4))
        verify.check_structure(program)
        constant = next(node for _, node in program.nodes() if node.op == "Const")
        assert tf.make_ndarray(constant.attr["value"].tensor) == 4

    @pytest.mark.parametrize(("replicas", "sums"), [(1, 0), (2, 1)])
    def test_a_mean_of_one_replica_needs_no_sum(self, replicas, sums):
        program = program_of(cross_replica_ops.cross_replica_mean, SCALAR)
        specialize.fix_replicas(program, _target(replicas))
        verify.check_structure(program)
        assert ops(program).count("IpuCrossReplicaSum") == sums

    def test_wrong_group_size_is_left_to_be_refused(self):
        program = program_of(lambda x: cross_replica_sum(x, 2), SCALAR)
        specialize.fix_replicas(program, _target(1))
        match = "evenly divide the total number of replicas .got 1"
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            replica_checks.check_groups(program, _target(1))


# --- Tests of the pass that keeps effects between the beginning and the end of a function ---


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
    execution_order.keep_effects(program, scalar_target())
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
