"""Functions that Python and NumPy dropped without an equivalent."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple


class ArgSpec(NamedTuple):
    """The arguments of a function, as `inspect.getargspec` returned them.

    Args:
        args: names of the positional arguments.
        varargs: name of the `*` argument, or None.
        keywords: name of the `**` argument, or None.
        defaults: defaults of the last arguments, or None.
    """

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(func: Callable[..., Any]) -> ArgSpec:
    """Returns the arguments of a function.

    Args:
        func: the function.

    Raises:
        ValueError: it has keyword-only arguments or annotations, which the result cannot say.
    """
    full = inspect.getfullargspec(func)
    if full.kwonlyargs or full.annotations:
        raise ValueError(
            "Function has keyword-only parameters or annotations, use inspect.signature() API "
            "which can support them"
        )
    return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)


def coroutine(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a coroutine function of a generator function, as `asyncio.coroutine` did.

    Args:
        func: a generator function, or a function that returns a result or an awaitable.
    """
    if inspect.iscoroutinefunction(func):
        return func
    if inspect.isgeneratorfunction(func):
        func = types.coroutine(func)
        if sys.version_info < (3, 12):  # from then on, asyncio takes no generators
            return func

    @functools.wraps(func)
    async def call(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return call


def asscalar(a: Any) -> Any:
    """Returns the only element of an array as a Python number, as `np.asscalar` did.

    Args:
        a: array with one element.
    """
    return a.item()
