"""Rebuilds layers with activation functions that capture gradients."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.layers.rnn_base import PopnnLayer
from tensorflow_ipu.ops import grad_util_ops


def activations_of(layer: Any) -> dict[str, Callable[..., Any]]:
    """Returns the activation functions that the configuration of a layer shows, by key.

    Args:
        layer: a Keras layer.
    """
    if isinstance(layer, (tf.keras.layers.InputLayer, tf.keras.Model, PopnnLayer)):
        # Those of the last are one op with their activation functions in it.
        return {}
    try:
        config = layer.get_config()
    except NotImplementedError:
        return {}
    found = {key: _activation(layer, key, config[key]) for key in config if "activation" in key}
    return {key: function for key, function in found.items() if function is not None}


def _activation(layer: Any, key: str, value: Any) -> Callable[..., Any] | None:
    """Returns the function that an entry of a configuration stands for, None if it does not."""
    if value is None:
        return None
    if callable(value):
        return value
    try:
        function = tf.keras.activations.deserialize(value)
    except (ValueError, TypeError):
        # One of the user's own is in no table of Keras's, but most layers keep it under its key.
        kept = getattr(layer, key, None)
        function = kept if isinstance(value, (str, dict)) else None
    return function if callable(function) else None


def capturing(layer: Any, calls: ActivationCalls) -> Any:
    """Returns a layer like another one whose activation functions let gradients be captured.

    Args:
        layer: a Keras layer, which stays as it is.
        calls: what its functions do with their inputs.
    """
    wrapped = {
        key: _wrapped(calls, key, function) for key, function in activations_of(layer).items()
    }
    return type(layer).from_config({**layer.get_config(), **wrapped})


def _wrapped(calls: ActivationCalls, key: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what takes the place of an activation function."""

    # With the name of the original, under which Keras writes it to configurations.
    @functools.wraps(function, updated=())
    def activation(x: Any, *args: Any, **kwargs: Any) -> Any:
        return function(calls.captured(x, key), *args, **kwargs)

    return activation


class ActivationCalls:
    """The gradients captured in the calls of one layer.

    Attributes:
        tag: How the names of the gradients begin.
    """

    def __init__(self, tag: str) -> None:
        """Makes one."""
        self.tag = tag
        self._sums: list[_Sums | None] = []

    @contextlib.contextmanager
    def of(self, layer: Any, inputs: Any) -> Iterator[None]:
        """Opens a scope for one call of the layer.

        Args:
            layer: the layer.
            inputs: its inputs.

        Yields:
            Nothing.
        """
        recurrent = isinstance(layer, tf.keras.layers.RNN)
        self._sums.append(_Sums(layer, inputs) if recurrent else None)
        try:
            yield
        finally:
            self._sums.pop()

    def captured(self, x: Any, key: str) -> Any:
        """Returns the input of an activation function such that its gradient is captured.

        Args:
            x: the input.
            key: the key of the function in the configuration of its layer.
        """
        tag = f"{self.tag}_{key}"
        sums = self._sums[-1] if self._sums else None
        if sums is None:
            return grad_util_ops.capture_upstream_gradients(x, tag=tag)
        return x + sums.zeros(x, tag)


class _Sums:
    """Sums of the gradients that come back in the time steps of a recurrent layer.

    The steps are a loop, and a gradient in a loop cannot be used outside. So zeros from outside are
    added in each step: the gradient by these is the sum over all steps.
    """

    def __init__(self, layer: Any, inputs: Any) -> None:
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._layer = layer
        flat = [tf.convert_to_tensor(one) for one in tf.nest.flatten(inputs)]
        batch = 1 if getattr(layer, "time_major", False) else 0
        self._batch_size = tf.shape(flat[0])[batch]
        self._inputs = [one for one in flat if one.dtype.is_floating]
        self._zeros: dict[Any, Any] = {}

    def zeros(self, like: Any, tag: str) -> Any:
        """Returns zeros like a tensor, the same ones each time, whose gradient is captured."""
        key = (tag, like.dtype, tuple(like.shape))
        if key not in self._zeros:
            outside = contextlib.nullcontext() if self._graph is None else self._graph.as_default()
            with outside:
                self._zeros[key] = grad_util_ops.capture_upstream_gradients(
                    self._anchored(self._shape(like), like.dtype), tag=tag
                )
        return self._zeros[key]

    def _shape(self, like: Any) -> Any:
        """Returns the shape of a tensor in a time step, in values that are there outside."""
        if None in like.shape[1:]:
            raise ValueError(
                "CaptureActivationGradients needs the sizes that activation functions of the "
                f"recurrent layer {self._layer.name} get, all but the number of rows. Received a "
                f"tensor of shape {like.shape}. Set the sizes of the inputs of the model."
            )
        rows = self._batch_size if like.shape[0] is None else like.shape[0]
        return [rows, *like.shape[1:]]

    def _anchored(self, shape: Any, dtype: tf.DType) -> Any:
        """Returns zeros that gradients are computed for on the way to the layer's weights."""

        @tf.custom_gradient
        def zeros(*anchors: Any) -> Any:
            return tf.zeros(shape, dtype), lambda _: [tf.zeros_like(one) for one in anchors]

        weights = [tf.convert_to_tensor(one) for one in self._layer.trainable_weights]
        return zeros(*self._inputs, *weights)
