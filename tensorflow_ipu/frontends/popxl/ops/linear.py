"""Matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import tensorflow as tf

from tensorflow_ipu.frontends.common import kernels
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, ir_method, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import Tensor

_Pads = tuple[tuple[int, int], ...]
PadType = Literal["not_set", "same_upper", "same_lower", "valid"]
PAD_TYPES = get_args(PadType)


def product_spec(
    specs: shapes.Specs, output_type: dtypes.dtype | None = None, **_: Any
) -> list[TensorSpec]:
    """The rule of `numpy.matmul`."""
    lhs, rhs = specs
    if not lhs.shape or not rhs.shape:
        raise popart_exception(
            f"MatMul doesn't support scalar operands. Received: {lhs.shape} and {rhs.shape}"
        )
    if lhs.dtype is not rhs.dtype:
        raise popart_exception(
            f"MatMul of incompatible types {shapes.type_name(lhs.dtype)} and "
            f"{shapes.type_name(rhs.dtype)}. Cast one of them: ops.cast."
        )
    left = lhs.shape if lhs.rank > 1 else (1, *lhs.shape)
    right = rhs.shape if rhs.rank > 1 else (*rhs.shape, 1)
    if left[-1] != right[-2]:
        raise popart_exception(
            f"MatMul contracting dimensions unequal: {left[-1]} and {right[-2]}, of the shapes "
            f"{lhs.shape} and {rhs.shape}."
        )
    batch = shapes.broadcast_shape([left[:-2], right[:-2]], "MatMul")
    rows = (left[-2],) if lhs.rank > 1 else ()
    columns = (right[-1],) if rhs.rank > 1 else ()
    return [TensorSpec((*batch, *rows, *columns), output_type or lhs.dtype)]


def product(lhs: Any, rhs: Any, output_type: dtypes.dtype | None = None, **_: Any) -> Any:
    """Returns the product of TensorFlow tensors, summed in the type of the result."""
    if output_type is dtypes.float32 and lhs.dtype == tf.float16:
        lhs, rhs = tf.cast(lhs, tf.float32), tf.cast(rhs, tf.float32)
    left = lhs if len(lhs.shape) > 1 else lhs[tf.newaxis]
    right = rhs if len(rhs.shape) > 1 else rhs[:, tf.newaxis]
    product = tf.matmul(left, right)
    if len(rhs.shape) == 1:
        product = tf.squeeze(product, -1)
    if len(lhs.shape) == 1:
        product = tf.squeeze(product, -1 if len(rhs.shape) == 1 else -2)
    return product if output_type is None else tf.cast(product, output_type.name)


_MATMUL = register(OpKind("MatMul", product_spec, product))


@ir_method()
def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    output_type: dtypes.DTypeLike | None = None,
    partials_type: dtypes.DTypeLike | None = None,
) -> Tensor:
    """Returns the product of two matrices, or of the matrices in two tensors, as `numpy.matmul`.

    Args:
        lhs: a tensor.
        rhs: a tensor of the same type.
        available_memory_proportion: the part of a tile's memory that the product may use.
        output_type: type of the result; that of the operands by default.
        partials_type: type of the sums in between: float16 or float32.

    Raises:
        popart.popart_exception: If types differ, shapes do not fit, or one is a scalar.
        ValueError: If `partials_type` is another type.
    """
    output_type, partials_type = (
        None if given is None else dtypes.of_device(given) for given in (output_type, partials_type)
    )
    if partials_type not in (None, dtypes.float16, dtypes.float32):
        raise ValueError(
            f"partials_type must be popxl.float16 or popxl.float32. Received: {partials_type!r}"
        )
    if partials_type is None:
        context.get_ir().session_options.check_matmul_sums()
    return building.add(
        _MATMUL,
        lhs,
        rhs,
        output_type=output_type,
        memory_proportion=available_memory_proportion,
        partials_type=partials_type,
    )


def window_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    pad_type: str,
) -> _Pads:
    """Returns the elements to add before and after each spatial axis.

    Args:
        sizes: sizes of the axes.
        kernel: sizes of the window.
        stride: its steps.
        dilation: distances of its elements.
        padding: the requested padding: before all axes, then after all axes.
        pad_type: "not_set" for that, "same_upper", "same_lower" or "valid".

    Raises:
        ValueError: If the pad type is another one.
    """
    if pad_type not in PAD_TYPES:
        raise ValueError(
            f"The pad type {pad_type!r} is not valid. Expected one of: {', '.join(PAD_TYPES)}."
        )
    if pad_type == "valid":
        return ((0, 0),) * len(sizes)
    if pad_type == "not_set":
        return tuple(zip(padding[: len(sizes)], padding[len(sizes) :]))
    pads = []
    for size, window, step, distance in zip(sizes, kernel, stride, dilation):
        needed = (math.ceil(size / step) - 1) * step + distance * (window - 1) + 1 - size
        less, more = max(needed, 0) // 2, max(needed, 0) - max(needed, 0) // 2
        pads.append((less, more) if pad_type == "same_upper" else (more, less))
    return tuple(pads)


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: _Pads,
) -> tuple[int, ...]:
    """Returns how many windows there are along each axis.

    Args:
        sizes: sizes of the axes.
        kernel: sizes of the window.
        stride: its steps.
        dilation: distances of its elements.
        pads: elements that are added before and after.
    """
    return tuple(
        (size + sum(pad) - distance * (window - 1) - 1) // step + 1
        for size, window, step, distance, pad in zip(sizes, kernel, stride, dilation, pads)
    )


def channels_last(t: Any) -> Any:
    """Moves the channels from axis 1 to the last axis, the layout of the kernels."""
    return tf.transpose(t, [0, *range(2, len(t.shape)), 1])


def channels_first(t: Any) -> Any:
    """Returns a tensor with the channels, its last axis, as axis 1."""
    return tf.transpose(t, [0, len(t.shape) - 1, *range(1, len(t.shape) - 1)])


def conv_spec(
    specs: shapes.Specs,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: _Pads,
    groups: int,
    **_: Any,
) -> list[TensorSpec]:
    """The rule for the result of a convolution."""
    t, weight = specs
    if t.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise popart_exception(
            f"Conv: Invalid value for group: {groups}. A tensor with {t.shape[1]} channels and a "
            f"weight of the shape {weight.shape} do not fit."
        )
    shapes.check_same_types(specs, "Conv")
    spatial = windows(t.shape[2:], weight.shape[2:], stride, dilation, pads)
    return [t.with_shape((t.shape[0], weight.shape[0], *spatial))]


def convolved(
    t: Any,
    weight: Any,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    pads: _Pads,
    groups: int,
    **_: Any,
) -> Any:
    """Returns a convolution of TensorFlow tensors: each group of channels by itself."""
    rank = len(t.shape)
    padded = tf.pad(channels_last(t), [(0, 0), *pads, (0, 0)])
    kernel = tf.transpose(weight, [*range(2, rank), 1, 0])
    if max(stride) > 1 and max(dilation) > 1:  # which TensorFlow's convolutions do not combine
        kernel, dilation = kernels.dilated(kernel, dilation), (1,) * len(dilation)
    parts = zip(tf.split(padded, groups, -1), tf.split(kernel, groups, -1))
    results = [
        tf.nn.convolution(part, own, list(stride), "VALID", dilations=list(dilation))
        for part, own in parts
    ]
    return channels_first(results[0] if groups == 1 else tf.concat(results, -1))


_CONV = register(OpKind("Conv", conv_spec, convolved))


def conv(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    available_memory_proportions: Sequence[float] | None = None,
    partials_types: Sequence[str] | None = None,
    enable_conv_dithering: Sequence[int] | None = None,
) -> Tensor:
    """Returns the convolution of a tensor with a weight.

    Args:
        t: the tensor: samples, channels, and one to three spatial axes.
        weight: channels of the result, channels of a group, and a window.
        stride: the steps of the window.
        padding: zeros to add: before all spatial axes, then after all of them.
        dilation: distances of the elements of the window.
        groups: in how many groups the channels are convolved separately.
        pad_type: "not_set" for `padding`; "same_upper" or "same_lower" for results that have the
            size of the tensor divided by the stride; "valid" for none.
        available_memory_proportions: the part of a tile's memory that the op may use.
        partials_types: types of the sums in between.
        enable_conv_dithering: whether to lay out convolutions from different tiles on.

    Raises:
        ValueError: If the pad type is another one, or lists have the wrong length.
        popart.popart_exception: If channels do not fit.
    """
    return building.add(
        _CONV,
        t,
        weight,
        **window_attributes(t, weight, stride, padding, dilation, pad_type),
        groups=groups,
        memory_proportions=available_memory_proportions,
        partials_types=partials_types,
        dithering=enable_conv_dithering,
    )


def window_attributes(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    pad_type: str,
) -> dict[str, Any]:
    """Returns the attributes `stride`, `dilation` and `pads` of a convolution, checked.

    Args:
        t: the tensor.
        weight: the weight.
        stride: as for `conv`.
        padding: as for `conv`.
        dilation: as for `conv`.
        pad_type: as for `conv`.

    Raises:
        ValueError: If the pad type is unknown, or lists have the wrong length.
    """
    building.check_in_graph(context.get_current_graph(), [t, weight])
    axes = t.rank - 2
    for name, values, count in (
        ("stride", stride, axes),
        ("dilation", dilation, axes),
        ("padding", padding, 2 * axes),
    ):
        if len(values) != count:
            raise ValueError(
                f"{name} must have {count} entries for a tensor of rank {t.rank}. Received: "
                f"{tuple(values)}"
            )
    pads = window_padding(t.shape[2:], weight.shape[2:], stride, dilation, padding, pad_type)
    return {"stride": tuple(stride), "dilation": tuple(dilation), "pads": pads}


def transposed_spec(
    specs: shapes.Specs, sizes: tuple[int, ...], groups: int, **_: Any
) -> list[TensorSpec]:
    """The rule for the result of a transposed convolution."""
    t, weight = specs
    if t.shape[1] != weight.shape[0] or t.shape[1] % groups:
        raise popart_exception(
            f"ConvTranspose: Invalid value for group: {groups}. A tensor with {t.shape[1]} "
            f"channels and a weight of the shape {weight.shape} do not fit."
        )
    shapes.check_same_types(specs, "ConvTranspose")
    return [t.with_shape((t.shape[0], weight.shape[1] * groups, *sizes))]


def transposed(
    t: Any,
    weight: Any,
    sizes: tuple[int, ...],
    before: tuple[int, ...],
    stride: tuple[int, ...],
    groups: int,
    **_: Any,
) -> Any:
    """Computes a transposed convolution of TensorFlow tensors, cropped to the given sizes."""
    rank = len(t.shape)
    samples, spatial = t.shape[0], t.shape[2:]
    whole = [
        step * (size - 1) + window for step, size, window in zip(stride, spatial, weight.shape[2:])
    ]
    kernel = tf.transpose(weight, [*range(2, rank), 1, 0])
    parts = zip(tf.split(channels_last(t), groups, -1), tf.split(kernel, groups, -1))
    results = [
        tf.nn.conv_transpose(
            part, own, [samples, *whole, weight.shape[1]], list(stride), padding="VALID"
        )
        for part, own in parts
    ]
    result = results[0] if groups == 1 else tf.concat(results, -1)
    missing = [max(0, cut + size - full) for cut, size, full in zip(before, sizes, whole)]
    padded = tf.pad(result, [(0, 0), *((0, more) for more in missing), (0, 0)])
    cut = padded[(slice(None), *(slice(a, a + size) for a, size in zip(before, sizes)))]
    return channels_first(cut)


_CONV_TRANSPOSE = register(OpKind("ConvTranspose", transposed_spec, transposed))


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: Sequence[float] | None = None,
    partials_types: Sequence[str] | None = None,
    enable_conv_dithering: Sequence[int] | None = None,
) -> Tensor:
    """Returns the transposed convolution of a tensor with a weight.

    Args:
        t: the tensor: samples, channels, and spatial axes.
        weight: channels of the tensor, channels of a group of the result, and a window.
        stride: the steps of the window in the result.
        padding: the elements to cut off: before all spatial axes, then after all of them.
        dilation: distances of the elements of the window; none but 1 are supported.
        groups: in how many groups the channels are convolved separately.
        pad_type: "not_set" for `padding`; with an `output_shape`, "same_upper" or "same_lower"
            say where an odd rest is cut off.
        output_padding: elements to add after each spatial axis.
        output_shape: sizes of the spatial axes of the result, or its whole shape, in place of
            `padding`.
        available_memory_proportions: the part of a tile's memory that the op may use.
        partials_types: types of the sums in between.
        enable_conv_dithering: whether to lay out convolutions from different tiles on.

    Raises:
        ValueError: If the pad type is another one.
        popart.popart_exception: If channels do not fit, or values are not supported.
    """
    return building.add(
        _CONV_TRANSPOSE,
        t,
        weight,
        **transposed_attributes(
            t, weight, stride, padding, dilation, pad_type, output_padding, output_shape
        ),
        groups=groups,
        memory_proportions=available_memory_proportions,
        partials_types=partials_types,
        dithering=enable_conv_dithering,
    )


def transposed_attributes(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    pad_type: str,
    output_padding: Sequence[int],
    output_shape: Sequence[int],
) -> dict[str, Any]:
    """Returns the attributes `sizes`, `before` and `stride` of a transposed convolution, checked.

    Args:
        t: the tensor.
        weight: the weight.
        stride: as for `conv_transpose`.
        padding: as for `conv_transpose`.
        dilation: as for `conv_transpose`.
        pad_type: as for `conv_transpose`.
        output_padding: as for `conv_transpose`.
        output_shape: as for `conv_transpose`.

    Raises:
        ValueError: If the pad type is unknown.
        popart.popart_exception: If values are not supported.
    """
    building.check_in_graph(context.get_current_graph(), [t, weight])
    if pad_type not in PAD_TYPES:
        raise ValueError(
            f"The pad type {pad_type!r} is not valid. Expected one of: {', '.join(PAD_TYPES)}."
        )
    if any(distance != 1 for distance in dilation):
        raise popart_exception(
            f"ConvTranspose: Non default value for dilations is not supported: {tuple(dilation)}"
        )
    spatial = t.shape[2:]
    extra = tuple(output_padding) or (0,) * len(spatial)
    full = [
        step * (size - 1) + more + window
        for step, size, more, window in zip(stride, spatial, extra, weight.shape[2:])
    ]
    if output_shape:
        sizes = tuple(output_shape)[-len(spatial) :]
        before = _cut_before(full, sizes, pad_type)
    else:
        before = tuple(padding[: len(spatial)])
        after = padding[len(spatial) :]
        sizes = tuple(size - a - b for size, a, b in zip(full, before, after))
    return {"sizes": sizes, "before": before, "stride": tuple(stride)}


def _cut_before(full: Sequence[int], sizes: Sequence[int], pad_type: str) -> tuple[int, ...]:
    """Returns the elements to crop before each axis: half, with an odd rest by pad type."""
    if pad_type == "valid":
        raise popart_exception("ConvTranspose: the pad type 'valid' allows no output_shape.")
    totals = [max(0, whole - size) for whole, size in zip(full, sizes)]
    upper = pad_type == "same_upper"
    return tuple(total // 2 if upper else total - total // 2 for total in totals)
