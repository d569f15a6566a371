"""Orders collectives, and lookups and updates of host tables, into one sequence."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, node_def_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir import collectives
from tensorflow_ipu.compiler.ir.node_order import topological
from tensorflow_ipu.compiler.ir.program import Program, input_node
from tensorflow_ipu.compiler.ir.target import Target


def run(program: Program, target: Target) -> None:
    """Chains the collectives of each function, so that all replicas meet them in one sequence.

    Lookups in tables on the host are links too, so that they come before or after an update of the
    table as in the program; with one replica, lookups and updates are the only links.

    The links of the chain are collectives, and nodes that run functions with collectives: those
    have chains of their own, and end when these end. The order is a topological one, ties are
    settled by the order of the program. Control edges that it has anyway are not added.

    A function is over for its caller's control edges when its control results are, so the last
    link becomes one. The condition of a loop is over when its result is there, which therefore
    waits for the last link too. Bodies need no more: one iteration runs at a time.

    Before: any legal Program; loops run one iteration at a time. After: in each function there is
    a path through all links. With one replica only programs with such tables change.
    """

    def is_link(node: node_def_pb2.NodeDef) -> bool:
        if collectives.uses_table(node):
            return True
        return target.replicas > 1 and collectives.is_collective(node)

    running = collectives.functions_with_collectives(program, is_link)
    conditions = _conditions(program)
    for name in sorted(running):
        function = program.functions[name]
        links = [
            node
            for node in topological(function.node_def)
            if is_link(node) or running.intersection(collectives.functions_run_by(program, node))
        ]
        for before, after in zip(links, links[1:]):
            _run_after(after, before.name)
        _end_after(function, links[-1].name)
        if name in conditions:
            _return_after(function, links[-1].name)


def _conditions(program: Program) -> set[str]:
    return {node.attr["cond"].func.name for _, node in program.nodes() if op_names.is_loop(node.op)}


def _run_after(node: node_def_pb2.NodeDef, name: str) -> None:
    """Makes a node wait for another, unless it takes one of its results."""
    if all(input_node(reference) != name for reference in node.input):
        node.input.append(f"^{name}")


def _end_after(function: function_pb2.FunctionDef, name: str) -> None:
    """Makes a node one of the control results of its function."""
    if name not in function.control_ret.values():
        function.control_ret[name] = name
        function.signature.control_output.append(name)


def _return_after(function: function_pb2.FunctionDef, name: str) -> None:
    """Makes the results of a function wait for a node."""
    for result in function.signature.output_arg:
        waiting = function.node_def.add(
            name=f"{name}/before_{result.name}",
            op="Identity",
            input=[function.ret[result.name], f"^{name}"],
        )
        waiting.attr["T"].type = result.type
        function.ret[result.name] = f"{waiting.name}:output:0"
