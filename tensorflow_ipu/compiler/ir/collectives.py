"""Facts about collectives: which ops they are, and their groups of replicas."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.program import Program, called_functions, node_tag


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
    """Returns the names of the functions that have collectives, in themselves or in a callee.

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


def functions_run_by(program: Program, node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the functions that a node runs: its op, if that is one, and its attributes'."""
    called = [name for name in called_functions(node) if name in program.functions]
    return [node.op, *called] if node.op in program.functions else called


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


def check_groups(program: Program, replicas: int) -> None:
    """Checks that the groups of all collectives fit the number of replicas.

    Raises:
        tf.errors.InvalidArgumentError: Naming the op and both numbers.
    """
    for function, node in program.nodes():
        if not is_collective(node):
            continue
        size = group_size(node, replicas)
        whole_only = op_names.COLLECTIVES[node.op].whole_only
        if replicas % size or (whole_only and size != replicas):
            name = node_tag(node.name, function.signature.name)
            raise _wrong_group(node, name, size, replicas)


def _wrong_group(
    node: node_def_pb2.NodeDef, name: str, size: int, replicas: int
) -> errors.InvalidArgumentError:
    collective = op_names.COLLECTIVES[node.op]
    if collective.whole_only:
        problem = "is not the total number of replicas"
    else:
        problem = "does not evenly divide the total number of replicas"
    return errors.InvalidArgumentError(
        None,
        None,
        f"The replica group size (got {size}) {problem} (got {replicas}): the "
        f"{collective.group} of the collective {name} ({node.op}). The program runs on "
        f"{replicas} replica(s) because of the IPUs that the device has and the program uses: "
        "change the argument, or select another number of IPUs.",
    )
