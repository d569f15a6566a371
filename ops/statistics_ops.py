"""Histograms: the public module `ipu.statistics_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_FLOATS = (tf.float16, tf.float32)


def fixed_width_bins(inputs: Any, n_bins: int) -> tf.Tensor:
    """Returns evenly spaced levels from the least to the greatest of some values.

    Args:
        inputs: a vector of float16 or float32.
        n_bins: how many levels.

    Returns:
        A vector `[n_bins]` of the type of `inputs`: `linspace(min, max, n_bins)`.

    Raises:
        ValueError: If `inputs` are something else, or `n_bins` is less than 1.
    """
    inputs = _vector("inputs", inputs, _FLOATS)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1. Received: n_bins={n_bins}")
    with tf.name_scope("fixed_width_bins"):
        wide = tf.cast(inputs, tf.float32)
        levels = tf.linspace(tf.reduce_min(wide), tf.reduce_max(wide), n_bins)
        return tf.cast(levels, inputs.dtype)


def histogram(inputs: Any, levels: Any, absolute_of_input: bool = False) -> tf.Tensor:
    """Counts values between levels.

    Bin 0 has the values below `levels[0]`, bin i those from `levels[i - 1]` on and below
    `levels[i]`, the last bin those from `levels[-1]` on.

    Args:
        inputs: a vector of float16 or float32.
        levels: a vector of the same type, ascending.
        absolute_of_input: whether the absolute values of the inputs are counted.

    Returns:
        A vector `[len(levels) + 1]` of float32.

    Raises:
        ValueError: If `inputs` or `levels` are something else.
    """
    inputs, levels = _inputs_and_levels(inputs, levels)
    with tf.name_scope("histogram"):
        values = tf.abs(inputs) if absolute_of_input else inputs
        bins = tf.searchsorted(levels, values, side="right")
        size = tf.size(levels) + 1
        counts = tf.math.bincount(bins, minlength=size, maxlength=size, dtype=tf.float32)
        length = levels.shape[0]
        return tf.ensure_shape(counts, [None if length is None else length + 1])


def histogram_update(
    hist: Any, inputs: Any, levels: Any, absolute_of_input: bool = False
) -> tf.Tensor:
    """Adds the counts of further values to a histogram.

    Args:
        hist: what `histogram` returned for other values and the same levels.
        inputs: See `histogram`; so for the other arguments.
        levels: what the bins are between.
        absolute_of_input: whether the absolute values of the inputs are counted.

    Returns:
        The new histogram.

    Raises:
        ValueError: If `hist` is no vector of `len(levels) + 1` float32; see `histogram`.
    """
    hist = _vector("hist", hist, (tf.float32,))
    inputs, levels = _inputs_and_levels(inputs, levels)
    if None not in (hist.shape[0], levels.shape[0]) and hist.shape[0] != levels.shape[0] + 1:
        raise ValueError(
            "hist must have one bin more than there are levels. Received: hist of shape "
            f"{hist.shape} for levels of shape {levels.shape}"
        )
    with tf.name_scope("histogram_update"):
        return hist + histogram(inputs, levels, absolute_of_input)


def histogram_normalize(hist: Any) -> tf.Tensor:
    """Divides a histogram by its sum.

    Args:
        hist: a vector of float32.

    Returns:
        The relative frequencies.

    Raises:
        ValueError: If `hist` is something else.
    """
    hist = _vector("hist", hist, (tf.float32,))
    with tf.name_scope("histogram_normalize"):
        return hist / tf.reduce_sum(hist)


def _inputs_and_levels(inputs: Any, levels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Checks the arguments that have to go together."""
    inputs = _vector("inputs", inputs, _FLOATS)
    if not tf.is_tensor(levels) and not hasattr(levels, "dtype"):
        levels = tf.convert_to_tensor(levels, inputs.dtype)
    levels = _vector("levels", levels, _FLOATS)
    if inputs.dtype != levels.dtype:
        raise ValueError(
            "inputs and levels must have the same type. Received: inputs of "
            f"{inputs.dtype.name} and levels of {levels.dtype.name}. Cast one with tf.cast."
        )
    return inputs, levels


def _vector(argument: str, value: Any, dtypes: tuple[tf.DType, ...]) -> tf.Tensor:
    """Returns an argument as a vector of one of some types."""
    tensor = tf.convert_to_tensor(value)
    if tensor.shape.rank != 1 or tensor.dtype not in dtypes:
        names = " or ".join(dtype.name for dtype in dtypes)
        raise ValueError(
            f"{argument} must be of rank 1 and the type {names}. Received: {argument} of shape "
            f"{tensor.shape} and type {tensor.dtype.name}"
        )
    return tensor
