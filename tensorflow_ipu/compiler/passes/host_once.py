"""Pass: runs computations outside compilation once for all replicas."""

from __future__ import annotations

import collections

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.analysis import outside_compilation
from tensorflow_ipu.compiler.ir.node_order import topological
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, input_node
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.passes import host_branch


def run(program: Program, target: Target) -> None:
    """Makes replica 0 run the ops outside compilation, and gives the results to all replicas.

    The ops of a scope become the branch of a conditional that only replica 0 takes, so their inputs
    are replica 0's. Tensors that leave the scope are broadcast. Where ops of the device lie between
    ops of one scope, each side becomes a conditional of its own.

    Before: any legal Program. After: with several replicas, ops outside compilation are in
    functions that only replica 0 runs. With one replica nothing changes.
    """
    if target.replicas == 1:
        return
    inside = outside_compilation.functions_run(program)
    for name in [name for name in program.functions if name not in inside]:
        for number, group in enumerate(_groups(program.functions[name])):
            host_branch.extract(program, name, group, f"{name}_host_{number}")


def _groups(function: function_pb2.FunctionDef) -> list[list[str]]:
    """Returns the names of the ops outside compilation, in groups that can run as one each.

    A group is the ops of one scope at one distance from the inputs, counted in changes of scope. No
    path can leave a group and come back.
    """
    groups: dict[tuple[int, bytes], list[str]] = collections.defaultdict(list)
    place: dict[str, tuple[int, bytes]] = {}
    for node in topological(function.node_def):
        scope = node.attr[OUTSIDE_ATTRIBUTE].s if OUTSIDE_ATTRIBUTE in node.attr else b""
        sources = (place.get(input_node(reference), (0, b"")) for reference in node.input)
        changes = max((level + (other != scope) for level, other in sources), default=0)
        place[node.name] = (changes, scope)
        if scope:
            groups[changes, scope].append(node.name)
    return [groups[key] for key in sorted(groups)]
