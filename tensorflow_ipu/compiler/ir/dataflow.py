"""Dataflow analysis through the functions of a program: calls, branches and loops.

An analysis defines its values, the results of an op for its inputs (`Dataflow.transfer`), and the
join of two values (`Fixpoint.join`). The walk defines the order of ops, passes arguments and
results of functions, and runs the body of a loop any number of times. An analysis whose values are
objects with an identity, such as buffers, also maps them where functions begin and end.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tensorflow_ipu import op_names


class Op(Protocol):
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


_Op = TypeVar("_Op", bound=Op)
_Op_co = TypeVar("_Op_co", bound=Op, covariant=True)
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
        """Its ops, each after those whose results it takes."""


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
        """Evaluates a function, unless it has results for these arguments; returns its results."""
        key = (function, tuple(arguments), self.context)
        if key not in self._summaries:
            # For a function that calls itself.
            self._summaries[key] = [self.nothing] * len(function.results)
            self._summaries[key] = super().run(function, arguments)
        return self._summaries[key]

    def forget(self) -> None:
        """Drops the results of functions, after a change of state that they depend on."""
        self._summaries.clear()
