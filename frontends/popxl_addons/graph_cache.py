"""`GraphCache`: one graph for all calls with the same arguments; the module `graph_cache`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["GraphCache", "function", "key_of"]


class GraphCache:
    """Graphs that were made, to be used again for the same arguments."""

    def __init__(self) -> None:
        """Makes an empty cache."""
        self._graphs: dict[Any, popxl.Graph] = {}

    def __repr__(self) -> str:
        return f"GraphCache[{len(self._graphs)} graphs]"

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """Returns the graph of a function, made at the first call.

        There is one for each Ir, IPU, tile set and set of arguments: of tensors the shapes and
        types count, of others the values.

        Args:
            fn: as for `popxl.Ir.create_graph`.
            *args: its arguments.
            **kwargs: its arguments by name.

        Raises:
            TypeError: If an argument cannot be hashed.
        """
        ir = popxl.gir()
        key = key_of(fn, args, kwargs)
        if key not in self._graphs:
            self._graphs[key] = ir.create_graph(fn, *args, **kwargs)
        return self._graphs[key]


def key_of(fn: Any, args: Any, kwargs: Any) -> Any:
    """Returns what calls that can share a graph have in common.

    Args:
        fn: the function or module.
        args: its arguments.
        kwargs: its arguments by name.
    """
    build = fn.build if isinstance(fn, popxl.Module) else fn
    bound = inspect.signature(build).bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = tuple((name, _frozen(value)) for name, value in bound.arguments.items())
    place = (popxl.context.current_ipu(), popxl.context.current_tile_set())
    return (popxl.gir(), fn, place, arguments)


def _frozen(value: Any) -> Any:
    """Returns what can be compared of an argument."""
    if isinstance(value, (popxl.Tensor, popxl.TensorSpec)):
        return popxl.TensorSpec(value.shape, value.dtype, value.meta_shape)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    hash(value)
    return value


def function(fn: Callable[..., Any]) -> Callable[..., tuple[popxl.Tensor, ...]]:
    """Makes a function one whose calls are calls of a graph, which is made once.

    Args:
        fn: takes tensors and other values, and returns tensors.
    """
    cache = GraphCache()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> tuple[popxl.Tensor, ...]:
        graph = cache.create_graph(fn, *args, **kwargs)
        bound = inspect.signature(fn).bind(*args, **kwargs)
        return ops.call(graph, *_tensors(bound.arguments.values()))

    return call


def _tensors(values: Any) -> list[popxl.Tensor]:
    """Returns the tensors among arguments, in the order of the inputs of the graph."""
    found: list[popxl.Tensor] = []
    for value in values:
        if isinstance(value, popxl.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(_tensors(value))
        elif isinstance(value, dict):  # of `**kwargs`
            found.extend(_tensors(value.values()))
    return found
