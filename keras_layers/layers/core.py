"""Dropout, embeddings, serialized dense layers, and layers that mark their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import smart_cond

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import (
    cross_replica_ops,
    embedding_ops,
    math_ops,
    pipelining_ops,
    rand_ops,
    serial_loop,
)

# --- Keras layers that return their inputs and give the compiler a hint ---


@registered
class RecomputationCheckpoint(tf.keras.layers.Layer):
    """Marks values of a pipeline stage that are kept rather than recomputed.

    With recomputation, the backward pass of a stage starts from what was kept. It is used with
    `RecomputationMode.RecomputeAndBackpropagateInterleaved`, and has no effect in other modes.
    """

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Marks the inputs.

        Args:
            inputs: a tensor or a structure of tensors.
            **kwargs: not used.

        Returns:
            The same structure with the same values.
        """
        return pipelining_ops.recomputation_checkpoint(inputs, name=self.name)


@registered
class AssumeEqualAcrossReplicas(tf.keras.layers.Layer):
    """Promises that its inputs are equal on all replicas, so that control flow may use them.

    Args:
        inplace: see `cross_replica_ops.assume_equal_across_replicas`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.
    """

    def __init__(self, inplace: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inplace = inplace

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Marks the inputs.

        Args:
            inputs: a tensor or a structure of tensors.
            **kwargs: not used.

        Returns:
            The same structure with the same values.
        """
        return cross_replica_ops.assume_equal_across_replicas(inputs, inplace=self.inplace)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with."""
        return {**super().get_config(), "inplace": self.inplace}


# --- The Keras layer `Dropout` ---


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


# --- `Embedding` and `SerialDense`: Keras layers that process a large matrix in parts ---

_DIMENSIONS = {
    "input_columns": "a_columns",
    "input_rows_kernel_columns": "a_rows_b_columns",
    "kernel_rows": "b_rows",
}


@registered
class Embedding(tf.keras.layers.Layer):
    """Turns integers into vectors, with a table that is trained.

    Takes `[batch, length]` and gives `[batch, length, output_dim]`. The weights are those of
    `tf.keras.layers.Embedding`.

    Args:
        input_dim: number of rows of the table: the largest integer plus one.
        output_dim: length of the vectors.
        embeddings_initializer: initializer of the table.
        serialization_factor: number of parts of the table that are looked into one after the other;
            it divides `input_dim`. See `embedding_ops.embedding_lookup`.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        ValueError: If the sizes are not positive, or the factor does not divide `input_dim`.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        serialization_factor: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if input_dim <= 0 or output_dim < 0:
            raise ValueError(
                "input_dim must be greater than 0, and output_dim at least 0. Received: "
                f"input_dim={input_dim}, output_dim={output_dim}"
            )
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)
        self.serialization_factor = serial_loop.check_factor(
            serialization_factor, input_dim, "input_dim"
        )

    def build(self, input_shape: Any) -> None:
        """Creates the table.

        Args:
            input_shape: shape of the inputs, of rank 2.

        Raises:
            ValueError: If it is of another rank.
        """
        if tf.TensorShape(input_shape).rank != 2:
            raise ValueError(
                "The input shape should be a tensor of shape [batch, input_length]. Received: "
                f"{input_shape}"
            )
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer,
        )
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> tf.Tensor:
        """Looks rows up.

        Args:
            inputs: integers, [batch, length].
            training: has no effect.

        Returns:
            The rows, [batch, length, output_dim].

        Raises:
            ValueError: If the inputs are no integers, or of another rank.
        """
        del training
        inputs = tf.convert_to_tensor(inputs)
        if not inputs.dtype.is_integer or inputs.shape.rank != 2:
            raise ValueError(
                "The input shape should be a tensor of shape [batch, input_length], of integers. "
                f"Received: {inputs.dtype.name} of shape {inputs.shape}"
            )
        return embedding_ops.embedding_lookup(
            self.embeddings, inputs, serialization_factor=self.serialization_factor
        )

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Returns the shape of the results, [batch, length, output_dim]."""
        return tf.TensorShape(input_shape).concatenate([self.output_dim])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with, as plain Python values."""
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": tf.keras.initializers.serialize(self.embeddings_initializer),
            "serialization_factor": self.serialization_factor,
        }


@registered
class SerialDense(tf.keras.layers.Dense):
    """A dense layer whose matrix product is done in parts, one after the other.

    Values and weights are those of `tf.keras.layers.Dense`; so are the arguments that are not
    named here.

    Args:
        units: size of the results.
        serialization_factor: number of parts; it divides the size of the dimension.
        serialization_dimension: "input_columns" for the rows of the batch,
            "input_rows_kernel_columns" for the features, "kernel_rows" for the units. See
            `math_ops.serialized_matmul`.
        activation: function of the results.
        **kwargs: other arguments of `tf.keras.layers.Dense`.

    Raises:
        ValueError: If there is no such dimension, or the factor is less than 1.
    """

    def __init__(
        self,
        units: int,
        serialization_factor: int,
        serialization_dimension: str,
        activation: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, **kwargs)
        if serialization_dimension not in _DIMENSIONS:
            raise ValueError(
                f"serialization_dimension must be one of {', '.join(map(repr, _DIMENSIONS))}. "
                f"Received: {serialization_dimension!r}"
            )
        self.serialization_factor = serial_loop.check_factor(serialization_factor, None, "")
        self.serialization_dimension = serialization_dimension

    def call(self, inputs: Any) -> tf.Tensor:
        """Multiplies with the kernel, adds the bias, applies the activation.

        Args:
            inputs: [..., features], rank >= 2.

        Returns:
            [..., units].

        Raises:
            ValueError: If the factor does not divide the dimension.
        """
        inputs = tf.cast(inputs, self._compute_dtype)
        rows = tf.reshape(inputs, [-1, self.kernel.shape[0]])
        results = math_ops.serialized_matmul(
            inputs if inputs.shape.rank == 2 else rows,
            self.kernel,
            self.serialization_factor,
            _DIMENSIONS[self.serialization_dimension],
        )
        if inputs.shape.rank != 2:
            shape = tf.concat([tf.shape(inputs)[:-1], [self.units]], 0)
            results = tf.reshape(results, shape)
            results.set_shape(inputs.shape[:-1].concatenate([self.units]))
        if self.use_bias:
            results = tf.nn.bias_add(results, self.bias)
        return results if self.activation is None else self.activation(results)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with, as plain Python values."""
        return {
            **super().get_config(),
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
        }
