"""Tensors of a Program across the boundaries of the functions that its nodes run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from typing import NamedTuple

from tensorflow.core.framework import node_def_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.function_graphs import invariant_arguments
from tensorflow_ipu.compiler.ir.program import Program, called_functions, input_node


class Tensor(NamedTuple):
    """A tensor of a Program.

    Args:
        function: name of the function it is in.
        reference: its name in that function, as inputs of nodes have it.
    """

    function: str
    reference: str


class Passed(NamedTuple):
    """The tensor that one node passes to an argument of a function.

    Args:
        tensor: the tensor; where a loop begins, for an argument of its body.
        again: the tensor that a loop's body passes to its next iteration; None if it is the same,
            and for nodes that are not loops.
        node: the node that runs the function.
    """

    tensor: Tensor
    again: Tensor | None
    node: node_def_pb2.NodeDef


class _Caller(NamedTuple):
    """A node that runs a function, with the function it is in and the operands that it passes."""

    function: str
    node: node_def_pb2.NodeDef
    inputs: list[str]


class Calls:
    """The functions that each node of a Program runs, and the nodes that run each function.

    Args:
        program: the Program, which must not change meanwhile.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._nodes: dict[str, dict[str, node_def_pb2.NodeDef]] = {}
        self._positions: dict[str, dict[str, int]] = {}
        self._callers: dict[str, list[_Caller]] | None = None
        self._invariant: dict[str, set[int]] = {}

    def node(self, tensor: Tensor) -> node_def_pb2.NodeDef | None:
        """Returns the node that makes a tensor, None for an argument of its function."""
        if tensor.function not in self._nodes:
            nodes = self._program.functions[tensor.function].node_def
            self._nodes[tensor.function] = {node.name: node for node in nodes}
        return self._nodes[tensor.function].get(input_node(tensor.reference))

    def users(self, tensor: Tensor, ops: Container[str]) -> list[node_def_pb2.NodeDef]:
        """Returns the nodes of some types that a tensor is an input of.

        Args:
            tensor: the tensor.
            ops: the types.
        """
        nodes = self._program.functions[tensor.function].node_def
        return [node for node in nodes if node.op in ops and tensor.reference in node.input]

    def position(self, tensor: Tensor) -> int:
        """Returns the index of the argument of its function that a tensor is."""
        if tensor.function not in self._positions:
            arguments = self._program.functions[tensor.function].signature.input_arg
            names = {argument.name: index for index, argument in enumerate(arguments)}
            self._positions[tensor.function] = names
        return self._positions[tensor.function][input_node(tensor.reference)]

    def passed(self, tensor: Tensor) -> list[Passed]:
        """Returns the tensors that callers pass to an argument of a function.

        The list is empty for the entry, and for functions that run in other ways than by a call, a
        conditional or a loop.

        Args:
            tensor: an argument of its function.
        """
        position = self.position(tensor)
        return [
            Passed(
                Tensor(caller.function, caller.inputs[position]),
                self._again(caller.node, position) if op_names.is_loop(caller.node.op) else None,
                caller.node,
            )
            for caller in self._callers_of(tensor.function)
            if position < len(caller.inputs)
        ]

    def returned(self, tensor: Tensor, node: node_def_pb2.NodeDef) -> Tensor | None:
        """Returns the callee's tensor that a result of a call or a loop is.

        Args:
            tensor: the result.
            node: the node that makes it. If it is no call or loop, the result is None.
        """
        if node.op in self._program.functions:  # a function is called by its name
            called = self._program.functions[node.op]
            return Tensor(node.op, called.ret[tensor.reference.split(":")[1]])
        if not (op_names.is_call(node.op) or op_names.is_loop(node.op)):
            return None
        key = "body" if op_names.is_loop(node.op) else "f"
        return self._result(node.attr[key].func.name, result_index(tensor))

    def changes(self, loop: node_def_pb2.NodeDef, position: int) -> bool:
        """Returns whether a loop's body passes on another value than it takes.

        Args:
            loop: the loop.
            position: which of the values that the loop carries.
        """
        body = loop.attr["body"].func.name
        if body not in self._invariant:
            self._invariant[body] = invariant_arguments(self._program.functions[body])
        return position not in self._invariant[body]

    def condition(self, loop: node_def_pb2.NodeDef) -> Tensor:
        """Returns the predicate of a loop as a tensor of its condition function."""
        return self._result(loop.attr["cond"].func.name, 0)

    def _again(self, loop: node_def_pb2.NodeDef, position: int) -> Tensor | None:
        if not self.changes(loop, position):
            return None
        return self._result(loop.attr["body"].func.name, position)

    def _result(self, function: str, index: int) -> Tensor:
        definition = self._program.functions[function]
        return Tensor(function, definition.ret[definition.signature.output_arg[index].name])

    def _callers_of(self, function: str) -> list[_Caller]:
        if self._callers is None:
            self._callers = defaultdict(list)
            for definition, node in self._program.nodes():
                inputs = data_inputs(node)
                if op_names.is_conditional(node.op):
                    inputs = inputs[1:]
                caller = _Caller(definition.signature.name, node, inputs)
                for called in self._run_by(node):
                    self._callers[called].append(caller)
        return self._callers.get(function, [])

    def _run_by(self, node: node_def_pb2.NodeDef) -> list[str]:
        """Returns the functions that a node passes its inputs to."""
        if node.op in self._program.functions:
            return [node.op]
        return called_functions(node) if op_names.is_control_flow(node.op) else []


def data_inputs(node: node_def_pb2.NodeDef) -> list[str]:
    """Returns the inputs of a node without its control inputs."""
    return [name for name in node.input if not name.startswith("^")]


def result_index(tensor: Tensor) -> int:
    """Returns the index of a tensor among its node's results of one name."""
    return int(tensor.reference.rpartition(":")[2])
