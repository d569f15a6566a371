"""Checks and conversions of tensors for functions that make ops: the module `popxl.ops.utils`."""

from __future__ import annotations

from typing import Any, TypeVar

from tensorflow_ipu.frontends.common.errors import UndefinedValue
from tensorflow_ipu.frontends.popxl.dtypes import dtype as _dtype
from tensorflow_ipu.frontends.popxl.ir import Graph
from tensorflow_ipu.frontends.popxl.ops.movement import cast
from tensorflow_ipu.frontends.popxl.tensor import Tensor

__all__ = [
    "cast_if_needed",
    "check_in_graph",
    "check_tensor_ipu_and_tile_set",
    "convert_optional_dtype",
    "convert_optional_float",
    "convert_optional_int",
    "convert_optional_int64_list",
    "handle_negative_axis",
]

T = TypeVar("T")


def check_in_graph(graph: Graph, *args: Any, **tensors: Any) -> None:
    """Refuses values that are no tensors of a graph.

    Args:
        graph: the graph.
        *args: none: the error names tensors by their keywords.
        **tensors: the values by the names of the parameters.

    Raises:
        Exception: If a value is given without a keyword.
        TypeError: If a value is no tensor.
        ValueError: If a tensor is in another graph.
    """
    if args:
        raise Exception(  # noqa: TRY002 - the class that programs expect
            f"check_in_graph: please specify all tensors as keyword arguments. Received: {args}"
        )
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"The input `{name}` is not a Tensor but {type(tensor).__name__}. Make a constant "
                "of it: popxl.constant(value)."
            )
        if tensor.graph is not graph:
            raise ValueError(
                f"The input tensor `{name}` is not in the current Graph, {graph!r}, but in "
                f"{tensor.graph!r}. Pass it to the graph as an input."
            )


def check_tensor_ipu_and_tile_set(**tensors: Tensor) -> None:
    """Refuses tensors on different IPUs or tile sets; those without a place are left out.

    Args:
        **tensors: the tensors by the names of the parameters.

    Raises:
        ValueError: If two have different places.
    """
    for attribute, what in (("ipu", "IPUs"), ("tile_set", "tile sets")):
        places = {name: _place(tensor, attribute) for name, tensor in tensors.items()}
        known = [(name, place) for name, place in places.items() if place is not None]
        for name, place in known[1:]:
            if place != known[0][1]:
                raise ValueError(
                    f"The tensors `{known[0][0]}` and `{name}` are located on different {what}: "
                    f"{known[0][1]} and {place}. Copy one: ops.ipu_copy, or ops.io_tile_copy."
                )


def _place(tensor: Tensor, attribute: str) -> Any:
    """Returns the place of a tensor; None if it is unknown."""
    try:
        return getattr(tensor, attribute)
    except UndefinedValue:
        return None


def cast_if_needed(t: Tensor, dtype: _dtype) -> Tensor:
    """Casts a tensor to a type that it does not have yet.

    Args:
        t: the tensor.
        dtype: the type.

    Returns:
        The tensor itself, or its cast.
    """
    return t if t.dtype == dtype else cast(t, dtype)


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """Counts a negative axis from the first dimension.

    Args:
        t: a tensor with the axis.
        axis: the axis, from the last dimension if it is negative.
    """
    return t.rank + axis if axis < 0 else axis


def convert_optional_float(v: T) -> T:
    """Returns an optional number as it is: ops here take it so.

    Args:
        v: the number or None.
    """
    return v


def convert_optional_int(v: T) -> T:
    """Returns an optional integer as it is: ops here take it so.

    Args:
        v: the integer or None.
    """
    return v


def convert_optional_dtype(dt: T) -> T:
    """Returns an optional type as it is: ops here take it so.

    Args:
        dt: the type or None.
    """
    return dt


def convert_optional_int64_list(x: T) -> T:
    """Returns an optional list of integers as it is: ops here take it so.

    Args:
        x: the list or None.
    """
    return x
