"""Dataflow through the functions of a program: values of nodes, and uses of variables and feeds.

An analysis defines its values, the results of an op for its inputs (`Dataflow.transfer`), and the
join of two values (`Fixpoint.join`). The walk defines the order of ops, passes arguments and
results of functions, and runs the body of a loop any number of times. An analysis whose values are
objects with an identity, such as buffers, also maps them where functions begin and end.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir.function_nodes import result_names, topological
from tensorflow_ipu.compiler.ir.program import (
    Program,
    called_functions,
    functions_run_by,
    input_node,
)
from tensorflow_ipu.util import op_names


class FlowOp(Protocol):
    """An op of a function."""

    @property
    def type(self) -> str:
        """Its type."""

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the tensors it takes."""

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the tensors it makes."""

    @property
    def calls(self) -> Sequence[Function[Any]]:
        """The functions it runs; of a loop, the condition and the body."""


_Op = TypeVar("_Op", bound=FlowOp)
_Op_co = TypeVar("_Op_co", bound=FlowOp, covariant=True)
_Value = TypeVar("_Value")
_Known = TypeVar("_Known", bound=Hashable)


class Function(Protocol[_Op_co]):
    """A function of a program."""

    @property
    def arguments(self) -> Sequence[str]:
        """Names of its arguments as tensors."""

    @property
    def results(self) -> Sequence[str]:
        """Names of the tensors it returns."""

    @property
    def ops(self) -> Sequence[_Op_co]:
        """Its ops in topological order."""


class Dataflow(abc.ABC, Generic[_Op, _Value]):
    """Abstract evaluation of a program on values that describe its tensors."""

    @abc.abstractmethod
    def transfer(
        self, op: _Op, inputs: list[_Value], inside: Sequence[list[_Value]]
    ) -> Sequence[_Value]:
        """Returns the results of an op.

        Args:
            op: an op that is no call, conditional or loop.
            inputs: its inputs. Values on the back edge of a TensorFlow 1 loop are left out.
            inside: results of each function that the op runs with arguments of its own choice.
        """

    @abc.abstractmethod
    def unknown(self, op: _Op, inputs: list[_Value], name: str) -> _Value:
        """Returns the value of a function's argument that the op itself computes."""

    @abc.abstractmethod
    def merge(
        self, op: _Op, predicate: _Value, branches: Iterator[list[_Value]]
    ) -> Sequence[_Value]:
        """Returns the results of a conditional.

        Args:
            op: the conditional.
            predicate: value of the predicate.
            branches: the results of each branch, which is run when they are asked for.
        """

    @abc.abstractmethod
    def settle(self, op: _Op, start: list[_Value]) -> list[_Value]:
        """Returns values of the loop's variables that hold in any iteration.

        Args:
            op: the loop.
            start: the values before the first iteration.
        """

    def run(self, function: Function[_Op], arguments: Sequence[_Value]) -> list[_Value]:
        """Evaluates a function; returns the values of its results."""
        known = dict(zip(function.arguments, arguments))
        for op in function.ops:
            inputs = [known[name] for name in op.inputs if name in known]
            known.update(zip(op.outputs, self.visit(op, inputs)))
        return [known[name] for name in function.results]

    def call(self, function: Function[_Op], values: Sequence[_Value]) -> list[_Value]:
        """Evaluates a function on values of the caller; returns the values of its results."""
        return self.run(function, self.enter(function, values))

    def visit(self, op: _Op, inputs: list[_Value]) -> Sequence[_Value]:
        """Evaluates an op; returns the values of its results."""
        if not op.calls:
            return self.transfer(op, inputs, ())
        if op_names.is_loop(op.type):
            return self.loop(op, inputs)
        if op_names.is_conditional(op.type):
            return self.conditional(op, inputs)
        if len(op.calls) == 1 and len(op.calls[0].arguments) == len(inputs):
            return self.leave(op, self.call(op.calls[0], inputs))
        inside = []
        for function in op.calls:
            arguments = [self.unknown(op, inputs, name) for name in function.arguments]
            inside.append(self.run(function, arguments))
        return self.transfer(op, inputs, inside)

    def conditional(self, op: _Op, inputs: list[_Value]) -> Sequence[_Value]:
        """Evaluates all branches of a conditional; returns its results."""
        predicate, *arguments = inputs
        return self.merge(op, predicate, (self.call(branch, arguments) for branch in op.calls))

    def loop(self, op: _Op, inputs: list[_Value]) -> Sequence[_Value]:
        """Evaluates a loop's condition and body on its settled variables; returns its results."""
        condition, body = op.calls
        carried = self.settle(op, inputs)
        (again, *_) = self.call(condition, carried)
        return self.end(op, carried, again, self.call(body, carried))

    def enter(self, function: Function[_Op], values: Sequence[_Value]) -> Sequence[_Value]:
        """Converts values of the caller to arguments of a function."""
        return values

    def leave(self, op: _Op, values: list[_Value]) -> Sequence[_Value]:
        """Converts the results of a function to the results of its call."""
        return values

    def end(
        self, op: _Op, carried: list[_Value], again: _Value, results: list[_Value]
    ) -> Sequence[_Value]:
        """Returns the results of a loop.

        Args:
            op: the loop.
            carried: values of the loop's variables before any iteration and after the last.
            again: the result of the condition.
            results: results of the body.
        """
        return carried


class Fixpoint(Dataflow[_Op, _Value]):
    """A Dataflow that joins the values of a tensor from several paths.

    Attributes:
        rounds: Limit of evaluations of a loop's body. None for values that converge, as in a
            lattice of finite height.
    """

    rounds: int | None = None

    @abc.abstractmethod
    def join(self, value: _Value, other: _Value) -> _Value:
        """Returns a value that holds for either of two; `value` itself if it covers both."""

    def merge(
        self, op: _Op, predicate: _Value, branches: Iterator[list[_Value]]
    ) -> Sequence[_Value]:
        """Joins the results of all branches."""
        joined = next(branches)
        for results in branches:
            joined = [self.join(*pair) for pair in zip(joined, results)]
        return joined

    def settle(self, op: _Op, start: list[_Value]) -> list[_Value]:
        """Evaluates a loop's body until the values of its variables no longer change."""
        carried = start
        for _ in itertools.islice(itertools.count(), self.rounds):
            results = self.call(op.calls[1], carried)
            joined = [self.join(*pair) for pair in zip(carried, results)]
            if joined == carried:
                break
            carried = joined
        return carried


class Summaries(Fixpoint[_Op, _Known]):
    """A Fixpoint of values with equality: evaluates a function once for equal arguments.

    Attributes:
        nothing: The neutral value of `join`, known before any op is evaluated.
        context: State that the results of functions depend on besides their arguments.
    """

    nothing: _Known
    context: Hashable = None

    def __init__(self) -> None:
        self._summaries: dict[Hashable, list[_Known]] = {}

    def run(self, function: Function[_Op], arguments: Sequence[_Known]) -> list[_Known]:
        """Returns the results of a function for some arguments, cached."""
        key = (function, tuple(arguments), self.context)
        if key not in self._summaries:
            # For a function that calls itself.
            self._summaries[key] = [self.nothing] * len(function.results)
            self._summaries[key] = super().run(function, arguments)
        return self._summaries[key]

    def forget(self) -> None:
        """Drops the results of functions, after a change of state that they depend on."""
        self._summaries.clear()


# --- The functions of a Program in the form that a `Dataflow` walks ---


@dataclasses.dataclass(eq=False)
class ProgramOp:
    """A node of a function.

    Attributes:
        node: The node itself.
        type: The type of its op.
        function: Name of the function it is in.
        inputs: Names of its data inputs, without control inputs.
        outputs: Names of its results.
        calls: The functions it runs; of a loop, the condition and the body.
    """

    node: node_def_pb2.NodeDef
    type: str
    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[ProgramFunction, ...]


@dataclasses.dataclass(eq=False)
class ProgramFunction:
    """A function of a Program; there is one object for each, wherever it is called.

    Attributes:
        name: Its name.
        arguments: Names of its arguments.
        results: Names of the tensors it returns.
        ops: Its nodes in topological order.
    """

    name: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    ops: tuple[ProgramOp, ...] = dataclasses.field(default=(), repr=False)


def entry(program: Program) -> ProgramFunction:
    """Returns the function that a Program runs, which leads to all others that it reaches.

    Args:
        program: the Program. Later changes of it are not seen.
    """
    return _Functions(program).function(program.entry)


class _Functions:
    """Cache of a program's functions, which may call themselves."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[str, ProgramFunction] = {}

    def function(self, name: str) -> ProgramFunction:
        if name not in self._made:
            definition = self._program.functions[name]
            signature = definition.signature
            arguments = tuple(argument.name for argument in signature.input_arg)
            returned = [definition.ret[result.name] for result in signature.output_arg]
            results = _tensors(returned, frozenset(arguments))
            self._made[name] = function = ProgramFunction(name, arguments, results)
            function.ops = self._ops(definition, frozenset(arguments))
        return self._made[name]

    def _ops(
        self, definition: function_pb2.FunctionDef, arguments: frozenset[str]
    ) -> tuple[ProgramOp, ...]:
        name = definition.signature.name
        return tuple(
            ProgramOp(
                node,
                node.op,
                name,
                _tensors([value for value in node.input if not value.startswith("^")], arguments),
                self._outputs(node),
                tuple(self.function(called) for called in self._called(node)),
            )
            for node in topological(definition.node_def)
        )

    def _called(self, node: node_def_pb2.NodeDef) -> list[str]:
        if op_names.is_loop(node.op):
            return [node.attr["cond"].func.name, node.attr["body"].func.name]
        return functions_run_by(self._program, node)

    def _outputs(self, node: node_def_pb2.NodeDef) -> tuple[str, ...]:
        if node.op in self._program.functions:  # a function is called by its name
            results = self._program.functions[node.op].signature.output_arg
            return tuple(f"{node.name}:{result.name}:0" for result in results)
        return result_names(node)


def _tensors(references: list[str], arguments: frozenset[str]) -> tuple[str, ...]:
    """Returns the names of tensors; all references to an argument become one name."""
    makers = [(reference.partition(":")[0], reference) for reference in references]
    return tuple([maker if maker in arguments else reference for maker, reference in makers])


# --- Uses of variables and feeds ---

# Identity of a resource: ("argument", index), ("node", function, node) or ("feed", id).
Resource = tuple[object, ...]
_Resources = tuple["Resource | None", ...]


class ResourceUse(NamedTuple):
    """One op that uses one resource.

    Args:
        resource: which one.
        node: the op.
    """

    resource: Resource
    node: node_def_pb2.NodeDef


def resource_uses(program: Program) -> list[ResourceUse]:
    """Returns the uses of variables and feeds, functions in the order of the walk.

    Ops that pass a variable to a function are no users. A function that is called with other
    variables is walked again, so its ops may occur several times.
    """
    finder = _ResourceWalk(program)
    entry = program.functions[program.entry].signature.input_arg
    arguments = [
        ("argument", index) if argument.type == types_pb2.DT_RESOURCE else None
        for index, argument in enumerate(entry)
    ]
    finder.visit(program.entry, tuple(arguments))
    return finder.uses


class _ResourceWalk:
    """Walk through the functions of a Program.

    Args:
        program: the Program.
    """

    def __init__(self, program: Program) -> None:
        self._functions = program.functions
        self._visited: set[tuple[str, _Resources]] = set()
        self.uses: list[ResourceUse] = []

    def visit(self, name: str, arguments: _Resources) -> None:
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
                self.uses += [ResourceUse(found, node) for found in resources if found is not None]
            if node.op in op_names.FEEDS:
                self.uses.append(ResourceUse(("feed", node.attr["feed_id"].s), node))

    def _visit_called(self, node: node_def_pb2.NodeDef, resources: _Resources) -> bool:
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
