"""`TensorSpec`, the shape and type of a tensor, and rules for shapes that ops have in common."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl import dtypes

# What messages call the types, as the IR's own text does.
_TYPE_NAMES = {"float32": "FLOAT", "float16": "FLOAT16", "float64": "DOUBLE"}


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


def as_int(value: Any) -> int | None:
    """Returns an integer of Python or NumPy as an int; None for a bool or anything else.

    Args:
        value: the argument.
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return int(value) if is_integer else None


Specs = Sequence[TensorSpec]


def type_name(dtype: dtypes.dtype) -> str:
    """Returns the name of a type in messages, such as "INT32"."""
    return _TYPE_NAMES.get(dtype.name, dtype.name.upper())


def same(specs: Specs, **_: Any) -> list[TensorSpec]:
    """Returns the spec of the first input."""
    return [specs[0]]


def broadcast_shape(shapes: Sequence[tuple[int, ...]], what: str) -> tuple[int, ...]:
    """Returns the shape of tensors that are broadcast together, as NumPy does.

    Args:
        shapes: their shapes.
        what: the type of the op, for the error.

    Raises:
        popart.popart_exception: If they do not fit.
    """
    result: tuple[int, ...] = ()
    for shape in shapes:
        rank = max(len(result), len(shape))
        pairs = list(zip(_padded(result, rank), _padded(shape, rank)))
        if any(a != b and 1 not in (a, b) for a, b in pairs):
            frames = " and ".join(str(list(known)) for known in (result, shape))
            raise popart_exception(
                f"np broadcasting failed, frames {frames} are not aligned, for the op {what}. "
                "Dimensions must be equal or 1, counted from the last."
            )
        result = tuple(b if a == 1 else a for a, b in pairs)
    return result


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def check_same_types(specs: Specs, what: str) -> None:
    """Refuses inputs of different types: there are no implicit casts.

    Args:
        specs: the inputs.
        what: the type of the op, for the error.

    Raises:
        popart.popart_exception: If types differ.
    """
    for spec in specs[1:]:
        if spec.dtype is not specs[0].dtype:
            names = " and ".join(type_name(s.dtype) for s in (specs[0], spec))
            raise popart_exception(
                f"np broadcasting failed on 'Op({what})', incompatible types {names}. Cast one of "
                "them: ops.cast."
            )


def meta_shape(specs: Specs) -> tuple[int, ...]:
    """Returns the meta shape of an elementwise result.

    Raises:
        popart.popart_exception: If inputs are shards of tensors of different shapes.
    """
    found = {spec.meta_shape for spec in specs if spec.meta_shape}
    if len(found) > 1:
        raise popart_exception(f"Incompatible meta shapes: {sorted(found)}")
    return found.pop() if found else ()


def elementwise(what: str, dtype: dtypes.dtype | None = None) -> Any:
    """Makes the rule of an op on inputs that are broadcast together.

    Args:
        what: the type of the op, for errors.
        dtype: type of the result; that of the inputs by default.
    """

    def infer(specs: Specs, **_: Any) -> list[TensorSpec]:
        check_same_types(specs, what)
        shape = broadcast_shape([spec.shape for spec in specs], what)
        return [TensorSpec(shape, dtype or specs[0].dtype, meta_shape(specs))]

    return infer


def into_first(what: str) -> Any:
    """Makes the rule of an elementwise op that writes its result into the first input.

    Args:
        what: the type of the op, for errors.
    """
    rule = elementwise(what)

    def infer(specs: Specs, **_: Any) -> list[TensorSpec]:
        (result,) = rule(specs)
        if result.shape != specs[0].shape:
            raise popart_exception(
                f"{what}: a result of the shape {result.shape} cannot be written into a tensor of "
                f"the shape {specs[0].shape}."
            )
        return [result]

    return infer


def positive_axis(axis: int, rank: int, what: str) -> int:
    """Returns an axis counted from the first.

    Args:
        axis: the axis; negative ones count from the last.
        rank: number of axes.
        what: the op, for the error.

    Raises:
        popart.popart_exception: If there is no such axis.
    """
    if not -rank <= axis < max(rank, 1):
        raise popart_exception(
            f"{what}: the axis {axis} is outside the acceptable range [{-rank}, {rank - 1}] for a "
            f"tensor of rank {rank}."
        )
    return axis % rank if rank else 0
