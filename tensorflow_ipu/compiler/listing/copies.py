"""The copies between IPUs in a compiled program.

The rules:

* A tensor is on the IPUs of the op that made it. It is copied to every other IPU that uses it:
  once in each execution of the function it is used in, however many ops use it there.
* Data from the host (arguments, results of ops outside compilation) go to the IPU of their first
  user, and from there to others.
* A variable is on the IPU of the first op that uses it. An op elsewhere that reads it copies the
  elements read; an op that writes it sends the new elements back.
* An argument of a function is where the value is in the caller. A value that a loop carries along
  stays where the loop's body makes it; an invariant value stays where it was, and is copied in
  every iteration to the other IPUs that use it there. The result of a conditional is where the
  first branch has it.
* Constants, and values computed from constants and static shapes alone, are known when the program
  is compiled, so each IPU has its own. Handles, lists (`TensorList`), and predicates of loops count
  nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Union

import tensorflow as tf

from tensorflow_ipu.compiler.ir.dataflow import Fixpoint, Function
from tensorflow_ipu.compiler.ir.records import (
    ArgumentSpec,
    Call,
    CalledOp,
    CopyRecord,
    OpRecord,
    TensorRecord,
)
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.text import aligned, human_bytes


@dataclasses.dataclass(eq=False)
class PlacedTensor:
    """A tensor with its size and the IPUs that have it.

    Attributes:
        name: Name in its function.
        size: Bytes, None when the shape is unknown.
        ipus: IPUs that have it, its maker's first; empty until it comes from the host.
        fixed: Whether it is known when the program is compiled.
        outer: The value in the caller that this is an argument of.
    """

    name: str
    size: int | None
    ipus: list[int]
    fixed: bool = False
    outer: PlacedTensor | None = None

    def arrive(self, ipu: int) -> None:
        """Records that the value came from the host to an IPU."""
        self.ipus.append(ipu)
        if self.outer is not None and not self.outer.ipus:
            self.outer.arrive(ipu)

    def passed_as(self, name: str) -> PlacedTensor:
        """Returns the value as an argument of a callee."""
        return PlacedTensor(name, self.size, list(self.ipus), self.fixed, self)


@dataclasses.dataclass(eq=False)
class PlacedVariable:
    """A variable, and the IPU it is on.

    Attributes:
        name: Name of the argument or op that its handle came from.
        home: Index of the IPU, None until it is used.
    """

    name: str
    home: int | None = None


Operand = Union[PlacedTensor, PlacedVariable]
Operands = list[Operand]


def passed(operands: Sequence[Operand], names: Sequence[str]) -> Operands:
    """Returns operands as the arguments of a function."""
    return [
        operand if isinstance(operand, PlacedVariable) else operand.passed_as(name)
        for operand, name in zip(operands, names)
    ]


def returned(record: OpRecord, index: int, result: Operand) -> Operand:
    """Converts a result of a function to a result of the op that runs it."""
    if isinstance(result, PlacedVariable):
        return result
    size = tensor_bytes(record.outputs[index])
    return PlacedTensor(f"{record.name}:{index}", size, result.ipus[:1], result.fixed)


def output(record: OpRecord, index: int, fixed: bool) -> Operand:
    """Returns a result of an op, on the IPU of the op."""
    name = f"{record.name}:{index}"
    if record.outputs[index].dtype == "resource":
        return PlacedVariable(record.name)
    return PlacedTensor(name, tensor_bytes(record.outputs[index]), list(record.ipus), fixed)


def tensor_bytes(tensor: TensorRecord) -> int | None:
    """Returns the size of a tensor; 0 for a handle or list, None for a shape that is not static."""
    if tensor.dtype in ("resource", "variant"):
        return 0
    if tensor.shape is None or tensor.dtype == "string":
        return None
    if any(dimension is None for dimension in tensor.shape):
        return None
    return math.prod(dim or 0 for dim in tensor.shape) * tf.as_dtype(tensor.dtype).size


# --- Abstract evaluation of a program on the IPUs of its tensors, which finds copies ---

# `tensorflow_ipu.compiler.listing.copies` states the rules.

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


# --- The copies between IPUs in a compiled program ---


class CopyTotal(NamedTuple):
    """The number and bytes of all copies of one launch of a program on one replica.

    Args:
        bytes: their sum. Copies in loops of unknown trip count are counted as if made once, all
            branches as if taken.
        unknown_sizes: number of copies whose size is unknown; they are not in the sum.
        unknown_runs: number of copies in loops of unknown trip count.
        conditional: whether any copy is in a branch.
    """

    bytes: int
    unknown_sizes: int
    unknown_runs: int
    conditional: bool


def list_copies(
    tree: Callable[[], Call],
    inputs: Sequence[ArgumentSpec],
    records: Sequence[OpRecord],
) -> tuple[CopyRecord, ...]:
    """Lists the copies between IPUs of a compiled program, in the order of its ops.

    Args:
        tree: returns the listing as a tree; not asked for when all is on one IPU.
        inputs: one description for each argument of the entry, captures included.
        records: the listing of the program, from `listing.list_ops`.

    Returns:
        The copies, one for each tensor, IPU that uses it, and function it is used in.
    """
    if len({ipu for record in records for ipu in record.ipus}) < 2:
        return ()
    arguments: Operands = [
        PlacedVariable(spec.name)
        if spec.is_variable
        else PlacedTensor(spec.name, spec.num_bytes, [])
        for spec in inputs
    ]
    walk = CopyWalk()
    walk.run(tree(), arguments)
    return tuple(walk.copies)


def copy_total(copies: Sequence[CopyRecord]) -> CopyTotal:
    """Sums copies, each multiplied by its runs."""
    return CopyTotal(
        sum((copy.bytes or 0) * _runs(copy) for copy in copies),
        sum(copy.bytes is None for copy in copies),
        sum(copy.runs is None for copy in copies),
        any(copy.conditional for copy in copies),
    )


def format_copies(copies: Sequence[CopyRecord]) -> str:
    """Returns copies as an aligned table under a line with their total; empty without any."""
    if not copies:
        return ""
    total = copy_total(copies)
    lines = [f"copies between IPUs: {len(copies)}, {human_bytes(total.bytes)} in one launch"]
    rows = [("from", "to", "tensor", "bytes", "runs", "function")]
    rows += [
        (
            *(str(copy.source), str(copy.destination), copy.tensor),
            *(human_bytes(copy.bytes), "-" if copy.runs is None else str(copy.runs)),
            copy.function,
        )
        for copy in copies
    ]
    lines += aligned(rows, right=(0, 1, 3, 4))
    if total.unknown_sizes:
        lines.append(f"not in that number: {total.unknown_sizes} copies of unknown size")
    if total.unknown_runs:
        lines.append(f"counted once: {total.unknown_runs} copies in loops of unknown trip count")
    if total.conditional:
        lines.append("counted as taken: every branch of every conditional")
    return "\n".join(lines)


def _runs(copy: CopyRecord) -> int:
    """Returns the factor by which a copy is counted."""
    return 1 if copy.runs is None else copy.runs
