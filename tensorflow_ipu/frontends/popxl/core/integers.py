"""Integers in arguments: those of Python, and of NumPy, as programs compute counts with both."""

from __future__ import annotations

import numbers
from typing import Any


def as_int(value: Any) -> int | None:
    """Returns an integer of Python or NumPy as an int; None for a bool or anything else.

    Args:
        value: the argument.
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return int(value) if is_integer else None
