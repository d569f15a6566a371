"""Where values of variables come from: functions, or iterables of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union

import numpy as np

# What a value of a variable may be, besides a tensor of PyTorch.
host_scalar_tensor_types = (np.ndarray, np.generic, int, float)

Data = Union[Callable[[], Any], Iterable[Any]]


def iterator(data_iter: Any) -> Iterator[Any]:
    """Returns an iterator over values; a function is tried once.

    Args:
        data_iter: a function without arguments that returns a value, or an iterable of values.

    Raises:
        ValueError: If it is neither, or the function fails.
    """
    if callable(data_iter):
        try:
            data_iter()
        except Exception as error:
            raise ValueError(f"`data_iter` throws error when it is called: {error}") from error
        return (data_iter() for _ in itertools.count())
    if isinstance(data_iter, Iterable):
        return iter(data_iter)
    raise ValueError(
        f"`data_iter` must be an iterable or callable. Received: {type(data_iter).__name__}"
    )


def as_array(value: Any) -> np.ndarray:
    """Returns a value of a variable as an array.

    Args:
        value: an array, a tensor of PyTorch or a number.

    Raises:
        ValueError: If it is something else.
    """
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    if not isinstance(value, host_scalar_tensor_types):
        raise ValueError(
            f"`data_iter` must return arrays or numbers. Received: {type(value).__name__}"
        )
    return value if isinstance(value, np.memmap) else np.asarray(value)
