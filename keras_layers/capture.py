"""Keras layers that let gradients be captured: see `ipu.grad_util_ops`."""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers._registration import registered
from tensorflow_ipu.ops import grad_util_ops


class _Capture(tf.keras.layers.Wrapper):
    """A layer around another one that computes the same, and captures a gradient."""

    _suffix: str

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        self._check(layer)
        super().__init__(layer, **kwargs)
        self.tag = f"{layer.name}{self._suffix}" if tag is None else tag
        self.supports_masking = layer.supports_masking

    def _check(self, layer: Any) -> None:
        """Refuses what has no such gradient."""
        wrappable = isinstance(layer, tf.keras.layers.Layer)
        if not wrappable or isinstance(layer, tf.keras.layers.InputLayer):
            raise ValueError(
                f"{type(self).__name__} is not supported for {layer!r}: it wraps a Keras layer "
                "that computes something. Capture the gradients of a tensor with "
                "ipu.grad_util_ops.capture_upstream_gradients."
            )

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
    """Captures the derivative of the loss by the values of a layer's activation function.

    Otherwise like `CaptureUpstreamGradients`. The two differ where a layer does more with the
    values of its activation function than return them.

    Args:
        layer: a Keras layer with an activation function, which it calls once as
            `self.activation`: a dense layer, convolution, `Activation` ...
        tag: what the gradients are called; by default `<name of the layer>_cag`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        ValueError: If `layer` is no layer, or has no such function. Recurrent layers call it in a
            loop over time, where it has a gradient at each step.
    """

    _suffix = "_cag"

    def _check(self, layer: Any) -> None:
        super()._check(layer)
        recurrent = isinstance(layer, tf.keras.layers.RNN) or hasattr(layer, "state_size")
        if recurrent or not callable(getattr(layer, "activation", None)):
            raise ValueError(
                f"{type(self).__name__} is not supported for {layer!r}: it wraps a layer that "
                "calls one activation function, its attribute `activation`, once. Use "
                "CaptureUpstreamGradients for the gradients of a layer's output."
            )

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Calls the layer.

        Args:
            inputs: the inputs of the wrapped layer.
            **kwargs: its other arguments.

        Returns:
            Its outputs.
        """
        activation = self.layer.activation

        def captured(*args: Any, **named: Any) -> Any:
            values = activation(*args, **named)
            return grad_util_ops.capture_upstream_gradients(values, tag=self.tag)

        # Past Keras's own `__setattr__`: the layer is as before when it has been called.
        self.layer.__dict__["activation"] = captured
        try:
            return self._outputs(inputs, **kwargs)
        finally:
            self.layer.__dict__["activation"] = activation
