"""Ops that compute no values: casts, copies, and changes of shape."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import UndefinedValue, popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, ir_method, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.dtypes import tf_type
from tensorflow_ipu.frontends.popxl.tensor import Tensor

_IPU_COPY = register(OpKind("IpuCopy", shapes.same, lambda t, **_: tf.identity(t)))
_IO_TILE_COPY = register(OpKind("IoTileCopy", shapes.same, tf.identity))
_DETACH = register(OpKind("Detach", shapes.same, tf.identity, GradientRule.CUT))
_DETACH_ = register(
    OpKind("DetachInplace", shapes.same, lambda t: [], GradientRule.CUT, view=views.whole)
)
_IDENTITY = register(OpKind("Identity", shapes.same, tf.identity))


def _cast_spec(specs: shapes.Specs, data_type: dtypes.dtype) -> list[TensorSpec]:
    return [specs[0].with_dtype(data_type)]


def _cast(t: Any, data_type: dtypes.dtype) -> Any:
    return tf.cast(t, tf_type(data_type))


def _init_spec(specs: shapes.Specs, spec: TensorSpec) -> list[TensorSpec]:
    return [spec]


_CAST = register(OpKind("Cast", _cast_spec, _cast))
_INIT = register(OpKind("Init", _init_spec, lambda spec: tf.zeros(spec.shape, tf_type(spec.dtype))))


def cast(t: Tensor, data_type: dtypes.DTypeLike) -> Tensor:
    """Casts a tensor to another type. Floats are truncated to integers.

    Args:
        t: the tensor.
        data_type: the type.

    Raises:
        TypeError: For a type of 8-bit floats.
    """
    data_type = dtypes.of_device(data_type)
    if data_type.is_float8:
        raise TypeError(
            f"Casting to {data_type} is not supported for ops.cast. Use ops.pow2scale_cast_to_fp8."
        )
    building.check_tensor(t)
    return building.add(_CAST, t, name=f"{t.name}_{data_type.name}", data_type=data_type)


def init(
    shape: Iterable[int],
    dtype: dtypes.DTypeLike,
    name: str | None = None,
    init_type: str = "zero",
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Returns a new tensor, each time that the op runs.

    Args:
        shape: its shape.
        dtype: type of its elements.
        name: its name.
        init_type: "zero", or "undef" if its elements are written before they are read.
        meta_shape: for a shard, the shape of the whole.

    Raises:
        ValueError: If `init_type` is something else.
    """
    if init_type not in ("zero", "undef"):
        raise ValueError(f"Unknown init_type: {init_type!r}. Expected: 'zero' or 'undef'.")
    spec = TensorSpec(tuple(shape), dtypes.of_device(dtype), tuple(meta_shape or ()))
    return building.add(_INIT, name=name or "init", spec=spec)


def io_tile_copy(t: Tensor) -> Tensor:
    """Returns a copy of a tensor on the other tile set of its IPU.

    Args:
        t: the tensor.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    try:
        on_io_tiles = t.tile_set == "io"
    except UndefinedValue:
        on_io_tiles = False
    with context.on_tiles("compute" if on_io_tiles else "io"):
        return building.add(_IO_TILE_COPY, t)


@ir_method()
def ipu_copy(t: Tensor, destination: int, source: int | None = None) -> Tensor:
    """Returns a copy of a tensor on another IPU.

    Args:
        t: the tensor.
        destination: the IPU that it is copied to.
        source: the IPU that it is on; that of the tensor by default.

    Raises:
        ValueError: If nothing says on which IPU the tensor is.
    """
    building.check_in_graph(context.get_current_graph(), [t])
    if source is None:
        try:
            source = t.ipu
        except UndefinedValue:
            raise ValueError(
                f"Could not infer the ipu of {t!r}. Please specify `source`, the IPU that it is on."
            ) from None
    with context.ipu(destination):
        return building.add(_IPU_COPY, t, name=f"{t.name}_c{destination}", source=source)


def _reshape_spec(specs: shapes.Specs, shape: tuple[int, ...]) -> list[TensorSpec]:
    (spec,) = specs
    if spec.nelms != math.prod(shape):
        raise popart_exception(
            f"Reshape: a tensor of the shape {spec.shape} with {spec.nelms} elements cannot have "
            f"the shape {shape}."
        )
    return [spec.with_shape(shape)]


def _transpose_spec(specs: shapes.Specs, permutation: tuple[int, ...]) -> list[TensorSpec]:
    (spec,) = specs
    return [spec.with_shape(tuple(spec.shape[axis] for axis in permutation))]


_RESHAPE = register(OpKind("Reshape", _reshape_spec, lambda t, shape: tf.reshape(t, shape)))
_RESHAPE_ = register(
    OpKind(
        "ReshapeInplace",
        _reshape_spec,
        lambda t, shape: [],
        view=lambda specs, shape: views.Reshaped(shape),
    )
)
_TRANSPOSE = register(
    OpKind("Transpose", _transpose_spec, lambda t, permutation: tf.transpose(t, permutation))
)
_TRANSPOSE_ = register(
    OpKind(
        "TransposeInplace",
        _transpose_spec,
        lambda t, permutation: [],
        view=lambda specs, permutation: views.Transposed(permutation),
    )
)


@ir_method()
def detach(t: Tensor) -> Tensor:
    """Returns a tensor that passes no gradient on.

    Args:
        t: the tensor.
    """
    return building.add(_DETACH, t)


@ir_method()
def detach_(t: Tensor) -> Tensor:
    """Returns a view of a tensor that passes no gradient on.

    Args:
        t: the tensor.
    """
    return building.add(_DETACH_, t)


@ir_method()
def flatten(t: Tensor) -> Tensor:
    """Returns a tensor with one dimension.

    Args:
        t: the tensor.
    """
    return reshape(t, (-1,))


@ir_method()
def flatten_(t: Tensor) -> Tensor:
    """Returns a view of a tensor with one dimension.

    Args:
        t: the tensor.
    """
    return reshape_(t, (-1,))


def identity(t: Tensor, output_name: str | None = None) -> Tensor:
    """Returns a copy of a tensor.

    Args:
        t: the tensor.
        output_name: name of the copy; that of the tensor with `identity_` before it by default.
    """
    building.check_tensor(t)
    return building.add(_IDENTITY, t, name=output_name or f"identity_{t.name}")


def rename(t: Tensor, output_name: str | None = None) -> Tensor:
    """Returns a copy of a tensor with another name; the same as `identity`.

    Args:
        t: the tensor.
        output_name: name of the result.
    """
    return identity(t, output_name)


@ir_method()
def reshape(t: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns a tensor in another shape.

    Args:
        t: the tensor.
        shape: the shape, with at most one -1 for what the others leave.

    Raises:
        ValueError: If an entry is 0 or below -1, or there is more than one -1.
        popart.popart_exception: If the number of elements is another one.
    """
    return building.add(_RESHAPE, t, shape=_full_shape(t, shape))


@ir_method()
def reshape_(t: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns a view of a tensor in another shape.

    Args:
        t: the tensor.
        shape: the shape, with at most one -1 for what the others leave.

    Raises:
        ValueError: If an entry is 0 or below -1, or there is more than one -1.
        popart.popart_exception: If the number of elements is another one.
    """
    return building.add(_RESHAPE_, t, shape=_full_shape(t, shape))


def squeeze(t: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Returns a tensor without dimensions of size 1.

    Args:
        t: the tensor.
        axes: which to leave out; all by default. Negative ones count from the last.

    Raises:
        ValueError: If an axis is given twice, is beyond the rank, or has another size.
    """
    building.check_tensor(t)
    if axes is None:
        axes = [axis for axis, size in enumerate(t.shape) if size == 1]
    wanted = [axis + t.rank if axis < 0 else axis for axis in axes]
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"Axes contains duplicates. Received: {list(axes)}")
    for axis in wanted:
        if not 0 <= axis < t.rank or t.shape[axis] != 1:
            raise ValueError(
                f"Can't squeeze axis {axis} of a tensor of the shape {t.shape}: its size must be 1."
            )
    shape = tuple(size for axis, size in enumerate(t.shape) if axis not in wanted)
    return building.add(_RESHAPE, t, shape=shape)


@ir_method()
def transpose(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """Returns a tensor with its axes in another order.

    Args:
        t: the tensor.
        permutation: the axis of the tensor for each of the result; in reverse by default.

    Raises:
        ValueError: If it is no permutation of the axes.
    """
    return building.add(_TRANSPOSE, t, permutation=_permutation(t, permutation))


@ir_method()
def transpose_(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """Returns a view of a tensor with its axes in another order.

    Args:
        t: the tensor.
        permutation: the axis of the tensor for each of the view; in reverse by default.

    Raises:
        ValueError: If it is no permutation of the axes.
    """
    return building.add(_TRANSPOSE_, t, permutation=_permutation(t, permutation))


def _full_shape(t: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """Returns a shape with the size of -1 filled in."""
    building.check_tensor(t)
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"shape must be a tuple or list. Received: {shape!r}")
    for size in shape:
        if size < -1 or size == 0:
            raise ValueError(
                f"Invalid shape value in reshape: {size} in {tuple(shape)}. Expected: a number "
                "> 0, or -1."
            )
    if list(shape).count(-1) > 1:
        raise ValueError(
            f"Reshape shape can contain at most one '-1' value. Received: {tuple(shape)}"
        )
    known = math.prod(size for size in shape if size != -1)
    return tuple(t.nelms // known if size == -1 else int(size) for size in shape)


def _permutation(t: Tensor, permutation: Iterable[int] | None) -> tuple[int, ...]:
    """Returns the order of axes that is asked for."""
    building.check_tensor(t)
    if permutation is None:
        return tuple(reversed(range(t.rank)))
    order = tuple(axis + t.rank if axis < 0 else axis for axis in permutation)
    if any(axis >= t.rank for axis in order):
        raise ValueError(
            f"Values in permutation must be less than the tensor's rank, {t.rank}. Received: "
            f"{order}"
        )
    if sorted(order) != list(range(t.rank)):
        raise ValueError(
            f"A permutation must have each of the {t.rank} axes once. Received: {order}"
        )
    return order


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
    """Concatenates tensors along an axis as a view: writes into it modify the operands.

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
