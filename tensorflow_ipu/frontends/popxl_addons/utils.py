"""Helpers: values of variables, dictionaries, times; the module `popxl_addons.utils`."""

from __future__ import annotations

import collections
import contextlib
import logging
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

__all__ = [
    "OrderedDict",
    "WeightsDict",
    "duplicate_items",
    "null_context",
    "overrides",
    "suffix_graph_name",
    "timer",
]

_logger = logging.getLogger(__name__)


class WeightsDict(dict[Any, Any]):
    """Arrays by variable, the argument of `popxl.Session.write_variables_data`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Makes a dictionary of variables and arrays.

        Args:
            *args: as for `dict`.
            **kwargs: as for `dict`.

        Raises:
            ValueError: If shape or type of an array is not that of the variable.
        """
        super().__init__()
        self.update(dict(*args, **kwargs))

    def __setitem__(self, variable: Any, value: Any) -> None:
        array = np.asarray(value)
        expected = np.dtype(variable.dtype.as_numpy())
        if array.dtype != expected or array.shape != tuple(variable.shape_on_host):
            raise ValueError(
                f"The value for {variable!r} must have the shape {variable.shape_on_host} and the "
                f"type {expected}. Received: {array.shape}, {array.dtype}"
            )
        super().__setitem__(variable, array)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds the entries of another dictionary, checked.

        Args:
            *args: as for `dict.update`.
            **kwargs: as for `dict.update`.

        Raises:
            ValueError: If shape or type of an array is not that of the variable.
        """
        for variable, value in dict(*args, **kwargs).items():
            self[variable] = value


class OrderedDict(collections.OrderedDict[Any, Any]):
    """A dictionary whose values have numbers, too."""

    def idx(self, i: int) -> Any:
        """Returns the value at a position.

        Args:
            i: the position.

        Raises:
            IndexError: If there is none.
        """
        return list(self.values())[i]


def null_context() -> contextlib.AbstractContextManager[None]:
    """Returns a context that does nothing."""
    return contextlib.nullcontext()


def suffix_graph_name(name: str, suffix: str) -> str:
    """Returns the name of a graph with a suffix, without its number.

    Args:
        name: the name, such as `Linear_subgraph(1)`.
        suffix: the suffix, which follows an underscore.
    """
    return f"{re.sub(r'_subgraph[(][0-9]+[)]', '', name)}_{suffix}"


def overrides(cls: type, base_cls: type, method: str) -> bool:
    """Returns whether a class has its own version of a method.

    Args:
        cls: the class.
        base_cls: the class that it is derived from.
        method: name of the method.
    """
    return getattr(cls, method, None) is not getattr(base_cls, method, None)


def duplicate_items(iterable: Iterable[Any]) -> list[Any]:
    """Returns the items that are there more than once, in the order of their second time.

    Args:
        iterable: the items.
    """
    seen: list[Any] = []
    found: list[Any] = []
    for item in iterable:
        if item in seen and item not in found:
            found.append(item)
        seen.append(item)
    return found


@contextlib.contextmanager
def timer(title: str | None = None, log_to_wandb: bool = True) -> Iterator[None]:
    """Logs how many minutes a block takes.

    Args:
        title: what the block is called.
        log_to_wandb: without effect: runs are not logged to Weights & Biases here.

    Yields:
        Nothing.
    """
    del log_to_wandb
    start = time.perf_counter()
    yield
    minutes = (time.perf_counter() - start) / 60
    _logger.info("%s: %.2f mins", title or "Time", minutes)
