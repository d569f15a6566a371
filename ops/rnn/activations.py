"""Activation functions of recurrent layers, by name or as functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Union

import tensorflow as tf

from tensorflow_ipu.versions import packages

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
    """`clip(0.2 x + 0.5, 0, 1)`, as Keras 2 defines it."""
    return tf.clip_by_value(0.2 * x + 0.5, 0, 1)
