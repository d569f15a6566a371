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
    inputs = tf.convert_to_tensor(inputs)
    _check_ranks("fixed_width_bins", inputs=inputs)
    _check_floats("for fixed_width_bins", inputs=inputs)
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
    _check_ranks("histogram", inputs=inputs, levels=levels)
    _check_floats("for histogram computation", inputs=inputs, levels=levels)
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
        hist: the result of `histogram` for other values and the same levels.
        inputs: see `histogram`; so for the other arguments.
        levels: the bounds of the bins.
        absolute_of_input: whether the absolute values of the inputs are counted.

    Returns:
        The new histogram.

    Raises:
        ValueError: If `hist` is no vector of `len(levels) + 1` float32; see `histogram`.
    """
    hist = tf.convert_to_tensor(hist)
    inputs, levels = _inputs_and_levels(inputs, levels)
    _check_ranks("histogram_update", hist=hist, inputs=inputs, levels=levels)
    _check_floats("for histogram update", inputs=inputs, levels=levels)
    _check_counts(hist)
    if None not in (hist.shape[0], levels.shape[0]) and hist.shape[0] != levels.shape[0] + 1:
        raise ValueError(
            "hist and levels shapes are incompatible. For n levels, hist must have n+1 elements. "
            f"Received: hist of shape {hist.shape} for levels of shape {levels.shape}"
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
    hist = tf.convert_to_tensor(hist)
    _check_ranks("histogram_normalize", hist=hist)
    _check_counts(hist)
    with tf.name_scope("histogram_normalize"):
        return hist / tf.reduce_sum(hist)


def _inputs_and_levels(inputs: Any, levels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns both as tensors of one type; a list of levels takes the type of the inputs."""
    inputs = tf.convert_to_tensor(inputs)
    if inputs.dtype in _FLOATS and not tf.is_tensor(levels) and not hasattr(levels, "dtype"):
        levels = tf.convert_to_tensor(levels, inputs.dtype)
    levels = tf.convert_to_tensor(levels)
    if inputs.dtype in _FLOATS and levels.dtype in _FLOATS and inputs.dtype != levels.dtype:
        raise ValueError(
            "inputs and levels must have the same type. Received: inputs of "
            f"{inputs.dtype.name} and levels of {levels.dtype.name}. Cast one with tf.cast."
        )
    return inputs, levels


def _check_ranks(operation: str, **tensors: tf.Tensor) -> None:
    """Raises if a tensor is no vector."""
    if any(tensor.shape.rank != 1 for tensor in tensors.values()):
        shapes = ", ".join(f"{name} of shape {tensor.shape}" for name, tensor in tensors.items())
        raise ValueError(
            f"{operation} expects rank-1 tensor inputs. Received: {shapes}. Flatten tensors with "
            "tf.reshape(x, [-1])."
        )


def _check_floats(purpose: str, **tensors: tf.Tensor) -> None:
    """Raises if a tensor's type is not the type of the histogram's values."""
    if any(tensor.dtype not in _FLOATS for tensor in tensors.values()):
        types = ", ".join(f"{name} of {tensor.dtype.name}" for name, tensor in tensors.items())
        raise ValueError(
            f"Only float16 and float32 types are supported {purpose}. Received: {types}. Cast "
            "them with tf.cast."
        )


def _check_counts(hist: tf.Tensor) -> None:
    if hist.dtype != tf.float32:
        raise ValueError(
            f"hist must be of float32 type. Received: {hist.dtype.name}. Cast it with tf.cast."
        )
