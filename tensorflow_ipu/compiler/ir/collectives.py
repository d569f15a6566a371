"""Facts about collectives: which ops they are, and their groups of replicas."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu.compiler.ir.program import Program, functions_run_by
from tensorflow_ipu.util import op_names


def is_collective(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node is a collective."""
    return op_names.is_collective(node.op)


def uses_table(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node reads or writes a table on the host."""
    return node.op in op_names.TABLE_OPS


def group_size(node: node_def_pb2.NodeDef, replicas: int) -> int:
    """Returns the number of replicas in each group of a collective."""
    attribute = op_names.COLLECTIVES[node.op].group
    asked = node.attr[attribute].i if attribute else 0
    return asked or replicas


def equalises(node: node_def_pb2.NodeDef, replicas: int) -> bool:
    """Returns whether a node's results are equal on all replicas, for any inputs."""
    collective = op_names.COLLECTIVES.get(node.op)
    if collective is None or not collective.equalizes:
        return False
    return group_size(node, replicas) == replicas


def functions_with_collectives(
    program: Program, counts: Callable[[node_def_pb2.NodeDef], bool] = is_collective
) -> set[str]:
    """Returns the functions that have collectives, directly or in a callee.

    Args:
        program: the Program.
        counts: which nodes to look for instead.
    """
    callers: dict[str, set[str]] = {name: set() for name in program.functions}
    pending = []
    for name, function in program.functions.items():
        for node in function.node_def:
            for called in functions_run_by(program, node):
                callers[called].add(name)
        if any(counts(node) for node in function.node_def):
            pending.append(name)
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(callers[name])
    return found


def reach_other_processes(program: Program, replicas: int, processes: int) -> bool:
    """Returns whether a Program has collectives with other processes or tables on their hosts.

    Args:
        program: the Program.
        replicas: number of replicas in all processes together.
        processes: number of processes, each with as many replicas.
    """
    local = replicas // processes
    return any(
        node.op in op_names.INSTANCE_MEETINGS
        or (is_collective(node) and local % group_size(node, replicas) != 0)
        for _, node in program.nodes()
    )
