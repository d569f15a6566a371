"""Abstract evaluation of a program on the IPUs of its tensors, which finds copies.

`tensorflow_ipu.compiler.listing.copies` states the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.call_tree import Call, CalledOp
from tensorflow_ipu.compiler.ir.dataflow import Fixpoint, Function
from tensorflow_ipu.compiler.ir.records import CopyRecord, OpRecord
from tensorflow_ipu.compiler.listing.copy_values import (
    Operand,
    Operands,
    PlacedTensor,
    PlacedVariable,
    output,
    passed,
    returned,
    tensor_bytes,
)

# Ops whose results follow from the shapes of their inputs.
_OF_SHAPES = op_names.SHAPE_QUERIES | {"ZerosLike", "OnesLike"}


class CopyWalk(Fixpoint[CalledOp, Operand]):
    """Abstract evaluation of a program on the places of its tensors, which records copies.

    Attributes:
        copies: Those found so far.
    """

    # A loop hardly needs more: each round settles the values that depend on those settled before.
    rounds = 8

    def __init__(self) -> None:
        self.copies: list[CopyRecord] = []
        self._silent = 0
        # Variables that were read on an IPU other than their own, and not written since in this
        # run of a function.
        self._fresh: set[tuple[PlacedVariable, int]] = set()

    def run(self, function: Function[CalledOp], arguments: Sequence[Operand]) -> Operands:
        """Evaluates a function once; returns its results."""
        outside, self._fresh = self._fresh, set()
        results = super().run(function, arguments)
        self._fresh = outside
        return results

    def unknown(self, op: CalledOp, inputs: Operands, name: str) -> Operand:
        """Returns an argument on the IPU of the op that runs the function."""
        return PlacedTensor(name, None, list(op.record.ipus))

    def transfer(
        self, op: CalledOp, inputs: Operands, inside: Sequence[Operands]
    ) -> Sequence[Operand]:
        """Copies the inputs of an op to its IPU; returns its results there."""
        record = op.record
        values = [operand for operand in inputs if isinstance(operand, PlacedTensor)]
        variables = [operand for operand in inputs if isinstance(operand, PlacedVariable)]
        for value in values:
            for ipu in record.ipus:
                self._use(value, ipu, record)
        if len(variables) == len(record.outputs) == 1 and record.outputs[0].dtype == "resource":
            return [variables[0]]
        self._touch(record, values, variables)
        fixed = _is_fixed(op, inputs)
        return [output(record, index, fixed) for index in range(len(record.outputs))]

    def _use(self, value: PlacedTensor, ipu: int, record: OpRecord) -> None:
        """Copies a value to an IPU, for an op."""
        if value.fixed or ipu in value.ipus:
            return
        if not value.ipus:
            value.arrive(ipu)
            return
        self._copy(value.name, value.ipus[0], ipu, value.size, record)
        value.ipus.append(ipu)

    def _touch(
        self,
        record: OpRecord,
        values: Sequence[PlacedTensor],
        variables: Sequence[PlacedVariable],
    ) -> None:
        """Reads and writes variables, for an op."""
        if not variables or not record.ipus:
            return
        read = _share(record.bytes_in, [value.size for value in values], len(variables))
        results = [tensor_bytes(tensor) for tensor in record.outputs]
        written = _share(record.bytes_out, results, len(variables))
        for variable in variables:
            if variable.home is None:
                variable.home = record.ipus[0]
            for ipu in record.ipus:
                if read == 0 or ipu == variable.home or (variable, ipu) in self._fresh:
                    continue
                self._copy(variable.name, variable.home, ipu, read, record)
                self._fresh.add((variable, ipu))
            if written != 0:
                self._fresh = {entry for entry in self._fresh if entry[0] is not variable}
                if variable.home not in record.ipus:
                    self._copy(variable.name, record.ipus[0], variable.home, written, record)

    def _copy(
        self, name: str, source: int, destination: int, size: int | None, record: OpRecord
    ) -> None:
        """Records a copy that an op needs."""
        if self._silent or size == 0:
            return
        exact = record.runs is not None and not record.conditional
        label = "" if size is None else "exact" if exact else "assumed"
        self.copies.append(
            CopyRecord(
                *(name, record.function, source, destination),
                *(size, record.runs, record.conditional, label),
            )
        )

    def enter(self, function: Function[CalledOp], values: Sequence[Operand]) -> Operands:
        """Returns the values as arguments that refer to the caller's values."""
        return passed(values, function.arguments)

    def leave(self, op: CalledOp, values: Operands) -> Operands:
        """Returns the results of a call, where the function has them."""
        return [returned(op.record, index, value) for index, value in enumerate(values)]

    def merge(self, op: CalledOp, predicate: Operand, branches: Iterator[Operands]) -> Operands:
        """Returns the results of a conditional, where the first branch has them."""
        record = op.record
        if isinstance(predicate, PlacedTensor):
            for ipu in record.ipus:
                self._use(predicate, ipu, record)
        joined = self.leave(op, next(branches))
        for call, results in zip(op.calls[1:], branches):
            for first, result in zip(joined, results):
                if isinstance(first, PlacedTensor) and isinstance(result, PlacedTensor):
                    first.ipus = first.ipus or list(result.ipus)
                    taken = record._replace(function=call.function, conditional=True)
                    for ipu in first.ipus[:1]:
                        self._use(result, ipu, taken)
        for value in joined:
            if isinstance(value, PlacedTensor):
                value.fixed = False
                value.ipus = value.ipus[:1] or list(record.ipus[:1])
        return joined

    def settle(self, op: CalledOp, start: Operands) -> Operands:
        """Finds the IPU of each variable of a loop, and copies the initial values there.

        Those that the loop does not change stay where they are: they have an `outer` value.
        """
        body = op.calls[1]
        carried: Operands = []
        for index, (name, before) in enumerate(zip(body.arguments, start)):
            if isinstance(before, PlacedVariable):
                carried.append(before)
            elif index in body.invariant:
                carried.append(before.passed_as(name))
            else:
                carried.append(PlacedTensor(name, before.size, before.ipus[:1]))
        self._silent += 1
        carried = super().settle(op, carried)
        self._silent -= 1
        for before, value in zip(start, carried):
            if (
                isinstance(before, PlacedTensor)
                and isinstance(value, PlacedTensor)
                and value.outer is None
            ):
                for ipu in value.ipus:
                    self._use(before, ipu, op.record)
        return carried

    def join(self, value: Operand, other: Operand) -> Operand:
        """Returns the loop variable on the IPU where the body makes it."""
        if (
            isinstance(value, PlacedVariable)
            or isinstance(other, PlacedVariable)
            or value.outer is not None
        ):
            return value
        if other.outer is not None or other.fixed:  # an argument of the body, or everywhere
            return value
        home = other.ipus[:1]
        return value if home == value.ipus else PlacedTensor(value.name, value.size, home)

    def end(self, op: CalledOp, carried: Operands, again: Operand, results: Operands) -> Operands:
        """Copies the results of a loop's body to the IPUs of the loop's variables."""
        last = _runs_of_body(op.record, op.calls[1])
        for value, result in zip(carried, results):
            if (
                isinstance(value, PlacedTensor)
                and isinstance(result, PlacedTensor)
                and value.outer is None
            ):
                for ipu in value.ipus[:1]:
                    self._use(result, ipu, last)
        return self.leave(op, carried)


def _runs_of_body(record: OpRecord, body: Call) -> OpRecord:
    """Returns the record of a loop's op with the executions of the loop's body."""
    known = record.runs is not None and record.trip_count is not None
    runs = (record.runs or 0) * (record.trip_count or 0) if known else None
    return record._replace(function=body.function, runs=runs)


def _is_fixed(op: CalledOp, inputs: Operands) -> bool:
    """Returns whether the results of an op are compile-time constants."""
    if op.record.type == "Const":
        return True
    if op.stateful or op.calls or not inputs:
        return False
    if op.record.type in _OF_SHAPES:
        return all(
            isinstance(operand, PlacedTensor) and operand.size is not None for operand in inputs
        )
    return all(isinstance(operand, PlacedTensor) and operand.fixed for operand in inputs)


def _share(total: int | None, others: Sequence[int | None], count: int) -> int | None:
    """Returns the bytes of each of `count` variables, from an op's total and its other operands."""
    if total is None or any(size is None for size in others):
        return None
    return (total - sum(size or 0 for size in others)) // count
