"""Keras layers that capture gradients for `ipu.grad_util_ops`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.layers.rnn import PopnnLayer
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import grad_util_ops

# --- Activation functions ---


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
        calls: the captures of its functions' inputs.
    """
    wrapped = {
        key: _wrapped(calls, key, function) for key, function in activations_of(layer).items()
    }
    return type(layer).from_config({**layer.get_config(), **wrapped})


def _wrapped(calls: ActivationCalls, key: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an activation function so that it captures the gradient of its argument."""

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


# --- Layers ---

# Attribute that Keras does not track: values for the weights of a layer that is made anew.
_WEIGHTS = "_ipu_weights"


class _Capture(tf.keras.layers.Wrapper):
    """Base of the layers that compute the same as the layer they wrap, and capture a gradient."""

    _suffix: str

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        self._check(layer)
        tag = f"{layer.name}{self._suffix}" if tag is None else tag
        super().__init__(self._wrapped(layer, tag), **kwargs)
        self.tag = tag
        self.supports_masking = layer.supports_masking

    def _wrapped(self, layer: Any, tag: str) -> Any:
        """Returns the layer to call."""
        return layer

    def _check(self, layer: Any) -> None:
        """Raises if a value is not a layer with such a gradient."""
        wrappable = isinstance(layer, tf.keras.layers.Layer)
        if not wrappable or isinstance(layer, tf.keras.layers.InputLayer):
            raise ValueError(
                f"{type(self).__name__} is not supported for {layer!r}: it wraps a Keras layer "
                "that computes something. Capture the gradients of a tensor with "
                "ipu.grad_util_ops.capture_upstream_gradients."
            )

    def build(self, input_shape: Any = None) -> None:
        """Builds the wrapped layer.

        Args:
            input_shape: shape of the inputs, or a structure of shapes.
        """
        if isinstance(input_shape, list) and not any(map(tf.nest.is_nested, input_shape)):
            # From a saved model; recurrent layers take a list for a list of shapes.
            input_shape = tuple(input_shape)
        super().build(input_shape)
        weights = self.__dict__.pop(_WEIGHTS, None)
        if weights:
            self.layer.set_weights(weights)

    def _outputs(self, inputs: Any, **kwargs: Any) -> Any:
        """Calls the wrapped layer, with those Keras arguments that it takes."""
        parameters = inspect.signature(self.layer.call).parameters
        any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        taken = {
            name: value
            for name, value in kwargs.items()
            if name in parameters or any_name or name not in ("training", "mask")
        }
        return self.layer(inputs, **taken)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the wrapped layer's output."""
        return self.layer.compute_output_shape(input_shape)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns the mask of the wrapped layer's output."""
        return self.layer.compute_mask(inputs, mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with."""
        return {**super().get_config(), "tag": self.tag}


@registered
class CaptureUpstreamGradients(_Capture):
    """Captures the derivative of the loss by the output of a layer.

    It goes to the `GradientCaptureContext` that is open where gradients are computed. In `fit` that
    is one for the optimizer, if that takes captured gradients, as an `ALSOptimizer` does.

    Args:
        layer: a Keras layer.
        tag: name of the gradients; by default `<name of the layer>_cug`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        ValueError: If `layer` is no layer, or an input layer.
    """

    _suffix = "_cug"

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Calls the layer.

        Args:
            inputs: the inputs of the wrapped layer.
            **kwargs: its other arguments.

        Returns:
            Its outputs.
        """
        outputs = self._outputs(inputs, **kwargs)
        return grad_util_ops.capture_upstream_gradients(outputs, tag=self.tag)


@registered
class CaptureActivationGradients(_Capture):
    """Captures the derivatives of the loss by the inputs of a layer's activation functions.

    Otherwise like `CaptureUpstreamGradients`. A layer may have several such functions: all entries
    of its configuration with "activation" in the key count. The gradients of each are called
    `<tag>_<key>`, as in `dense_cag_activation`. A recurrent layer calls them in each time step:
    what is captured is the sum of the gradients of its calls.

    The wrapped layer is made anew from its configuration, with the same weights if it has any.

    Args:
        layer: a Keras layer that `layer_is_supported` is true for.
        tag: how the names of the gradients begin; by default `<name of the layer>_cag`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        ValueError: If `layer` is no layer, or uses no activation function.
    """

    _suffix = "_cag"

    def _wrapped(self, layer: Any, tag: str) -> Any:
        config = layer.get_config()
        functions = {key: config[key] for key in activations_of(layer)}
        # Not attributes as Keras knows them: they are not part of the layer.
        self.__dict__["_functions"] = functions
        self.__dict__["_calls"] = ActivationCalls(tag)
        self.__dict__[_WEIGHTS] = layer.get_weights()
        return capturing(layer, self._calls)

    @staticmethod
    def layer_is_supported(layer: Any) -> bool:
        """Returns whether a layer uses an activation function that its configuration shows.

        Args:
            layer: a Keras layer.

        Raises:
            ValueError: If it is no layer.
        """
        if not isinstance(layer, tf.keras.layers.Layer):
            raise ValueError(
                "CaptureActivationGradients is for instances of tf.keras.layers.Layer. Received: "
                f"{layer!r} of type {type(layer).__name__}"
            )
        return bool(activations_of(layer))

    def _check(self, layer: Any) -> None:
        super()._check(layer)
        if not self.layer_is_supported(layer):
            raise ValueError(
                f"Layer {layer.name} does not use an activation function: no key of the "
                f"configuration of a {type(layer).__name__} that contains 'activation' has one. "
                "Use CaptureUpstreamGradients for the gradients of a layer's output."
            )

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Calls the layer.

        Args:
            inputs: the inputs of the wrapped layer.
            **kwargs: its other arguments.

        Returns:
            Its outputs.
        """
        with self._calls.of(self.layer, inputs):
            return self._outputs(inputs, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with."""
        config = super().get_config()
        # In the place of those that let gradients be captured.
        config["layer"]["config"].update(self._functions)
        return config
