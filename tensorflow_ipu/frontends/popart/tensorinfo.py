"""`TensorInfo`: shape and type of a tensor; the module `popart.tensorinfo`."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common.enums import DataType
from tensorflow_ipu.frontends.popart import datatypes

__all__ = ["TensorInfo"]


class TensorInfo:
    """Shape and type of a tensor."""

    def __init__(self, *args: Any) -> None:
        """Takes a type and a shape, or an array that has both.

        Args:
            *args: the type (a name such as "FLOAT", a `DataType` or NumPy's) and the shape; or an
                array.

        Raises:
            TypeError: If they are anything else.
            KeyError: If there is no such type of NumPy's.
            popart_exception: If no type has this name.
        """
        self._shape: tuple[int, ...] = ()
        self._type = datatypes.of_member(DataType.UNDEFINED)
        self.set(*args)

    def __repr__(self) -> str:
        return f"TensorInfo({self.data_type()}, {self.shape()})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorInfo):
            return NotImplemented
        return (self._type, self._shape) == (other._type, other._shape)

    def __hash__(self) -> int:
        return hash((self._type, self._shape))

    def set(self, *args: Any) -> None:
        """Takes another type and shape; see the constructor.

        Args:
            *args: as for the constructor.

        Raises:
            TypeError: As the constructor does.
            KeyError: As the constructor does.
            popart_exception: As the constructor does.
        """
        if len(args) == 1 and isinstance(args[0], np.ndarray):
            args = (args[0].dtype, args[0].shape)
        if len(args) != 2:
            raise TypeError(f"Can not create TensorInfo with args {args}: pass a type and a shape.")
        self._type = _type(args[0], args)
        self._shape = _shape(args[1], args)

    def shape(self) -> list[int]:
        """Returns the shape."""
        return list(self._shape)

    def rank(self) -> int:
        """Returns the number of dimensions."""
        return len(self._shape)

    def nelms(self) -> int:
        """Returns the number of elements."""
        return math.prod(self._shape)

    def nbytes(self) -> int:
        """Returns the number of bytes."""
        return self.nelms() * self._type.size

    def dim(self, i: int) -> int:
        """Returns the size of a dimension.

        Args:
            i: its number, from 0.
        """
        return self._shape[i]

    def metaShape(self) -> list[int]:
        """Returns the shape before tensor sharding: [] as there is none."""
        return []

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Returns the bytes between elements along each dimension of a shape.

        Args:
            shape: the shape.
        """
        return [math.prod(shape[i + 1 :]) * self._type.size for i in range(len(shape))]

    def dataType(self) -> DataType:
        """Returns the type."""
        return self._type.member

    def data_type(self) -> str:
        """Returns the name of the type, such as "FLOAT"."""
        return self._type.name

    def data_type_lcase(self) -> str:
        """Returns NumPy's name of the type, such as "float32"."""
        return self._type.lower_case


def _type(given: Any, args: Iterable[Any]) -> datatypes.Type:
    if isinstance(given, str):
        return datatypes.named(given)
    if isinstance(given, DataType):
        return datatypes.of_member(given)
    if isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic)):
        try:
            return datatypes.of_numpy(given)
        except datatypes.popart_exception as error:
            raise KeyError(str(error)) from None
    raise TypeError(f"Can not create TensorInfo with args {args}: {given!r} is not a type.")


def _shape(given: Any, args: Iterable[Any]) -> tuple[int, ...]:
    if isinstance(given, str):
        given = ast.literal_eval(given) if given.strip("() ") else ()
    if isinstance(given, Iterable) and not isinstance(given, (bytes, dict)):
        return tuple(int(size) for size in given)
    raise TypeError(f"Can not create TensorInfo with args {args}: {given!r} is not a shape.")
