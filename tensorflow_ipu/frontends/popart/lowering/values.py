"""`Value`: what a tensor of a model holds while the model is put into a program."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(eq=False)
class Value:
    """What a tensor of a model holds.

    Attributes:
        tensor: The tensor of the program; None for a constant that no op has taken.
        known: Its value when the session is made, if that is known.
        is_constant: Whether that never changes.
        is_weight: Whether it is a weight whose value is not known because replicas differ.
    """

    tensor: Any = None
    known: np.ndarray | None = None
    is_constant: bool = False
    is_weight: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self._held.shape)

    @property
    def dtype(self) -> Any:
        """TensorFlow's type of it."""
        return tf.as_dtype(self._held.dtype)

    @property
    def _held(self) -> Any:
        return self.known if self.tensor is None else self.tensor


def constant(array: np.ndarray) -> Value:
    """Returns a value that is known and never changes.

    Args:
        array: the value.
    """
    return Value(None, array, True)
