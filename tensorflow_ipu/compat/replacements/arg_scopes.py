"""`arg_scope` of `tensorflow.contrib.framework`: default arguments in a scope."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Scope = dict[str, dict[str, Any]]

_scopes: list[Scope] = [{}]
#: The functions that take arguments from scopes: key -> names of their arguments with a default.
_functions: dict[str, tuple[str, ...]] = {}


def _key(function: Any) -> str:
    return getattr(function, "_key_op", str(function))


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function, so that `arg_scope` can set defaults of its arguments.

    Args:
        func: the function.
    """
    key = f"{func.__module__}.{func.__qualname__}"

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **{**_scopes[-1].get(key, {}), **kwargs})

    call._key_op = key  # type: ignore[attr-defined]
    code = func.__code__
    _functions[key] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return call


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Sets arguments of functions within a `with` block.

    Args:
        list_ops_or_scope: list of functions decorated with `add_arg_scope`, or the value of another
            `arg_scope`, which is then set again as a whole.
        **kwargs: the arguments, for a list of functions.

    Yields:
        The arguments in force, by function.

    Raises:
        TypeError: it is neither a list nor a scope.
        ValueError: arguments were given with a scope, or a function is not decorated.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty. "
                f"Received: {', '.join(kwargs)}."
            )
        scope = {key: dict(values) for key, values in list_ops_or_scope.items()}
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = {key: dict(values) for key, values in _scopes[-1].items()}
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise ValueError(
                    f"{_key(function)} is not decorated with @add_arg_scope: put the decorator "
                    "before its definition, or leave it out of the list."
                )
            scope.setdefault(_key(function), {}).update(kwargs)
    else:
        raise TypeError(
            "list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict). Received: "
            f"{list_ops_or_scope!r}."
        )
    _scopes.append(scope)
    try:
        yield scope
    finally:
        _scopes.pop()


def current_arg_scope() -> Scope:
    """Returns the arguments in force, by function."""
    return _scopes[-1]


def has_arg_scope(func: Callable[..., Any]) -> bool:
    """Returns whether a function is decorated with `add_arg_scope`."""
    return _key(func) in _functions


def arg_scoped_arguments(func: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of the arguments that can be set for a function.

    Args:
        func: a function decorated with `add_arg_scope`.

    Raises:
        ValueError: it is not decorated.
    """
    if not has_arg_scope(func):
        raise ValueError(f"{_key(func)} is not decorated with @add_arg_scope.")
    return _functions[_key(func)]
