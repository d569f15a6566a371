"""Gradients that differ from those of what an op is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception


def refused(tensor: Any, message: str) -> Any:
    """Returns a tensor whose gradient is an error.

    Args:
        tensor: the tensor.
        message: what the error says.
    """

    @tf.custom_gradient
    def identity(x: Any) -> tuple[Any, Callable[[Any], NoReturn]]:
        def backward(_: Any) -> NoReturn:
            raise popart_exception(message)

        return tf.identity(x), backward

    return identity(tensor)


def zero(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function of one tensor whose gradient is zero, where TensorFlow's has none.

    Args:
        function: the function.
    """

    @tf.custom_gradient
    def computed(x: Any) -> Any:
        return function(x), tf.zeros_like

    return computed
