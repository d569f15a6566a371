"""Updates of variables and accumulators: the module `popxl.ops.var_updates`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popxl import building, tensor
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.ops import indexing
from tensorflow_ipu.frontends.popxl.ops.optimizers import (
    adam_updater,
    adam_var_update,
    adamax_updater,
    lamb_updater,
)
from tensorflow_ipu.frontends.popxl.tensor import Tensor

__all__ = [
    "adam_updater",
    "adam_var_update",
    "adamax_updater",
    "lamb_updater",
    "accumulate_",
    "accumulate_mean_",
    "accumulate_moving_average_",
    "accumulate_moving_average_square_",
    "accumulate_square_",
    "accumulator_scale_",
    "accumulator_zero_",
    "copy_var_update_",
    "sparse_accumulate_",
]


def _spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    for spec in specs[1:2]:
        if spec.shape != specs[0].shape:
            raise popart_exception(
                f"An update must have the shape of the tensor, {specs[0].shape}. Received: "
                f"{spec.shape}"
            )
    return [specs[0]]


def _update(
    name: str, compute: Callable[..., Any], infer: Any = _spec, listed: str | None = None
) -> OpKind:
    """Enters an op into the table that writes its result into the first input."""
    return register(
        OpKind(
            name,
            infer,
            compute,
            Gradient.REFUSED,
            writes=(0,),
            view=views.whole,
            listed=listed,
        )
    )


def _scalar(factor: Any, t: Any) -> Any:
    return tf.cast(factor, t.dtype)


def _accumulate(t: Any, x: Any, factor: Any = None) -> Any:
    x = tf.cast(x, t.dtype)
    return t + (x if factor is None else _scalar(factor, t) * x)


def _accumulate_mean(t: Any, x: Any, step: Any) -> Any:
    """The mean of one more value; the factor is computed in float32."""
    new = 1 / (tf.cast(step, tf.float32) + 1)
    return _scalar(1 - new, t) * t + _scalar(new, t) * tf.cast(x, t.dtype)


def _moving_average(t: Any, x: Any, factor: Any) -> Any:
    """The moving average, computed in float32 if the tensor is narrower."""
    wide = tf.float32 if t.dtype.size < tf.float32.size else t.dtype
    factor = tf.cast(factor, wide)
    return tf.cast(factor * tf.cast(t, wide) + (1 - factor) * tf.cast(x, wide), t.dtype)


def _sparse(t: Any, x: Any, indices: Any, factor: Any = None, *, axis: int) -> Any:
    axis = axis % len(t.shape)
    x = tf.cast(x, t.dtype)
    x = x if factor is None else _scalar(factor, t) * x
    places = indexing.coordinates(indexing.spread(indices, x.shape, axis), axis)
    return tf.tensor_scatter_nd_add(t, places, x)


def _sparse_spec(specs: shapes.Specs, axis: int, **_: Any) -> list[TensorSpec]:
    t, x, indices = specs[:3]
    axis = shapes.positive_axis(axis, t.rank, "SparseAccumulate")
    expected = (*t.shape[:axis], indices.nelms, *t.shape[axis + 1 :])
    if x.shape != expected or indices.rank != 1 or not indices.dtype.is_int:
        raise popart_exception(
            f"SparseAccumulate: X must have the shape {expected} for {indices.nelms} integer "
            f"indices. Received: {x.shape}, and indices of {indices.dtype.name}{indices.shape}"
        )
    return [t]


def _zero(t: Any) -> Any:
    return tf.zeros_like(t)


_ACCUMULATE = _update("Accumulate", _accumulate)
_ACCUMULATE_MEAN = _update("AccumulateMean", _accumulate_mean, listed="Accumulate")
_ACCUMULATE_SQUARE = _update(
    "AccumulateSquare",
    lambda t, x, factor: t + _scalar(factor, t) * tf.square(tf.cast(x, t.dtype)),
    listed="Accumulate",
)
_COPY = _update("CopyVarUpdate", lambda t, x: tf.cast(x, t.dtype))
_MOVING_AVERAGE = _update(
    "AccumulateMovingAverage",
    lambda t, x, factor: _moving_average(t, tf.cast(x, t.dtype), factor),
    listed="Accumulate",
)
_MOVING_AVERAGE_SQUARE = _update(
    "AccumulateMovingAverageSquare",
    lambda t, x, factor: _moving_average(t, tf.square(tf.cast(x, t.dtype)), factor),
    listed="Accumulate",
)
_SCALE = _update(
    "AccumulatorScale", lambda t, factor: _scalar(factor, t) * t, lambda specs, **_: [specs[0]]
)
_SPARSE = _update("SparseAccumulate", _sparse, _sparse_spec)
_ZERO = _update("AccumulatorZero", _zero)


def accumulate_(t: Tensor, X: Tensor, f: float | Tensor | None = None) -> Tensor:  # noqa: N803
    """Adds a tensor, times a factor, to another.

    Args:
        t: the tensor that is modified.
        X: what is added, of its shape.
        f: the factor; 1 by default.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ, or the factor is the number 0.
    """
    _check(f)
    if f is None:
        return building.add(_ACCUMULATE, t, X)
    return _scaled(_ACCUMULATE, [t, X], f)


def accumulate_mean_(t: Tensor, X: Tensor, step: float | Tensor) -> Tensor:  # noqa: N803
    """Updates a tensor, the mean of `step` earlier tensors, with one more.

    Args:
        t: the tensor that is modified.
        X: the tensor to accumulate, of its shape.
        step: the number of tensors accumulated before.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return building.add(_ACCUMULATE_MEAN, t, X, tensor.as_tensor(step))


def accumulate_moving_average_(t: Tensor, X: Tensor, f: float | Tensor) -> Tensor:  # noqa: N803
    """Makes a tensor `f` times itself plus `1 - f` times another.

    Args:
        t: the tensor that is modified.
        X: the other, of its shape.
        f: the factor.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return _scaled(_MOVING_AVERAGE, [t, X], f)


def accumulate_moving_average_square_(
    t: Tensor,
    X: Tensor,  # noqa: N803
    f: float | Tensor,
) -> Tensor:
    """Makes a tensor `f` times itself plus `1 - f` times the squares of another.

    Args:
        t: the tensor that is modified.
        X: the other, of its shape.
        f: the factor.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return _scaled(_MOVING_AVERAGE_SQUARE, [t, X], f)


def accumulate_square_(t: Tensor, X: Tensor, f: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """Adds the squares of a tensor, times a factor, to another.

    Args:
        t: the tensor that is modified.
        X: whose squares are added, of its shape.
        f: the factor.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ, or the factor is the number 0.
    """
    _check(f)
    return _scaled(_ACCUMULATE_SQUARE, [t, X], f)


def accumulator_scale_(t: Tensor, f: float | Tensor) -> Tensor:
    """Multiplies a tensor by a factor; by the number 0, makes all elements 0.

    Args:
        t: the tensor that is modified.
        f: the factor.

    Returns:
        A view of `t`.
    """
    if not isinstance(f, Tensor) and f == 0:
        return accumulator_zero_(t)
    return _scaled(_SCALE, [t], f)


def accumulator_zero_(t: Tensor) -> Tensor:
    """Makes all elements of a tensor 0.

    Args:
        t: the tensor that is modified.

    Returns:
        A view of `t`.
    """
    return building.add(_ZERO, t)


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:  # noqa: N803
    """Copies a tensor into another.

    Args:
        t: the tensor that is modified.
        X: what is copied, of its shape.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return building.add(_COPY, t, X)


def sparse_accumulate_(
    t: Tensor,
    X: Tensor,  # noqa: N803
    indices: Tensor,
    axis: int = 0,
    f: float | Tensor | None = None,
    W: Tensor | None = None,  # noqa: N803
) -> Tensor:
    """Adds slices, times a factor, to the slices of a tensor at given indices.

    Args:
        t: the tensor that is modified.
        X: the slices.
        indices: the index of each; those that are there twice count twice.
        axis: the axis of the slices.
        f: the factor; 1 by default.
        W: a tensor to be laid out like; it has no effect on values.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes do not fit, or the factor is the number 0.
    """
    _check(f)
    if f is None:
        return building.add(_SPARSE, t, X, indices, axis=axis)
    return _scaled(_SPARSE, [t, X, indices], f, axis=axis)


def _scaled(kind: OpKind, tensors: Sequence[Tensor], f: float | Tensor, **given: Any) -> Tensor:
    """Adds an update with a factor: a tensor is its last input, a number an attribute."""
    if isinstance(f, Tensor):
        return building.add(kind, *tensors, f, **given)
    return building.add(kind, *tensors, factor=float(f), **given)


def _check(value: float | Tensor | None) -> None:
    """Refuses the number 0 as a factor."""
    if value is not None and not isinstance(value, Tensor) and value == 0:
        raise popart_exception("The factor of an accumulation is the constant 0: leave the op out.")
