"""Shim for floats as dimensions of shapes: `tf.placeholder(tf.float32, [width / 2])`.

TensorFlow 1.15 took a float that is a whole number; TensorFlow 2.15 refuses it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from tensorflow_ipu.compat.usage import Shim, Usage

_SHIM = Shim("float dimension of a shape", "the same number as an integer")


def allow(usage: Usage) -> None:
    """Allows whole floats as dimensions of shapes.

    Args:
        usage: where uses are noted.
    """
    from tensorflow.python.framework import tensor_shape

    dimension = tensor_shape.Dimension
    make = dimension.__init__

    @functools.wraps(make)
    def init(self: Any, value: Any) -> None:
        if isinstance(value, float):
            if int(value) != value:
                raise ValueError(
                    f"Ambiguous dimension: {value}. Dimensions are whole numbers: round it as it "
                    "is meant, for instance with // or int()."
                )
            usage.note(_SHIM, sys._getframe(1))
            value = int(value)
        make(self, value)

    dimension.__init__ = init
