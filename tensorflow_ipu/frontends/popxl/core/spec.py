"""`TensorSpec`: shape and type of a tensor; the public class `popxl.TensorSpec`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow_ipu.frontends.popxl import dtypes


@dataclasses.dataclass(frozen=True, eq=True)
class TensorSpec(Mapping[str, Any]):
    """Shape and type of a tensor, also as a mapping: `graph_input(**spec)`.

    Attributes:
        shape: Its shape.
        dtype: Type of its elements.
        meta_shape: The shape of the whole, for a shard of a tensor; else empty.
    """

    shape: tuple[int, ...]
    dtype: dtypes.dtype
    meta_shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(dim) for dim in self.shape))
        object.__setattr__(self, "dtype", dtypes.of_device(self.dtype))
        object.__setattr__(self, "meta_shape", tuple(int(dim) for dim in self.meta_shape or ()))

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Returns shape, dtype and meta_shape by name."""
        return {"shape": self.shape, "dtype": self.dtype, "meta_shape": self.meta_shape}

    def to_tuple(self) -> tuple[Any, ...]:
        """Returns shape, dtype and meta_shape."""
        return tuple(self.to_dict().values())

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nelms(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def with_shape(self, shape: tuple[int, ...]) -> TensorSpec:
        """Returns the same with another shape, and without a meta shape.

        Args:
            shape: the new shape.
        """
        return TensorSpec(shape, self.dtype)

    def with_dtype(self, dtype: dtypes.dtype) -> TensorSpec:
        """Returns the same with another type.

        Args:
            dtype: the type.
        """
        return TensorSpec(self.shape, dtype, self.meta_shape)
