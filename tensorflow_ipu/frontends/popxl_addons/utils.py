"""Helpers: values of variables, dictionaries, times, and prints that a level switches on."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = [
    "LEVELS",
    "LEVELS_TYPE",
    "MODEL_LOG_LEVEL",
    "MODEL_LOG_LEVEL_VAL",
    "OrderedDict",
    "WeightsDict",
    "duplicate_items",
    "null_context",
    "overrides",
    "print_tensor",
    "print_text",
    "suffix_graph_name",
    "timer",
]


_logger = logging.getLogger(__name__)
LEVELS_TYPE = Literal["TRACE", "DEBUG", "INFO", "WARN"]
LEVELS: dict[str, int] = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3}
_LEVEL_VARIABLE, _DEFAULT_LEVEL = "MODEL_LOG_LEVEL", "INFO"
# The level of the environment when this is imported. Prints look at the environment each time.
MODEL_LOG_LEVEL = os.environ.get(_LEVEL_VARIABLE, _DEFAULT_LEVEL).upper()
MODEL_LOG_LEVEL_VAL = LEVELS.get(MODEL_LOG_LEVEL, LEVELS[_DEFAULT_LEVEL])


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
        title: name of the block.
        log_to_wandb: without effect: runs are not logged to Weights & Biases here.

    Yields:
        Nothing.
    """
    del log_to_wandb
    start = time.perf_counter()
    yield
    minutes = (time.perf_counter() - start) / 60
    _logger.info("%s: %.2f mins", title or "Time", minutes)


def _is_shown(level: str) -> bool:
    """Whether prints of a level are on, by the environment variable MODEL_LOG_LEVEL."""
    shown = os.environ.get(_LEVEL_VARIABLE, _DEFAULT_LEVEL).upper()
    for name, value in (("level", level), (_LEVEL_VARIABLE, shown)):
        if value not in LEVELS:
            raise ValueError(f"{name} must be one of {list(LEVELS)}. Received: {value!r}")
    return LEVELS[shown] <= LEVELS[level]


def print_tensor(
    t: popxl.Tensor, *args: Any, level: LEVELS_TYPE = "DEBUG", **kwargs: Any
) -> popxl.Tensor:
    """Prints a tensor each time that the program passes here, if prints of the level are on.

    Args:
        t: the tensor.
        *args: as for `popxl.ops.print_tensor`.
        level: "TRACE", "DEBUG", "INFO" or "WARN". MODEL_LOG_LEVEL is the lowest that is shown.
        **kwargs: as for `popxl.ops.print_tensor`.

    Returns:
        The tensor.

    Raises:
        ValueError: If a level is unknown.
    """
    return ops.print_tensor(t, *args, **kwargs) if _is_shown(level) else t


def print_text(text: str, num: float | None = None, level: LEVELS_TYPE = "DEBUG") -> None:
    """Prints a text each time that the program passes here, if prints of the level are on.

    Args:
        text: the text.
        num: a number that follows it; 0 by default.
        level: as for `print_tensor`.

    Raises:
        ValueError: If a level is unknown.
    """
    if _is_shown(level):
        ops.print_tensor(popxl.constant(float(num or 0)), title=text)
