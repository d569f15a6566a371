"""`QuarterTensor`: a tensor of 8-bit floating-point numbers, public in `ipu.f8_ops`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

import numpy as np
import tensorflow as tf

from tensorflow_ipu.ops.f8 import codes


class QuarterTensor:
    """A tensor of numbers of 8 bits. It unpacks into its two parts.

    Attributes:
        data: the numbers, a uint8 tensor.
        metadata: what they mean, a uint8 scalar: see `create_metadata`.
    """

    def __init__(self, data: Any, metadata: Any) -> None:
        """Makes one of its parts.

        Args:
            data: uint8 tensor or array.
            metadata: uint8 tensor or array.

        Raises:
            TypeError: one of them is of another type.
        """
        self.data = as_bytes(data, "data")
        self.metadata = as_bytes(metadata, "metadata")

    def __iter__(self) -> Iterator[tf.Tensor]:
        """Gives data and metadata."""
        return iter((self.data, self.metadata))

    def numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns data and metadata as arrays; outside of graphs only."""
        return self.data.numpy(), self.metadata.numpy()

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the data."""
        return self.data.shape

    def __repr__(self) -> str:
        """Shows both parts."""
        return f"QuarterTensor(data={self.data!r}, metadata={self.metadata!r})"


Operand = Union[QuarterTensor, tf.Tensor]


def wide(operand: Operand, argument: str, operation: str) -> tf.Tensor:
    """Returns an operand's numbers in float32, which products of 8 bits are exact in."""
    if isinstance(operand, QuarterTensor):
        values = codes.decode(operand.data, operand.metadata)
    else:
        values = tf.cast(tf.cast(tf.convert_to_tensor(operand), tf.float16), tf.float32)
    if not values.shape.is_fully_defined():
        raise ValueError(
            f"{operation} needs operands of known shape. Received: {argument} of shape "
            f"{values.shape}. Set it with tf.ensure_shape."
        )
    return values


def as_bytes(value: Any, argument: str) -> tf.Tensor:
    """Converts a part of a QuarterTensor to a uint8 tensor; other types are a TypeError."""
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype != tf.uint8:
        raise TypeError(
            f"The {argument} of a QuarterTensor must be of the type uint8. Received: "
            f"{tensor.dtype.name}. Use convert_to_f8 to make one of numbers."
        )
    return tensor
