"""Side effects of ops, and facts about collectives: their groups of replicas and processes."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir.program import Program, functions_run_by, input_node
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


# --- Effects of ops ---


def of_op(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node itself has an effect, regardless of the functions it runs.

    These are all stateful ops but the reads of whole variables: TensorFlow has the same rule for
    functions whose calls it replaces by their ops.
    """
    return not op_names.is_control_flow(node.op) and _is_stateful(node.op)


def functions(program: Program) -> set[str]:
    """Returns the functions that have effects, directly or in a callee."""
    return functions_with_collectives(program, of_op)


def of_node(program: Program, node: node_def_pb2.NodeDef, running: set[str]) -> bool:
    """Returns whether a node has an effect, itself or in a function that it runs.

    Args:
        program: the Program.
        node: one of its nodes.
        running: the result of `functions`.
    """
    return of_op(node) or not running.isdisjoint(functions_run_by(program, node))


def counted(program: Program) -> collections.Counter[str]:
    """Returns the number of ops with effects by name, in all functions that the entry reaches."""
    return collections.Counter(
        node.name
        for name in program.names_by_use()
        for node in program.functions[name].node_def
        if of_op(node)
    )


def waited_for(function: function_pb2.FunctionDef, ends: Iterable[str]) -> set[str]:
    """Returns the names of some nodes and of all their predecessors.

    Args:
        function: the function.
        ends: names of some of its nodes.
    """
    inputs = {node.name: node.input for node in function.node_def}
    pending, found = list(ends), set()
    while pending:
        name = pending.pop()
        if name not in found and name in inputs:
            found.add(name)
            pending.extend(map(input_node, inputs[name]))
    return found


def has_frames(function: function_pb2.FunctionDef) -> bool:
    """Returns whether a function has loops of TensorFlow 1, whose ops nothing outside waits for."""
    return any(node.op in op_names.ENTERS for node in function.node_def)


@functools.lru_cache(maxsize=4096)
def _is_stateful(op: str) -> bool:
    definition = op_def_registry.get(op)
    return op != op_names.READ and definition is not None and bool(definition.is_stateful)
