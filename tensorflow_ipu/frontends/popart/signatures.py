"""Signatures of methods: calls that do not fit are refused in the words of a C++ binding."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from tensorflow_ipu.frontends.common import enums

_Class = TypeVar("_Class", bound=type)
# Attribute of functions that check their arguments themselves.
_CHECKS = "checks_arguments"


def refused(method: str, signature: inspect.Signature, reason: str) -> TypeError:
    """Returns the error of a method that is called with other arguments than it takes.

    Args:
        method: its name.
        signature: its signature.
        reason: the fault.
    """
    parameters = [p for name, p in signature.parameters.items() if name != "self"]
    shown = ", ".join(str(p).replace("'", "") for p in parameters)
    return TypeError(
        f"{method}(): incompatible function arguments. The following argument types are supported:"
        f"\n    1. ({shown})\n\n{reason}"
    )


def integer(value: Any) -> int:
    """Returns an integer; floats are no integers.

    Args:
        value: a number, or an array with one.

    Raises:
        TypeError: If it is anything else.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return int(value) if isinstance(value, np.bool_) else operator.index(value)


def floating(value: Any) -> float:
    """Returns a number.

    Args:
        value: a number, or an array with one.

    Raises:
        TypeError: If it is anything else.
    """
    if isinstance(value, (str, bytes)):
        raise TypeError("expected a number")
    return float(value)


def text(value: Any) -> Any:
    """Returns a text, or bytes.

    Args:
        value: the text.

    Raises:
        TypeError: If it is anything else.
    """
    if not isinstance(value, (str, bytes)):
        raise TypeError("expected text")
    return value


def member(kind: type[enums.Enumeration]) -> Callable[[Any], Any]:
    """Returns a function that raises for values outside an enumeration.

    Args:
        kind: the enumeration.
    """

    def checked_member(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"expected a {kind.__name__}")
        return value

    return checked_member


# Annotation of a parameter -> the check of its arguments. Others are not checked.
_CHECKED: Mapping[str, Callable[[Any], Any]] = {
    "int": integer,
    "float": floating,
    "str": text,
    **{
        name: member(kind)
        for name, kind in vars(enums).items()
        if isinstance(kind, type) and issubclass(kind, enums.Enumeration)
    },
}


def checks_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that checks its arguments, which `checked` leaves alone.

    Args:
        function: the function.
    """
    setattr(function, _CHECKS, True)
    return function


def checked(kind: _Class) -> _Class:
    """Makes the public methods of a class refuse other arguments in the words of the original.

    Args:
        kind: the class.
    """
    for name, function in list(vars(kind).items()):
        is_method = inspect.isfunction(function) and name[0] != "_"
        if is_method and not hasattr(function, _CHECKS):
            setattr(kind, name, _checked(function))
    return kind


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    checks = {
        name: (_CHECKED[annotation], parameter.default)
        for name, parameter in signature.parameters.items()
        if (annotation := str(parameter.annotation).removesuffix(" | None")) in _CHECKED
    }

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
            for name, (check, default) in checks.items():
                if name in given and given[name] is not default:
                    check(given[name])
        except TypeError as error:
            raise refused(function.__name__, signature, str(error)) from error
        return function(*args, **kwargs)

    return checks_itself(call)
