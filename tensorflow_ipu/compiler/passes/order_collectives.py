"""Pass: orders collectives, and lookups and updates of host tables, into one sequence."""

from __future__ import annotations

from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu.compiler.ir import collectives
from tensorflow_ipu.compiler.ir.function_nodes import topological
from tensorflow_ipu.compiler.ir.program import Program, functions_run_by, input_node
from tensorflow_ipu.compiler.ir.target import Target


def run(program: Program, target: Target) -> None:
    """Chains the collectives of each function into one sequence for all replicas.

    Lookups in tables on the host are links too, so that they come before or after an update of the
    table as in the program; with one replica, lookups and updates are the only links.

    The links of the chain are collectives, and nodes that run functions with collectives: those
    have chains of their own, and end when these end. The order is a topological one, ties are
    settled by the order of the program. Control edges that it has anyway are not added.

    A function with links is a link for its caller because it ends after all of them: the pass
    `keep_effects` sees to that.

    Before: any legal Program; loops run one iteration at a time. After: in each function there is
    a path through all links. With one replica only programs with such tables change.
    """

    def is_link(node: node_def_pb2.NodeDef) -> bool:
        if collectives.uses_table(node):
            return True
        return target.replicas > 1 and collectives.is_collective(node)

    running = collectives.functions_with_collectives(program, is_link)
    for name in sorted(running):
        function = program.functions[name]
        links = [
            node
            for node in topological(function.node_def)
            if is_link(node) or running.intersection(functions_run_by(program, node))
        ]
        for before, after in zip(links, links[1:]):
            _run_after(after, before.name)


def _run_after(node: node_def_pb2.NodeDef, name: str) -> None:
    """Makes a node wait for another, unless it takes one of its results."""
    if all(input_node(reference) != name for reference in node.input):
        node.input.append(f"^{name}")
