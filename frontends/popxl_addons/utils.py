"""Helpers: values of variables, dictionaries, times; the module `popxl_addons.utils`."""

from __future__ import annotations

import collections
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends import popxl

__all__ = [
    "OrderedDict",
    "WeightsDict",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
    "timer",
]

# Attributes of ops: of products, and of convolutions in their three passes.
_PROPORTIONS = ("memory_proportion", "memory_proportions")
_logger = logging.getLogger(__name__)


class WeightsDict(dict[Any, Any]):
    """Arrays by variable: what `popxl.Session.write_variables_data` takes."""

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


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: Sequence[float]) -> None:
    """Says which part of a tile's memory products may use; values do not depend on it.

    Args:
        ir: the program.
        proportions: the part for each IPU of a replica.

    Raises:
        ValueError: If there are fewer of them than IPUs, or one is not in (0, 1].
    """
    set_graph_available_memory_proportion_by_ipu(ir.main_graph, proportions)


def set_graph_available_memory_proportion_by_ipu(
    graph: popxl.Graph, proportions: Sequence[float]
) -> None:
    """Says which part of a tile's memory the products of a graph, and of those it calls, may use.

    Args:
        graph: the graph.
        proportions: the part for each IPU of a replica.

    Raises:
        ValueError: If there are fewer of them than IPUs, or one is not in (0, 1].
    """
    if not all(0 < proportion <= 1 for proportion in proportions):
        raise ValueError(f"Proportions must be in (0, 1]. Received: {list(proportions)}")
    graphs = [graph]
    for caller in graphs:  # grows meanwhile
        graphs.extend(called for called in caller.called_graphs if called not in graphs)
        for op in caller.ops:
            names = [name for name in _PROPORTIONS if name in op.attributes]
            if names and op.ipu >= len(proportions):
                raise ValueError(f"{op!r} is on IPU {op.ipu}. Proportions: {list(proportions)}")
            for name in names:
                value = proportions[op.ipu]
                op.attributes[name] = [value] * 3 if name.endswith("s") else value
