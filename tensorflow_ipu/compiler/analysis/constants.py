"""Compile-time constants of a Program, and Programs that the host evaluates without a device.

XLA compiles programs of fixed shapes, so inputs that shapes follow from have to be known to it. It
knows constants, shapes, and values computed from these alone, also through the arguments of
functions and through loop variables that do not change. It does not know variables, data of
feeds, random numbers, and the arguments of the program: with another value, they would need
another program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry, tensor_util

from tensorflow_ipu.compiler.ir.function_graphs import IDENTITY_OPS, invariant_arguments
from tensorflow_ipu.compiler.ir.program import Program, called_functions, input_node
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.costs.rules.elementwise import is_elementwise
from tensorflow_ipu.util import op_names


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


# --- Compile-time constants among the tensors of a Program ---

# Their results follow from the shapes of their inputs, for any values.
_SHAPES = frozenset(
    "VariableShape ZerosLike OnesLike TensorListElementShape TensorListLength".split()
).union(op_names.SHAPE_QUERIES)

# Known once the number of replicas is, which it is when a program is compiled.
_CONSTANTS = frozenset(["Const", "HostConst", op_names.REPLICA_COUNT])
# Ops that carry values from iteration to iteration in loops of TensorFlow 1.
_CARRIED = op_names.MERGES | op_names.NEXT_ITERATIONS


class _Way(NamedTuple):
    """How far a search goes.

    Args:
        through_loops: whether values that change from iteration to iteration are followed.
        arguments: the positions of the entry's arguments that count as known.
    """

    through_loops: bool
    arguments: frozenset[int]


class Constants:
    """Compile-time constants among the tensors of a Program.

    Each search is made when it is asked for.

    Args:
        program: the Program, which must not change meanwhile.
        arguments: the positions of the entry's arguments that are constants where it is launched.
    """

    def __init__(self, program: Program, arguments: Iterable[int] = ()) -> None:
        self.calls = Calls(program)
        self._entry = program.entry
        self._given = _Way(False, frozenset(arguments))
        self._known: set[Tensor] = set()
        self._unknown: dict[Tensor, str] = {}

    def cause(self, tensor: Tensor) -> str | None:
        """Returns the unknown value that a tensor depends on, None if all are constants.

        Args:
            tensor: a tensor of the Program.
        """
        return self._search(tensor, self._known, self._unknown, self._given)

    def is_computed_before(self, tensor: Tensor) -> bool:
        """Returns whether a tensor follows from constants in the program itself.

        Args:
            tensor: a tensor of the Program.
        """
        return self._search(tensor, set(), {}, _Way(False, frozenset())) is None

    def ends_after_known_iterations(self, loop: node_def_pb2.NodeDef) -> bool:
        """Returns whether the trip count of a loop is a compile-time constant.

        A loop's counter is known in each iteration, though it is no constant.

        Args:
            loop: the loop.
        """
        way = self._given._replace(through_loops=True)
        return self._search(self.calls.condition(loop), set(), {}, way) is None

    def value(self, tensor: Tensor) -> np.ndarray | None:
        """Returns the value of a constant, or of a list of constants. None for computed values.

        Args:
            tensor: a tensor of the Program.
        """
        node = self.calls.node(tensor)
        if node is None:
            passed = self.calls.passed(tensor)
            one = len(passed) == 1 and passed[0].again is None
            return self.value(passed[0].tensor) if one else None
        if node.op == "Const":
            value: np.ndarray = tensor_util.MakeNdarray(node.attr["value"].tensor)
            return value
        if node.op in IDENTITY_OPS:
            return self.value(Tensor(tensor.function, node.input[0]))
        if node.op == "Pack":
            values = [self.value(Tensor(tensor.function, name)) for name in data_inputs(node)]
            known = [value for value in values if value is not None]
            return np.stack(known) if len(known) == len(values) else None
        return None

    def _search(
        self, tensor: Tensor, known: set[Tensor], unknown: dict[Tensor, str], way: _Way
    ) -> str | None:
        """Searches the predecessors of a tensor for an unknown value.

        Args:
            tensor: the tensor.
            known: tensors that follow from nothing unknown, added to.
            unknown: tensors with the unknown value that they follow from, added to.
            way: extent of the search.
        """
        path: list[tuple[Tensor, Iterator[Tensor]]] = []
        seen: set[Tensor] = set()
        following: Tensor | None = tensor
        while True:
            if following is not None and following not in known and following not in seen:
                needs = unknown.get(following) or self._needs(following, way)
                if isinstance(needs, str):
                    unknown.update((on_path, needs) for on_path, _ in path)
                    unknown[following] = needs
                    return needs
                seen.add(following)
                path.append((following, iter(needs)))
            if not path:
                known |= seen
                return None
            following = next(path[-1][1], None)
            if following is None:
                path.pop()

    def _needs(self, tensor: Tensor, way: _Way) -> str | list[Tensor]:
        """Returns the tensors that a tensor is known by, or the name of an unknown value."""
        node = self.calls.node(tensor)
        if node is None:
            return self._needs_of_argument(tensor, way)
        if node.op in _CONSTANTS or node.op in _SHAPES:
            return []
        if op_names.is_loop(node.op) and not self.calls.changes(node, result_index(tensor)):
            return [Tensor(tensor.function, node.input[result_index(tensor)])]
        returned = self.calls.returned(tensor, node)
        if returned is not None and not op_names.is_loop(node.op):
            return [returned]
        if node.op == "TensorListPopBack":
            # An accumulator of a gradient's loop. XLA computes shapes again there.
            found = pushed(self.calls, Tensor(tensor.function, node.input[0]))
            return found or _name(node)
        definition = op_def_registry.get(node.op)
        inputs = data_inputs(node)
        simple = definition is not None and not definition.is_stateful and inputs
        if not simple or node.op in _CARRIED or op_names.is_own(node.op):
            return _name(node)
        return [Tensor(tensor.function, name) for name in inputs]

    def _needs_of_argument(self, tensor: Tensor, way: _Way) -> str | list[Tensor]:
        if tensor.function == self._entry:
            known = self.calls.position(tensor) in way.arguments
            return [] if known else f"the argument {tensor.reference} of the program"
        needs = []
        for passed in self.calls.passed(tensor):
            needs.append(passed.tensor)
            if passed.again is not None and not way.through_loops:
                return f"{_name(passed.node)}, which changes it"
            needs.extend([passed.again] if passed.again is not None else [])
        return needs or f"the argument {tensor.reference} of {tensor.function}"


def _name(node: node_def_pb2.NodeDef) -> str:
    return f"{node.name} ({node.op})"


# --- The tensors that a loop pushes to its gradient's accumulators ---


def pushed(calls: Calls, accumulator: Tensor) -> list[Tensor]:
    """Returns the tensors that are pushed to a list which a gradient pops from.

    The forward loop pushes one in each iteration, so the list is followed back through the loops to
    where that happens.

    Args:
        calls: the calls of the Program.
        accumulator: the list.
    """
    found: list[Tensor] = []
    pending = [accumulator]
    seen: set[Tensor] = set()
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        node = calls.node(tensor)
        if node is None:
            for passed in calls.passed(tensor):
                pending.append(passed.tensor)
        elif node.op == "TensorListPushBack":
            found.append(Tensor(tensor.function, node.input[1]))
        elif node.op == "TensorListPopBack":
            source = Tensor(tensor.function, node.input[0])
            if ":tensor:" in tensor.reference:  # a list of lists: its elements are lists
                pending.extend(pushed(calls, source))
            else:
                pending.append(source)
        elif op_names.is_loop(node.op) and not calls.changes(node, result_index(tensor)):
            pending.append(Tensor(tensor.function, node.input[result_index(tensor)]))
        elif node.op in IDENTITY_OPS:
            pending.append(Tensor(tensor.function, node.input[0]))
        else:
            returned = calls.returned(tensor, node)
            pending.extend([] if returned is None else [returned])
    return found


# --- Programs that the host evaluates ---

_PASSING = frozenset({"Identity", "IdentityN", "NoOp", "Const"})


def is_host_evaluated(program: Program, target: Target) -> bool:
    """Returns whether the host evaluates a Program without the device.

    So it does where the results are constants or inputs, and where all work is elementwise on
    scalars, variables included, as long as nothing has a side effect.
    """
    nodes = program.functions[program.entry].node_def
    if not any(argument.is_variable for argument in target.arguments):
        if all(node.op in _PASSING for node in nodes) or _is_constant(nodes):
            return True
    return (
        all(
            node.op in _PASSING or node.op == op_names.READ or is_elementwise(node.op)
            for node in nodes
        )
        and all(argument.shape.rank == 0 for argument in target.arguments)
        and all(_is_scalar(node) for node in nodes if node.op == "Const")
    )


def is_constant(library: function_pb2.FunctionDefLibrary, entry: str) -> bool:
    """Returns whether a host-evaluated program returns only constants and its inputs.

    Args:
        library: its functions.
        entry: name of the function to run.
    """
    (nodes,) = (
        list(function.node_def) for function in library.function if function.signature.name == entry
    )
    return all(node.op in _PASSING for node in nodes) or _is_constant(nodes)


def _is_scalar(node: node_def_pb2.NodeDef) -> bool:
    return not node.attr["value"].tensor.tensor_shape.dim


def _is_constant(nodes: list[node_def_pb2.NodeDef]) -> bool:
    """Returns whether everything follows from constants, by ops without side effects."""
    has_argument = False
    names = {node.name for node in nodes}
    for node in nodes:
        definition = op_def_registry.get(node.op)
        if definition is None or definition.is_stateful or op_names.is_own(node.op):
            return False
        has_argument |= any(name.lstrip("^").split(":")[0] not in names for name in node.input)
    return not has_argument
