"""Pools over windows and over all of space."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops import operands, windows
from tensorflow_ipu.frontends.popart.ops.registry import op


@op("MaxPool", 1, 8, 10, 11)
def _max_pool(
    x: Any,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    context: Any,
) -> Any:
    if dilations and any(number != 1 for number in dilations):
        raise popart_exception(
            f"{operands.OP}: Dilations of value other than 1 are currently not supported."
        )
    check_maxima(storage_order, context)
    return maxima(x, kernel_shape, auto_pad, ceil_mode, pads, strides)


def check_maxima(storage_order: int, context: Any) -> None:
    """Refuses positions of maxima.

    Args:
        storage_order: order of the positions.
        context: the node and its session.

    Raises:
        popart_exception: If the node has the output for them, or another order.
    """
    if storage_order:
        raise popart_exception("MaxPool does not support a storage_order other than 0.")
    if context.output_count > 1:
        raise popart_exception("MaxPool does not produce its second output, the indices.")


def maxima(
    x: Any,
    kernel: Any,
    auto_pad: str,
    ceil_mode: int,
    pads: Any,
    strides: Any,
    dilations: Any = None,
) -> Any:
    """Returns the maximum of each window.

    Args:
        x: the tensor.
        kernel: sizes of the window.
        auto_pad: as in ONNX.
        ceil_mode: whether windows that are not whole count.
        pads: as in ONNX.
        strides: of the window.
        dilations: of the window.
    """
    return _pool("MAX", x, kernel, auto_pad, ceil_mode, pads, strides, dilations, x.dtype.min)


@op("AveragePool", 1, 7, 10, 11)
def _average_pool(
    x: Any,
    *,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    if count_include_pad:
        raise popart_exception("`count_include_pad` is not supported. Leave it at 0.")
    return averaged(x, kernel_shape, auto_pad, ceil_mode, pads, strides)


def averaged(
    x: Any,
    kernel: Any,
    auto_pad: str,
    ceil_mode: int,
    pads: Any,
    strides: Any,
    counts_padding: bool = False,
    dilations: Any = None,
) -> Any:
    """Returns the mean of each window.

    Args:
        x: the tensor.
        kernel: sizes of the window.
        auto_pad: as in ONNX.
        ceil_mode: whether windows that are not whole count.
        pads: as in ONNX.
        strides: of the window.
        counts_padding: whether the mean is over the padding too.
        dilations: of the window.
    """
    if counts_padding:
        sizes, ones = x.shape.as_list()[2:], [1] * len(kernel)
        gaps = dilations or ones
        widths = windows.pads_of(pads, auto_pad, sizes, kernel, strides or ones, gaps)
        x, auto_pad, pads = tf.pad(x, [(0, 0), (0, 0), *widths]), "NOTSET", None
    arguments = (kernel, auto_pad, ceil_mode, pads, strides, dilations, 0)
    mean = _pool("AVG", x, *arguments)
    count = _pool("AVG", tf.ones([1, 1, *x.shape[2:]], x.dtype), *arguments)
    return mean / count


def _pool(
    kind: str,
    x: Any,
    kernel: Any,
    auto_pad: str,
    ceil_mode: int,
    pads: Any,
    strides: Any,
    dilations: Any,
    value: Any,
) -> Any:
    """Returns the pool of each window, with padding of a value."""
    sizes = x.shape.as_list()[2:]
    windows.check(f"{kind.title()}Pool", sizes, kernel, strides, pads, dilations)
    kernel, ones = list(kernel), [1] * len(sizes)
    strides, gaps = list(strides or ones), list(dilations or ones)
    widths = windows.pads_of(pads, auto_pad, sizes, kernel, strides, gaps)
    if ceil_mode:
        wide = [(window - 1) * gap + 1 for window, gap in zip(kernel, gaps)]
        widths = [
            (low, high + _missing(size, low, high, window, stride))
            for (low, high), size, window, stride in zip(widths, sizes, wide, strides)
        ]
    data = windows.channels_last(x)
    if any(map(any, widths)):
        around = [(0, 0), *widths, (0, 0)]
        data = tf.pad(data, around, constant_values=tf.cast(value, x.dtype))
    if gaps != ones:
        result = _dilated(kind, data, kernel, gaps, strides)
    elif any(stride > window for stride, window in zip(strides, kernel)):
        # TensorFlow refuses windows that leave out data between them.
        every = (slice(None), *(slice(None, None, stride) for stride in strides))
        result = tf.nn.pool(data, kernel, kind, ones, "VALID")[every]
    else:
        result = tf.nn.pool(data, kernel, kind, strides, "VALID")
    return windows.channels_second(result)


def _dilated(kind: str, data: Any, kernel: list[int], gaps: list[int], strides: list[int]) -> Any:
    """Returns the pool of windows with gaps, of one slice of the data for each element."""
    counts = [
        (size - (window - 1) * gap - 1) // stride + 1
        for size, window, gap, stride in zip(data.shape.as_list()[1:], kernel, gaps, strides)
    ]
    slices = [
        tuple(
            slice(at * gap, at * gap + (count - 1) * stride + 1, stride)
            for at, gap, count, stride in zip(place, gaps, counts, strides)
        )
        for place in np.ndindex(*kernel)
    ]
    parts = [data[(slice(None), *part)] for part in slices]
    if kind == "MAX":
        return functools.reduce(tf.maximum, parts)
    return tf.add_n(parts) / len(parts)


def _missing(size: int, low: int, high: int, window: int, stride: int) -> int:
    """Returns the padding that completes the last window of a dimension."""
    whole = size + low + high
    steps = -(-(whole - window) // stride)
    if steps * stride >= size + low:
        steps -= 1
    return max(0, steps * stride + window - whole)


@op("GlobalAveragePool", 1)
def _global_average_pool(x: Any) -> Any:
    return tf.reduce_mean(x, list(range(2, x.shape.rank)), True)


@op("GlobalMaxPool", 1)
def _global_max_pool(x: Any) -> Any:
    return tf.reduce_max(x, list(range(2, x.shape.rank)), True)


@op("LRN", 1)
def _lrn(x: Any, *, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0) -> Any:
    if size < 1:
        raise popart_exception(f"The size of LRN must be at least 1. Received: {size}")
    low = (size - 1) // 2
    padding = [(0, 0)] * x.shape.rank
    padding[1] = (low, size - 1 - low)
    squares = tf.pad(tf.square(x), padding)
    channels = np.arange(x.shape[1])
    total = tf.add_n([tf.gather(squares, channels + i, axis=1) for i in range(size)])
    scale = tf.cast(bias, x.dtype) + tf.cast(alpha / size, x.dtype) * total
    return x / tf.pow(scale, tf.cast(beta, x.dtype))
