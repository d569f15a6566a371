"""Buffers of a Workload, with the tensors of a program in them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.compiler.ir.records import TensorRecord
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import (
    CONSTANT,
    INPUT,
    TENSOR,
    VARIABLE,
    Buffer,
    Operand,
    Variable,
)

# Types without memory of an IPU: handles, and texts.
HANDLES = ("resource", "variant", "string")
# Integers and flags with few elements are shapes, axes, bounds and counters: they are part of the
# code, not data, as long as they are known when the program is compiled.
LARGEST_INDEX = 16
INDEX_TYPES = ("int32", "int64", "bool")


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor while the program is followed.

    Attributes:
        dtype: Element type; for the handle of a variable, the variable's.
        shape: Dimensions, unknown ones 1; for the handle of a variable, the variable's.
        buffer: Buffer that it is in, None if it takes no memory.
        exact: Whether all dimensions are known.
        fixed: Whether it is known when the program is compiled.
        constant: Its value, for a small constant of integers.
        variable: Index of the variable that it is the handle of.
        batched: Index of the dimension that grows with the batch size.
        every: For the condition of an update: N, if it holds once in N runs; else 0.
    """

    dtype: str
    shape: tuple[int, ...]
    buffer: int | None = None
    exact: bool = True
    fixed: bool = False
    constant: np.ndarray | None = None
    variable: int | None = None
    batched: int | None = None
    every: int = 0

    @property
    def operand(self) -> Operand:
        """The value as an operand of an op."""
        return Operand(self.dtype, self.shape, self.buffer)

    @property
    def is_index(self) -> bool:
        """Whether it is as small as shapes and counters are."""
        return self.dtype in INDEX_TYPES and math.prod(self.shape) <= LARGEST_INDEX

    def kept_in(self, buffer: int | None) -> Value:
        """Returns the tensor in another buffer, no longer a compile-time constant."""
        return Value(self.dtype, self.shape, buffer, self.exact, batched=self.batched)


def value_of(record: TensorRecord) -> Value:
    """Returns a result of an op, without memory so far."""
    if record.shape is None:
        return Value(record.dtype, (), exact=record.dtype in HANDLES)
    exact = None not in record.shape or record.dtype in HANDLES
    return Value(record.dtype, tuple(1 if d is None else d for d in record.shape), exact=exact)


class Buffers:
    """All buffers found so far."""

    def __init__(self) -> None:
        self._found: list[Buffer] = []
        # Runs of the op that made a list which grows, by the list's buffer.
        self._growing: dict[int, int] = {}
        self._lists: set[int] = set()

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> tuple[Buffer, ...]:
        """Returns all buffers."""
        return tuple(self._found)

    def variable(self, index: int, variable: Variable) -> int:
        """Adds the buffer of a variable; its IPU is set at its first use."""
        return self._add(
            Buffer(variable.name, variable.dtype, variable.shape, VARIABLE, None, variable=index)
        )

    def constant(self, name: str, value: Value, ipu: int | None, uniform: bool) -> int:
        """Adds a constant. A constant with equal elements takes the memory of one element."""
        shape = () if uniform else value.shape
        return self._add(Buffer(name, value.dtype, shape, CONSTANT, ipu))

    def input(self, name: str, value: Value) -> int:
        """Adds an argument of the program; it goes to the IPU of its first user."""
        return self._add(Buffer(name, value.dtype, value.shape, INPUT, None, batched=value.batched))

    def tensor(self, name: str, value: Value, ipu: int | None) -> int:
        """Adds a buffer for a result of an op."""
        label = Label.EXACT if value.exact else Label.ASSUMED
        return self._add(
            Buffer(name, value.dtype, value.shape, TENSOR, ipu, batched=value.batched, label=label)
        )

    def list(
        self, name: str, ipu: int | None, shape: Sequence[int] | None, count: int | None, runs: int
    ) -> int:
        """Adds a list of tensors.

        Args:
            name: of the tensor that is the list.
            ipu: where it is.
            shape: of an element, None if it is known from the first element only.
            count: number of elements, None for a list that grows with each element.
            runs: executions of the op that made it, in one launch.
        """
        index = self._add(
            Buffer(name, "", tuple(shape or ()), TENSOR, ipu, entries=0 if count is None else count)
        )
        self._lists.add(index)
        if count is None:
            self._growing[index] = max(runs, 1)
        return index

    def is_list(self, index: int) -> bool:
        """Returns whether a buffer was made for a list rather than for a tensor."""
        return index in self._lists

    def same(self, name: str, other: int, ipu: int | None) -> int:
        """Adds a list like another one."""
        index = self._add(self._found[other]._replace(name=name, ipu=ipu))
        if other in self._lists:
            self._lists.add(index)
        return index

    def put(self, index: int, element: Value, runs: int | None) -> None:
        """Records that an op puts an element into a list.

        Args:
            index: buffer of the list.
            element: the element.
            runs: executions of the op in one launch, None if unknown.
        """
        buffer = self._found[index]
        if not buffer.dtype:
            buffer = buffer._replace(
                dtype=element.dtype,
                shape=element.shape,
                batched=element.batched,
                label=Label.EXACT if element.exact else Label.ASSUMED,
            )
        if index in self._growing:
            more = -(-(runs or 1) // self._growing[index])
            buffer = buffer._replace(
                entries=buffer.entries + more, label=Label.ASSUMED if runs is None else buffer.label
            )
        self._found[index] = buffer

    def settle(self, index: int, ipu: int | None) -> None:
        """Records a use of a buffer: the first one sets the IPU of a variable or argument."""
        buffer = self._found[index]
        if buffer.ipu is None and ipu is not None and buffer.kind in (VARIABLE, INPUT):
            self._found[index] = buffer._replace(ipu=ipu)

    def __getitem__(self, index: int) -> Buffer:
        return self._found[index]

    def _add(self, buffer: Buffer) -> int:
        self._found.append(buffer)
        return len(self._found) - 1
