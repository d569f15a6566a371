"""`GraphCache`: one graph for all calls with the same arguments; the module `graph_cache`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.core import scopes

__all__ = [
    "GraphCache",
    "argument_hash",
    "bound_arguments",
    "function",
    "get_function_hash",
    "key_of",
    "tensor_hash",
    "tensors_of",
]


class GraphCache:
    """Graphs that were made, to be used again for the same arguments."""

    def __init__(self) -> None:
        """Makes an empty cache."""
        self._graphs: dict[Any, tuple[popxl.Graph, Any]] = {}

    def __repr__(self) -> str:
        return f"GraphCache[{len(self._graphs)} graphs]"

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """Returns the graph of a function, made at the first call.

        There is one for each Ir, IPU, tile set and set of arguments: of tensors the shapes and
        types count, of others the values. Functions are the same if their hashes are: objects of
        a class with `__hash__` share a graph.

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
            # The function is kept, so no other one has its hash.
            self._graphs[key] = ir.create_graph(fn, *args, **kwargs), fn
        return self._graphs[key][0]


def key_of(fn: Any, args: Any, kwargs: Any) -> Any:
    """Returns the cache key of a call. Calls with equal keys can share a graph.

    Args:
        fn: the function or module.
        args: its arguments.
        kwargs: its arguments by name.
    """
    build = fn.build if isinstance(fn, popxl.Module) else fn
    arguments = tuple((p.name, _frozen(value, p)) for p, value in _arguments(build, args, kwargs))
    place = (scopes.current_ipu(), scopes.current_tile_set())
    return (popxl.gir(), hash(fn), place, arguments)


def get_function_hash(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Returns the hash of a call of a function in the current graph.

    Args:
        fn: the function or module.
        *args: its arguments.
        **kwargs: its arguments by name.

    Raises:
        TypeError: If an argument cannot be hashed.
    """
    return hash(key_of(fn, args, kwargs))


def bound_arguments(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> inspect.BoundArguments:
    """Returns the arguments of a function by parameter, with those that have defaults.

    Args:
        fn: the function or module.
        *args: its arguments.
        **kwargs: its arguments by name.
    """
    build = fn.build if isinstance(fn, popxl.Module) else fn
    bound = inspect.signature(build).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


def tensor_hash(t: popxl.Tensor | popxl.TensorSpec) -> int:
    """Returns the hash of the shape, type and meta shape of a tensor.

    Args:
        t: the tensor.
    """
    return hash(popxl.TensorSpec(t.shape, t.dtype, t.meta_shape))


def argument_hash(arg: Any) -> int:
    """Returns the hash of an argument; tensors in it count with their shapes and types.

    Args:
        arg: the argument, also a list, a tuple or a dictionary of arguments.

    Raises:
        TypeError: If it cannot be hashed.
    """
    if isinstance(arg, (popxl.Tensor, popxl.TensorSpec)):
        return tensor_hash(arg)
    if isinstance(arg, (list, tuple)):
        return hash(tuple(argument_hash(item) for item in arg))
    if isinstance(arg, dict):
        return hash(tuple((key, argument_hash(value)) for key, value in arg.items()))
    return hash((type(arg), arg))


def tensors_of(fn: Callable[..., Any], args: Any, kwargs: Any) -> list[popxl.Tensor]:
    """Returns the tensors that are passed to the graph of a function, in the order of its inputs.

    Args:
        fn: the function.
        args: its arguments.
        kwargs: its arguments by name.
    """
    found: list[popxl.Tensor] = []
    for parameter, value in _arguments(fn, args, kwargs):
        is_named = parameter.kind is parameter.VAR_KEYWORD
        values = value.values() if is_named else value
        several = is_named or isinstance(value, (list, tuple))
        found += [t for t in (values if several else [value]) if isinstance(t, popxl.Tensor)]
    return found


def _arguments(
    fn: Callable[..., Any], args: Any, kwargs: Any
) -> list[tuple[inspect.Parameter, Any]]:
    """Returns the parameters of a function, each with its argument."""
    bound = bound_arguments(fn, *args, **kwargs)
    return [(bound.signature.parameters[name], value) for name, value in bound.arguments.items()]


def _frozen(value: Any, parameter: inspect.Parameter) -> Any:
    """Reduces an argument to a hashable key: a tensor that becomes an input to its spec."""
    if isinstance(value, (popxl.Tensor, popxl.TensorSpec)):
        return popxl.TensorSpec(value.shape, value.dtype, value.meta_shape)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item, parameter) for item in value)
    if isinstance(value, dict):
        # Tensors in a dictionary are no inputs, unless they are arguments by name.
        is_named = parameter.kind is parameter.VAR_KEYWORD
        return tuple((k, _frozen(v, parameter) if is_named else v) for k, v in value.items())
    hash(value)
    return type(value), value  # 1 and 1.0 are equal, but not as exponents


def function(fn: Callable[..., Any]) -> Callable[..., tuple[popxl.Tensor, ...]]:
    """Makes a function one whose calls are calls of a graph, which is made once.

    Args:
        fn: takes tensors and other values, and returns tensors.
    """
    cache = GraphCache()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> tuple[popxl.Tensor, ...]:
        graph = cache.create_graph(fn, *args, **kwargs)
        return ops.call(graph, *tensors_of(fn, args, kwargs))

    return call
