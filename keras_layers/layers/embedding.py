"""`Embedding` and `SerialDense`: Keras layers that process a large matrix in parts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import embedding_ops, math_ops, serial_loop

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
