"""Follows values through the functions of a program: into calls, branches and loops.

An analysis says what its values are, what an op makes of its inputs (`Dataflow.transfer`), and what
is known of a value that may be one or another (`Fixpoint.join`). The walk knows in which order ops
come, what functions are given and return, and that a loop may run its body any number of times. An
analysis whose values are objects with an identity, such as buffers, says besides what becomes of
them where functions begin and end.
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
    """Runs a program on what is known of its tensors instead of the tensors."""

    @abc.abstractmethod
    def transfer(
        self, op: _Op, inputs: list[_Value], inside: Sequence[list[_Value]]
    ) -> Sequence[_Value]:
        """Returns the results of an op.

        Args:
            op: an op that is no call, conditional or loop.
            inputs: its inputs. What comes along the back edge of a TensorFlow 1 loop is left out.
            inside: what each function returns that it runs with arguments of its own choice.
        """

    @abc.abstractmethod
    def unknown(self, op: _Op, inputs: list[_Value], name: str) -> _Value:
        """Returns an argument of a function, where the op decides itself on what it passes."""

    @abc.abstractmethod
    def merge(
        self, op: _Op, predicate: _Value, branches: Iterator[list[_Value]]
    ) -> Sequence[_Value]:
        """Returns the results of a conditional.

        Args:
            op: the conditional.
            predicate: what decides between the branches.
            branches: the results of each branch, which is run when they are asked for.
        """

    @abc.abstractmethod
    def settle(self, op: _Op, start: list[_Value]) -> list[_Value]:
        """Returns what holds for the values that a loop carries, in any iteration.

        Args:
            op: the loop.
            start: the values before the first iteration.
        """

    def run(self, function: Function[_Op], arguments: Sequence[_Value]) -> list[_Value]:
        """Runs a function; returns what it returns."""
        known = dict(zip(function.arguments, arguments))
        for op in function.ops:
            inputs = [known[name] for name in op.inputs if name in known]
            known.update(zip(op.outputs, self.visit(op, inputs)))
        return [known[name] for name in function.results]

    def call(self, function: Function[_Op], values: Sequence[_Value]) -> list[_Value]:
        """Runs a function on values of the caller; returns what it returns."""
        return self.run(function, self.enter(function, values))

    def visit(self, op: _Op, inputs: list[_Value]) -> Sequence[_Value]:
        """Runs an op; returns its results."""
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
        """Runs all branches of a conditional; returns its results."""
        predicate, *arguments = inputs
        return self.merge(op, predicate, (self.call(branch, arguments) for branch in op.calls))

    def loop(self, op: _Op, inputs: list[_Value]) -> Sequence[_Value]:
        """Runs a loop's condition and body on what holds in each iteration; returns its results."""
        condition, body = op.calls
        carried = self.settle(op, inputs)
        (again, *_) = self.call(condition, carried)
        return self.end(op, carried, again, self.call(body, carried))

    def enter(self, function: Function[_Op], values: Sequence[_Value]) -> Sequence[_Value]:
        """Returns values of the caller as arguments of a function."""
        return values

    def leave(self, op: _Op, values: list[_Value]) -> Sequence[_Value]:
        """Returns the results of a call, from those of the function."""
        return values

    def end(
        self, op: _Op, carried: list[_Value], again: _Value, results: list[_Value]
    ) -> Sequence[_Value]:
        """Returns the results of a loop.

        Args:
            op: the loop.
            carried: what holds before any iteration, and after the last.
            again: the result of the condition.
            results: what the body returns.
        """
        return carried


class Fixpoint(Dataflow[_Op, _Value]):
    """A Dataflow that joins what is known of a value which may be one or another.

    Attributes:
        rounds: How often a loop's body is run at most to find what the loop carries. None for
            values that stop changing by themselves, as those of a lattice of finite height do.
    """

    rounds: int | None = None

    @abc.abstractmethod
    def join(self, value: _Value, other: _Value) -> _Value:
        """Returns what holds for a value that may be either of two; `value` if that says it all."""

    def merge(
        self, op: _Op, predicate: _Value, branches: Iterator[list[_Value]]
    ) -> Sequence[_Value]:
        """Returns what the branches return together."""
        joined = next(branches)
        for results in branches:
            joined = [self.join(*pair) for pair in zip(joined, results)]
        return joined

    def settle(self, op: _Op, start: list[_Value]) -> list[_Value]:
        """Runs a loop's body until that adds nothing to what is known."""
        carried = start
        for _ in itertools.islice(itertools.count(), self.rounds):
            results = self.call(op.calls[1], carried)
            joined = [self.join(*pair) for pair in zip(carried, results)]
            if joined == carried:
                break
            carried = joined
        return carried


class Summaries(Fixpoint[_Op, _Known]):
    """A Fixpoint of values that compare by what they say: it runs a function once for each.

    Attributes:
        nothing: What is known before anything is: the value that adds nothing to another.
        context: What the results of functions depend on besides their arguments.
    """

    nothing: _Known
    context: Hashable = None

    def __init__(self) -> None:
        self._summaries: dict[Hashable, list[_Known]] = {}

    def run(self, function: Function[_Op], arguments: Sequence[_Known]) -> list[_Known]:
        """Runs a function unless it ran before; returns what it returns."""
        key = (function, tuple(arguments), self.context)
        if key not in self._summaries:
            # For a function that calls itself.
            self._summaries[key] = [self.nothing] * len(function.results)
            self._summaries[key] = super().run(function, arguments)
        return self._summaries[key]

    def forget(self) -> None:
        """Forgets what functions return, as something else has changed that it depends on."""
        self._summaries.clear()
