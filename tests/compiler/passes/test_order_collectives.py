"""Tests of the pass that puts collectives into one order, and of the one for constants."""

from __future__ import annotations

import dataclasses

import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.compiler.checks import replica_checks, verify
from tensorflow_ipu.compiler.ir import collectives, function_nodes
from tensorflow_ipu.compiler.ir.program import Program, input_node
from tensorflow_ipu.compiler.passes import order_collectives, replica_constants
from tensorflow_ipu.ops import all_to_all_op, cross_replica_ops, replication_ops
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
from tests.support.programs.compiled_programs import ops, program_of, scalar_target

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
    order_collectives.run(program, _target(replicas))
    verify.check_structure(program)
    return program


def _chain(function) -> list[str]:
    """Returns the names of a function's collectives in the only order that its edges allow."""
    nodes = {node.name: node for node in function_nodes.topological(function.node_def)}
    above: dict[str, set[str]] = {}
    for name, node in nodes.items():
        direct = {input_node(reference) for reference in node.input} & set(nodes)
        above[name] = direct.union(*(above[source] for source in direct))
    links = [name for name, node in nodes.items() if collectives.is_collective(node)]
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
    order_collectives.run(ordered, _target(2))
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
    order_collectives.run(program, _target(replicas))
    assert str(program) == before


class TestConstants:
    """Values that follow from the number of replicas."""

    def test_the_number_of_replicas_becomes_a_constant(self):
        program = program_of(replication_ops.replication_factor)
        replica_constants.run(program, _target(4))
        verify.check_structure(program)
        constant = next(node for _, node in program.nodes() if node.op == "Const")
        assert tf.make_ndarray(constant.attr["value"].tensor) == 4

    @pytest.mark.parametrize(("replicas", "sums"), [(1, 0), (2, 1)])
    def test_a_mean_of_one_replica_needs_no_sum(self, replicas, sums):
        program = program_of(cross_replica_ops.cross_replica_mean, SCALAR)
        replica_constants.run(program, _target(replicas))
        verify.check_structure(program)
        assert ops(program).count("IpuCrossReplicaSum") == sums

    def test_wrong_group_size_is_left_to_be_refused(self):
        program = program_of(lambda x: cross_replica_sum(x, 2), SCALAR)
        replica_constants.run(program, _target(1))
        match = "evenly divide the total number of replicas .got 1"
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            replica_checks.check_groups(program, _target(1))
