"""Abstract values of the search for copies: tensors and variables with their IPUs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Union

import tensorflow as tf

from tensorflow_ipu.compiler.ir.records import OpRecord, TensorRecord


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
