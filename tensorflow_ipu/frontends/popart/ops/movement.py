"""Ops that make, move and reshape data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import numpy_helper

from tensorflow_ipu.frontends.common.enums import DataType
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands, registry, windows
from tensorflow_ipu.frontends.popart.ops.operands import axes_of, axis_of
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op


@op("Constant", 1, 9, 11, folds=True)
def _constant(*, value: Any = None, sparse_value: Any = None) -> Any:
    if sparse_value is not None:
        raise popart_exception("The Constant op attribute 'sparse_value' is not supported.")
    return constant(value)


def constant(value: Any) -> Any:
    """Returns a tensor of a model as one of a program.

    Args:
        value: the tensor, as files have it.
    """
    array = numpy_helper.to_array(value)
    return tf.constant(array, datatypes.for_device(datatypes.of_onnx(value.data_type)).tf)


@op("ConstantOfShape", 9, known=(0,), folds=True)
def _constant_of_shape(shape: Any, *, value: Any = None) -> Any:
    number = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return tf.fill([int(size) for size in shape], tf.constant(number.reshape(-1)[0]))


@op("Init", 1, domain=GRAPHCORE)
def _init(*, shape: Any, data_type: int, init_type: int, batch_axis: int = -1) -> Any:
    type_ = datatypes.for_device(datatypes.of_member(DataType(data_type)))
    return tf.zeros(list(shape), type_.tf)


@op("Shape", 1, folds=True, of_shapes=True, gradient=GradientRule.NONE)
def _shape(x: Any) -> Any:
    return tf.constant(x.shape.as_list(), tf.int64)


@op("Reshape", 1)
def _reshape_attribute(x: Any, *, shape: Any) -> Any:
    return reshaped(x, shape)


@op("Reshape", 5, known=(1,), folds=True)
def _reshape(x: Any, shape: Any) -> Any:
    return reshaped(x, shape)


@op("Reshape", 1, domain=GRAPHCORE, folds=True)
def _reshape_graphcore(x: Any, *, shape: Any) -> Any:
    return reshaped(x, shape)


def reshaped(x: Any, shape: Any) -> Any:
    """Returns a tensor in another shape.

    Args:
        x: the tensor.
        shape: the shape: 0 keeps a dimension, -1 takes the remaining elements.

    Raises:
        popart_exception: If it has another number of elements.
    """
    wanted = [int(size) or x.shape[i] for i, size in enumerate(shape)]
    count = int(np.prod(wanted))
    if wanted.count(-1) > 1:
        raise popart_exception(
            "shape input to ReshapeOp can only use -1 to specify one unknown dimension. Received: "
            f"{operands.shape_text(shape)}"
        )
    if -1 not in wanted and count != x.shape.num_elements():
        raise popart_exception(
            f"Reshape cannot give a tensor of the shape {x.shape.as_list()} the shape {wanted}."
        )
    return tf.reshape(x, wanted)


@op("Flatten", 1, 9, 11)
def _flatten(x: Any, *, axis: int = 1) -> Any:
    axis = axis + x.shape.rank if axis < 0 else axis
    return tf.reshape(x, [int(np.prod(x.shape.as_list()[:axis])), -1])


@op("Transpose", 1, folds=True)
def _transpose(x: Any, *, perm: Any = None) -> Any:
    if perm is not None and len(perm) != x.shape.rank:
        raise popart_exception(
            f"Rank of permutation tensor {operands.shape_text(perm)}, rank {len(perm)} must be "
            "equal to "
            f"rank of input tensor, shape {operands.shape_text(x.shape)}, rank {x.shape.rank}."
        )
    if perm is not None and sorted(perm) != list(range(x.shape.rank)):
        raise popart_exception(
            f"The permutation {operands.shape_text(perm)} of {operands.OP} must have each "
            "dimension of the "
            f"input, 0 to {x.shape.rank - 1}, once."
        )
    return tf.transpose(x, perm)


@op("Squeeze", 1, 11, folds=True)
def _squeeze(x: Any, *, axes: Any = None) -> Any:
    return squeezed(x, axes)


def squeezed(x: Any, axes: Any) -> Any:
    """Returns a tensor without some dimensions of size 1.

    Args:
        x: the tensor.
        axes: the dimensions; None for all that have size 1.

    Raises:
        popart_exception: If one has another size.
    """
    chosen = None if axes is None else axes_of(axes, x.shape.rank)
    for axis in chosen or ():
        if x.shape[axis] != 1:
            raise popart_exception(
                f"Squeeze cannot remove the axis {axis} of the shape {x.shape.as_list()}."
            )
    return tf.squeeze(x, chosen)


@op("Unsqueeze", 1, 11, folds=True)
def _unsqueeze(x: Any, *, axes: Any) -> Any:
    return unsqueezed(x, axes)


def unsqueezed(x: Any, axes: Any) -> Any:
    """Returns a tensor with further dimensions of size 1.

    Args:
        x: the tensor.
        axes: their places in the result.
    """
    rank = x.shape.rank + len(axes)
    for axis in sorted(axes_of(axes, rank)):
        x = tf.expand_dims(x, axis)
    return x


@op("Concat", 1, 4, 11, folds=True)
def _concat(*tensors: Any, axis: int = 1) -> Any:
    return tf.concat(tensors, axis_of(axis, tensors[0].shape.rank))


@op("Split", 1, 2, 11)
def _split(x: Any, *, axis: int = 0, split: Any = None, context: Any = None) -> Any:
    return divided(x, axis, split, context.output_count)


def divided(x: Any, axis: int, split: Any, count: int) -> Any:
    """Returns parts of a tensor.

    Args:
        x: the tensor.
        axis: the dimension that is cut.
        split: sizes of the parts; None for equal ones.
        count: how many there are.

    Raises:
        popart_exception: If the sizes do not fit the dimension.
    """
    axis = axis_of(axis, x.shape.rank)
    if split is not None and sum(split) != x.shape[axis]:
        raise popart_exception(
            f"Split cannot cut {x.shape[axis]} elements of the axis {axis} into {list(split)}."
        )
    if split is None and x.shape[axis] % count:
        raise popart_exception(
            f"Split cannot cut {x.shape[axis]} elements of the axis {axis} into "
            f"{count} equal parts."
        )
    return tf.split(x, list(split) if split is not None else count, axis)


@op("Expand", 8, known=(1,), folds=True)
def _expand(x: Any, shape: Any) -> Any:
    try:
        target = np.broadcast_shapes(tuple(x.shape), tuple(int(size) for size in shape))
    except ValueError:
        raise popart_exception(
            f"{operands.OP} cannot expand {operands.shape_text(x.shape)} to "
            f"{operands.shape_text(shape)}: "
            "corresponding dimensions must have the same value or one of them must be 1"
        ) from None
    return tf.broadcast_to(x, target)


@op("Tile", 1, 6, known=(1,))
def _tile(x: Any, repeats: Any) -> Any:
    if len(repeats) != x.shape.rank:
        raise popart_exception(
            f"{operands.OP}: the repeats {operands.shape_text(repeats)} should have one element "
            "for each "
            "dimension of the data tensor"
        )
    if (repeats < 0).any():
        raise popart_exception(
            f"{operands.OP} repeats {operands.shape_text(repeats)}: Values must be non-negative in "
            "each shape "
            "dimension"
        )
    return tf.tile(x, [int(number) for number in repeats])


@op("Slice", 1, folds=True)
def _slice_attributes(x: Any, *, ends: Any, starts: Any, axes: Any = None) -> Any:
    return sliced(x, starts, ends, axes or None, None)


@op("Slice", 1, domain=GRAPHCORE)
def _slice_graphcore(x: Any, *, ends: Any, starts: Any, axes: Any = ()) -> Any:
    return sliced(x, starts, ends, axes or None, None)


@op("Slice", 10, 11, known=(1, 2, 3, 4), folds=True)
def _slice_inputs(
    x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None, *, context: Any
) -> Any:
    has_steps = steps is not None and any(abs(int(step)) != 1 for step in steps)
    if has_steps and not context.numerics.takes_steps:
        raise popart_exception(
            f"Slice only takes steps of 1 and -1. Received: {[int(step) for step in steps]} at "
            f"{operands.OP}. Enable the pattern Slice2SliceSubsample for others."
        )
    return sliced(x, starts, ends, axes, steps)


def sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    """Returns a slice, with bounds as in Python.

    Args:
        x: the tensor.
        starts: the first positions.
        ends: the positions after the last ones.
        axes: the dimensions; None for the first ones.
        steps: the steps; None for 1.
    """
    index = [slice(None)] * x.shape.rank
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps):
        number = axis_of(int(axis), x.shape.rank)
        index[number] = _bounds(x.shape[number], int(start), int(end), int(step))
    return x[tuple(index)]


def _bounds(size: int, start: int, end: int, step: int) -> slice:
    """Returns bounds within a dimension: ONNX writes "to the end" as a very large number."""
    first, last, by = slice(start, end, step).indices(size)
    return slice(first, None if by < 0 and last < 0 else last, by)


@op("Pad", 1, 2)
def _pad(x: Any, *, pads: Any, mode: str = "constant", value: float = 0.0) -> Any:
    return padded(x, pads, mode, value)


@op("Pad", 11, known=(1, 2))
def _pad_inputs(x: Any, pads: Any, value: Any = None, *, mode: str = "constant") -> Any:
    return padded(x, pads, mode, 0 if value is None else value.reshape(-1)[0])


def padded(x: Any, pads: Any, mode: str, value: Any) -> Any:
    """Returns a tensor with elements added at both ends of dimensions.

    Args:
        x: the tensor.
        pads: how many, before all dimensions, then after them; negative ones cut some.
        mode: their values: "constant", "edge" or "reflect".
        value: the constant.

    Raises:
        popart_exception: If there is no such mode.
    """
    rank = x.shape.rank
    windows.check_pads(pads, rank)
    before, after = [int(n) for n in pads[:rank]], [int(n) for n in pads[rank:]]
    cut = tuple(
        slice(max(0, -low), size - max(0, -high))
        for low, high, size in zip(before, after, x.shape.as_list())
    )
    x = x[cut]
    widths = [(max(0, low), max(0, high)) for low, high in zip(before, after)]
    if mode == "constant":
        return tf.pad(x, widths, constant_values=tf.cast(value, x.dtype))
    if mode == "reflect":
        result = tf.pad(x, widths, "REFLECT")
    elif mode == "edge":
        result = _edge_padded(x, widths)
    else:
        raise popart_exception(f"Pad has no mode {mode}: it is constant, edge or reflect.")
    return registry.with_refused_gradient(
        result, f"Pad does not support PadGradOp when mode is not constant. It is {mode}."
    )


def _edge_padded(x: Any, widths: Sequence[tuple[int, int]]) -> Any:
    """Returns a tensor with copies of its outermost elements added."""
    for axis, (low, high) in enumerate(widths):
        positions = np.clip(np.arange(-low, x.shape[axis] + high), 0, x.shape[axis] - 1)
        x = tf.gather(x, positions, axis=axis)
    return x


@op("DepthToSpace", 1, 11)
def _depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape.as_list()
    b = blocksize
    if mode == "DCR":
        parts = tf.reshape(x, [n, b, b, c // b**2, h, w])
        moved = tf.transpose(parts, [0, 3, 4, 1, 5, 2])
    else:
        parts = tf.reshape(x, [n, c // b**2, b, b, h, w])
        moved = tf.transpose(parts, [0, 1, 4, 2, 5, 3])
    return tf.reshape(moved, [n, c // b**2, h * b, w * b])


op("DepthToSpace", 1, domain=GRAPHCORE)(_depth_to_space)


@op("SpaceToDepth", 1)
def _space_to_depth(x: Any, *, blocksize: int) -> Any:
    n, c, h, w = x.shape.as_list()
    b = blocksize
    parts = tf.reshape(x, [n, c, h // b, b, w // b, b])
    return tf.reshape(tf.transpose(parts, [0, 3, 5, 1, 2, 4]), [n, c * b * b, h // b, w // b])


@op("Reverse", 1, domain=GRAPHCORE)
def _reverse(x: Any, *, dimensions: Any) -> Any:
    for position, dimension in enumerate(dimensions):
        if dimension < 0:
            raise popart_exception(
                f"Reverse got an invalid dimension '{dimension}'. Only positive dimensions are "
                "supported"
            )
        if dimension >= x.shape.rank:
            raise popart_exception(
                f"Reverse got an invalid dimension {dimension} for a tensor of rank {x.shape.rank}."
            )
        if dimension in dimensions[:position]:
            raise popart_exception(f"The dimension {dimension} appears multiple times in Reverse.")
    return tf.reverse(x, list(dimensions))


@op("Subsample", 1, domain=GRAPHCORE)
def _subsample(x: Any, *, strides: Any) -> Any:
    if 0 in strides:
        raise popart_exception(f"Strides invalid. 0 stride at index {list(strides).index(0)}")
    return x[tuple(slice(None, None, stride) for stride in strides)]
