"""Arrays with a type and a shape, and no values, for a process that only plans programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tensorflow_ipu.configs import flags


def plans_only() -> bool:
    """Returns whether this process ends before programs run, so that no array needs values."""
    return bool(flags.plan_file())


def make(shape: Iterable[int], dtype: Any) -> np.ndarray:
    """Returns an abstract array: all elements are one zero, and nothing can be written.

    Args:
        shape: its shape.
        dtype: its type.
    """
    return np.broadcast_to(np.zeros((), dtype), tuple(shape))


def is_abstract(array: np.ndarray) -> bool:
    """Returns whether an array is abstract. One with a single element never is."""
    return array.size > 1 and not any(array.strides)
