"""The Keras layer `Dropout`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import smart_cond

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import rand_ops


@registered
class Dropout(tf.keras.layers.Layer):
    """Drops elements of its inputs at random in training, and does nothing else.

    Elements that stay are multiplied by `1 / (1 - rate)`, so the expected sum is the same.

    Args:
        rate: the probability that an element is dropped, in `[0, 1)`.
        noise_shape: shape of the mask, as a list: for each dimension of the inputs its length, None
            for the same, or 1 where the mask is the same along it. By default the shape of the
            inputs.
        seed: two integers of 32 bits, which fix the mask. By default the mask is another in each
            step and on each replica.
        ref: see `rand_ops.dropout`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        TypeError: If the rate is not a number.
        ValueError: If the rate is outside of `[0, 1)`.
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Any = None,
        seed: Any = None,
        ref: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        rand_ops.checked_rate(rate)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed
        self.ref = ref
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Notes that the layer is built; it has no variables.

        Args:
            input_shape: shape of the inputs.
        """
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Applies dropout.

        Args:
            inputs: a tensor of floats.
            training: whether elements are dropped. By default as Keras says: in `fit`.

        Returns:
            A tensor like `inputs`.
        """
        if training is None:
            training = tf.keras.backend.learning_phase()
        return smart_cond.smart_cond(
            training, lambda: self._dropped(inputs), lambda: tf.identity(inputs)
        )

    def _dropped(self, inputs: Any) -> tf.Tensor:
        inputs = tf.convert_to_tensor(inputs)
        shape = _noise_shape(self.noise_shape, inputs)
        options = {"rate": self.rate, "seed": self.seed, "name": self.name, "ref": self.ref}
        if not isinstance(shape, list) or None not in shape:
            return rand_ops.dropout(inputs, noise_shape=shape, **options)
        # Lengths that are not known yet, as in a model that is saved, which has no batch size.
        now = tf.unstack(tf.shape(inputs), num=len(shape))
        lengths = [d if length is None else length for length, d in zip(shape, now)]
        mask = rand_ops.dropout(tf.ones(lengths, inputs.dtype), **options)
        return tf.where(mask == 0, tf.zeros([], inputs.dtype), inputs * mask)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the results, which is the shape of the inputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with, as plain Python values."""
        return {
            **super().get_config(),
            "rate": self.rate,
            "noise_shape": _plain(self.noise_shape),
            "seed": _plain(self.seed),
            "ref": self.ref,
        }


def _noise_shape(noise_shape: Any, inputs: tf.Tensor) -> Any:
    """Returns the shape of the mask with the lengths of the inputs, if known, for None."""
    if not isinstance(noise_shape, (list, tuple)) or None not in noise_shape:
        return noise_shape
    shape = inputs.shape
    if shape.rank != len(noise_shape):
        return [1 if length is None else length for length in noise_shape]  # refused there
    if any(n not in (None, 1, d) and d is not None for n, d in zip(noise_shape, shape)):
        raise ValueError(
            "Dimension mismatch: each length of noise_shape must be None, 1 or that of the inputs, "
            f"which have the shape {shape}. Received: noise_shape={list(noise_shape)}"
        )
    return [d if length is None else length for length, d in zip(noise_shape, shape)]


def _plain(value: Any) -> Any:
    """Returns a tensor, array or tuple as a list, which a configuration can hold."""
    if value is None:
        return None
    if tf.is_tensor(value):
        value = value.numpy()
    return value.tolist() if isinstance(value, np.ndarray) else list(value)
