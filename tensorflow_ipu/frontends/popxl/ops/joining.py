"""Joining tensors along an axis, and splitting them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import (
    OpKind,
    register,
)
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Tensor


def _concat_spec(specs: shapes.Specs, axis: int) -> list[TensorSpec]:
    first = specs[0]
    axis = shapes.positive_axis(axis, first.rank, "Concat")
    for spec in specs[1:]:
        others = [(a, b) for i, (a, b) in enumerate(zip(first.shape, spec.shape)) if i != axis]
        if spec.rank != first.rank or any(a != b for a, b in others):
            raise popart_exception(
                f"Concat along the axis {axis}: other dimensions must be equal. Received: "
                f"{[spec.shape for spec in specs]}"
            )
    whole = sum(spec.shape[axis] for spec in specs)
    return [first.with_shape((*first.shape[:axis], whole, *first.shape[axis + 1 :]))]


def _split_spec(specs: shapes.Specs, splits: tuple[int, ...], axis: int) -> list[TensorSpec]:
    (spec,) = specs
    shape = spec.shape
    if sum(splits) != shape[axis]:
        raise popart_exception(
            f"Split: the splits {splits} do not add up to {shape[axis]}, the size of the axis "
            f"{axis}."
        )
    return [spec.with_shape((*shape[:axis], size, *shape[axis + 1 :])) for size in splits]


def _split(t: Any, splits: tuple[int, ...], axis: int) -> list[Any]:
    return list(tf.split(t, list(splits), axis))


_CONCAT = register(OpKind("Concat", _concat_spec, lambda *ts, axis: tf.concat(list(ts), axis)))


_CONCAT_ = register(
    OpKind(
        "ConcatInplace",
        _concat_spec,
        lambda *ts, axis: [],
        view=lambda specs, axis: views.Joined(axis % specs[0].rank),
    )
)


_SPLIT = register(OpKind("Split", _split_spec, _split))


def concat(ts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Returns tensors joined along an axis.

    Args:
        ts: tensors of one type, whose other dimensions are equal.
        axis: the axis; negative ones count from the last.

    Raises:
        ValueError: If types differ.
        popart.popart_exception: If shapes do not fit.
    """
    return building.add(_CONCAT, *_same_type(ts), axis=axis)


def concat_(ts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Returns tensors joined along an axis as a view: what is written into it goes to them.

    Args:
        ts: tensors of one type, whose other dimensions are equal.
        axis: the axis; negative ones count from the last.

    Raises:
        ValueError: If types differ.
        popart.popart_exception: If shapes do not fit.
    """
    return building.add(_CONCAT_, *_same_type(ts), axis=axis)


def split(t: Tensor, splits: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Returns the parts of a tensor along an axis.

    Args:
        t: the tensor.
        splits: the number of equal parts, or the size of each.
        axis: the axis; negative ones count from the last.

    Raises:
        ValueError: If the number does not divide the axis.
        popart.popart_exception: If the sizes do not add up, or there is no such axis.
    """
    building.check_tensor(t)
    axis = shapes.positive_axis(axis, t.rank, "Split")
    if isinstance(splits, Iterable):
        sizes = tuple(splits)
    else:
        parts = operator.index(splits)
        if parts < 1 or t.shape[axis] % parts:
            raise ValueError(
                f"{parts} does not equally divide {t.shape[axis]}, the size of the axis {axis}."
            )
        sizes = (t.shape[axis] // parts,) * parts
    return building.add_all(_SPLIT, [t], splits=sizes, axis=axis)


def _same_type(ts: Sequence[Tensor]) -> Sequence[Tensor]:
    """Refuses tensors of different types."""
    for t in ts:
        building.check_tensor(t)
        if t.dtype is not ts[0].dtype:
            raise ValueError(
                f"All inputs to a concat operation must have the same type: {[*ts]}. Cast them: "
                "ops.cast."
            )
    return ts
