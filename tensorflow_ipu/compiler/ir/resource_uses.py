"""The ops of a Program that use each variable or feed, through all functions."""

from __future__ import annotations

from typing import NamedTuple

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir.program import Program, called_functions, input_node
from tensorflow_ipu.util import op_names

# Identity of a resource: ("argument", index), ("node", function, node) or ("feed", id).
Resource = tuple[object, ...]
_Known = tuple["Resource | None", ...]


class Use(NamedTuple):
    """One op that uses one resource.

    Args:
        resource: which one.
        node: the op.
    """

    resource: Resource
    node: node_def_pb2.NodeDef


def find(program: Program) -> list[Use]:
    """Returns the uses of variables and feeds, functions in the order of the walk.

    Ops that pass a variable to a function are no users. A function that is called with other
    variables is walked again, so its ops may occur several times.
    """
    finder = _Finder(program)
    entry = program.functions[program.entry].signature.input_arg
    arguments = [
        ("argument", index) if argument.type == types_pb2.DT_RESOURCE else None
        for index, argument in enumerate(entry)
    ]
    finder.visit(program.entry, tuple(arguments))
    return finder.uses


class _Finder:
    """Walk through the functions of a Program.

    Args:
        program: the Program.
    """

    def __init__(self, program: Program) -> None:
        self._functions = program.functions
        self._visited: set[tuple[str, _Known]] = set()
        self.uses: list[Use] = []

    def visit(self, name: str, arguments: _Known) -> None:
        """Walks a function, given the resources that its arguments are."""
        if (name, arguments) in self._visited:
            return
        self._visited.add((name, arguments))
        function = self._functions[name]
        known: dict[str, Resource | None] = {
            argument.name: resource
            for argument, resource in zip(function.signature.input_arg, arguments)
        }
        nodes = {node.name: node for node in function.node_def}
        for node in function.node_def:
            data = [value for value in node.input if not value.startswith("^")]
            resources = tuple(self._resolve(value, function, nodes, known) for value in data)
            if not self._visit_called(node, resources):
                self.uses += [Use(found, node) for found in resources if found is not None]
            if node.op in op_names.FEEDS:
                self.uses.append(Use(("feed", node.attr["feed_id"].s), node))

    def _visit_called(self, node: node_def_pb2.NodeDef, resources: _Known) -> bool:
        """Visits the functions that a node runs; returns whether it runs any."""
        if node.op in self._functions:
            self.visit(node.op, resources)
            return True
        if not op_names.is_control_flow(node.op):
            return False
        # Sorted by attribute, a loop's condition comes before its body.
        for name in called_functions(node):
            self.visit(name, resources[1:] if op_names.is_conditional(node.op) else resources)
        return True

    def _resolve(
        self,
        value: str,
        function: function_pb2.FunctionDef,
        nodes: dict[str, node_def_pb2.NodeDef],
        known: dict[str, Resource | None],
    ) -> Resource | None:
        """Returns the resource that a value is, None for other or unknown values."""
        name = input_node(value)
        if name in known:
            return known[name]
        node = nodes[name]
        if node.op in op_names.HANDLES:
            return ("node", function.signature.name, name)
        if node.op == "Identity" and node.attr["T"].type == types_pb2.DT_RESOURCE:
            return self._resolve(node.input[0], function, nodes, known)
        if op_names.is_loop(node.op):
            # A loop returns the handles that it was given.
            index = int(value.rsplit(":", 1)[1]) if ":" in value else 0
            if node.attr["T"].list.type[index] == types_pb2.DT_RESOURCE:
                return self._resolve(node.input[index], function, nodes, known)
        return None
