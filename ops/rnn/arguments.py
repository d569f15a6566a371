"""Arguments that recurrent layers share: activation functions, types, units, states, lengths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np
import tensorflow as tf

from tensorflow_ipu.import_hook.versions import packages

# --- Activation functions ---

# What an activation may be given as.
Activation = Union[str, Callable[..., tf.Tensor]]
LINEAR = "linear"
ACTIVATIONS = ("tanh", "relu", "softmax", "sigmoid", "hard_sigmoid")
# The reference leaves out relu: the gates need values that are bounded.
RECURRENT_ACTIVATIONS = ("tanh", "softmax", "sigmoid", "hard_sigmoid")
#: The name of `precise_tanh`.
PRECISE_TANH = "precise_tanh"
# From here on TensorFlow's tanh of float32 is less precise than 1 - 2 / (exp(2 x) + 1).
_LARGE = 0.5
# Other names that TensorFlow's functions have.
_ALIASES = {"softmax_v2": "softmax"}
_LIBRARIES = ("tensorflow_ipu", *packages.LIBRARIES)


def activation_name(value: Any, argument: str, allowed: Sequence[str] = ACTIVATIONS) -> str:
    """Returns the name of an activation that was passed as an argument.

    Args:
        value: its name, or the function of TensorFlow, Keras or this package.
        argument: name of the argument, for the error.
        allowed: the names that can be.

    Raises:
        ValueError: it is another.
    """
    name = value if isinstance(value, str) else _function_name(value)
    if name not in allowed:
        raise ValueError(
            f"{argument} must be one of {', '.join(allowed)}. Received: {argument}={value!r}"
        )
    return str(name)


def _function_name(value: Any) -> str:
    """Returns the name of a library's function, or nothing for a function of the user."""
    library = str(getattr(value, "__module__", "")).split(".")[0]
    name = str(getattr(value, "__name__", ""))
    return _ALIASES.get(name, name) if library in _LIBRARIES else ""


def activate(name: str, x: tf.Tensor) -> tf.Tensor:
    """Applies an activation; softmax is over the last dimension, the units of one gate."""
    function: Callable[[tf.Tensor], tf.Tensor] = _functions()[name]
    return function(x)


@functools.cache
def _functions() -> dict[str, Callable[[tf.Tensor], tf.Tensor]]:
    return {
        LINEAR: tf.identity,
        "tanh": tf.tanh,
        PRECISE_TANH: precise_tanh,
        "relu": tf.nn.relu,
        "softmax": tf.nn.softmax,
        "sigmoid": tf.sigmoid,
        "hard_sigmoid": _hard_sigmoid,
    }


def precise_tanh(x: tf.Tensor) -> tf.Tensor:
    """Returns hyperbolic tangents within 1e-7, which are not 1 before float32 rounds them to it.

    TensorFlow's are 1 from 7.9 on, where the gradient is still 5e-7.

    Args:
        x: the tensor.
    """
    if x.dtype != tf.float32:
        return tf.tanh(x)

    @tf.custom_gradient
    def computed(x: tf.Tensor) -> Any:
        far = tf.sign(x) * (1 - 2 / (tf.exp(2 * tf.abs(x)) + 1))
        result = tf.where(tf.abs(x) < _LARGE, tf.tanh(x), far)
        return result, lambda above: above * (1 - result * result)

    return computed(x)


def _hard_sigmoid(x: tf.Tensor) -> tf.Tensor:
    """Computes `clip(0.2 x + 0.5, 0, 1)`, as Keras 2 defines it."""
    return tf.clip_by_value(0.2 * x + 0.5, 0, 1)


# --- Checks ---

FLOATS = (tf.float16, tf.float32)


def float_type(value: Any, argument: str) -> tf.DType:
    """Returns a type that was passed as an argument.

    Raises:
        ValueError: it is neither float16 nor float32.
    """
    try:
        dtype = tf.as_dtype(value)
    except TypeError:
        dtype = None
    if dtype not in FLOATS:
        raise ValueError(f"Only support float16, float32. Received: {argument}={value!r}")
    return dtype


def computed_in(dtype: tf.DType, partials_dtype: tf.DType) -> tf.DType:
    """Returns the type that a layer computes in: partial results are at least as wide as data."""
    return dtype if partials_dtype == tf.float16 else tf.float32


def options(value: Any, argument: str) -> dict[str, Any]:
    """Returns options of the device's library, which change no results.

    Raises:
        TypeError: they are not a dict with strings as keys.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(
            f"{argument} must be a dict of names and values of options. Received: "
            f"{argument}={value!r}"
        )
    return dict(value)


def unit_count(value: Any, argument: str) -> int:
    """Returns a number of units.

    Raises:
        ValueError: it is not a positive int.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{argument} must be a positive int. Received: {argument}={value!r}")
    return int(value)


def state(value: Any, argument: str, batch: Any, units: int, dtype: tf.DType) -> tf.Tensor:
    """Returns an initial state as a tensor.

    Args:
        value: the state.
        argument: its name, for the error.
        batch: static batch size, or None.
        units: number of units.
        dtype: type of the tensor.

    Raises:
        ValueError: it does not have the shape [batch, units].
    """
    if isinstance(value, (list, tuple)) and any(tf.is_tensor(part) for part in value):
        raise ValueError(f"{argument} must be one tensor. Received: {argument}={value!r}")
    tensor = tf.convert_to_tensor(value)
    if not tensor.shape.is_compatible_with([batch, units]):
        raise ValueError(
            f"{argument} must have the shape [batch size, units], [{batch}, {units}]. Received: "
            f"{tensor.shape}"
        )
    return tf.cast(tf.ensure_shape(tensor, [batch, units]), dtype)


def sequence_lengths(value: Any, batch: int | None, steps: int | None) -> tf.Tensor:
    """Returns the lengths of sequences, int32 `[batch]`.

    Args:
        value: the lengths.
        batch: static batch size, or None.
        steps: static number of time steps, or None.

    Raises:
        ValueError: they are not integers.
        tf.errors.InvalidArgumentError: they have another shape, or are known and out of range.
    """
    lengths = tf.convert_to_tensor(value)
    if not lengths.dtype.is_integer:
        raise ValueError(f"seq_len must be integers. Received: seq_len of {lengths.dtype.name}")
    if not lengths.shape.is_compatible_with([batch]):
        _invalid(f"seq_len must have the shape [batch size], [{batch}]. Received: {lengths.shape}")
    known = tf.get_static_value(lengths)
    if known is not None and steps is not None and np.any((known < 0) | (known > steps)):
        _invalid(f"seq_len must be from 0 to the number of time steps, {steps}. Received: {known}")
    return tf.cast(lengths, tf.int32)


def attention_scores(value: Any, inputs: Sequence[int | None], dtype: tf.DType) -> tf.Tensor:
    """Returns attention scores as a tensor with the first two dimensions of the inputs.

    Raises:
        ValueError: they have another shape.
    """
    scores = tf.convert_to_tensor(value)
    expected = list(inputs[:2])
    if not scores.shape.is_compatible_with(expected):
        raise ValueError(
            "attention_score must have the first two dimensions of the inputs, "
            f"{expected}. Received: {scores.shape}"
        )
    return tf.cast(scores, dtype)


def _invalid(message: str) -> None:
    raise tf.errors.InvalidArgumentError(None, None, message)
