"""Keras layers that capture gradients for `ipu.grad_util_ops`."""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.layers import capture_activations
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import grad_util_ops

# Attribute that Keras does not track: values for the weights of a layer that is made anew.
_WEIGHTS = "_ipu_weights"


class _Capture(tf.keras.layers.Wrapper):
    """A layer around another one that computes the same, and captures a gradient."""

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
        """Refuses what has no such gradient."""
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
        tag: what the gradients are called; by default `<name of the layer>_cug`.
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
        functions = {key: config[key] for key in capture_activations.activations_of(layer)}
        # Not attributes as Keras knows them: they are not part of the layer.
        self.__dict__["_functions"] = functions
        self.__dict__["_calls"] = capture_activations.ActivationCalls(tag)
        self.__dict__[_WEIGHTS] = layer.get_weights()
        return capture_activations.capturing(layer, self._calls)

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
        return bool(capture_activations.activations_of(layer))

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
