"""Finds docstrings of public names that lack a first line or their arguments."""

from __future__ import annotations

import enum
import functools
import inspect
import re
from collections.abc import Collection, Iterator
from typing import Any

from sphinx_ext import name_index, public_names
from tensorflow_ipu.import_hook import tables

_ARGUMENTS = re.compile(r"^ *(Args|Attributes):$", re.MULTILINE)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def lacking() -> Iterator[tuple[str, str]]:
    """Yields each public name with an incomplete docstring, and the missing part."""
    found = list(descriptions())
    described = {name for name, text, _ in found if _ARGUMENTS.search(text)}
    for name, text, arguments in found:
        if not text:
            yield name, "a docstring"
        elif not re.match(r"\S.*[.:!)`]$", text.split("\n\n")[0].split("\n")[-1]):
            yield name, "a first sentence"
        elif arguments and not _ARGUMENTS.search(text) and not _leads_on(name, text, described):
            yield name, f"Args: {', '.join(arguments)}"


def _leads_on(name: str, text: str, described: Collection[str]) -> bool:
    """Whether a docstring names another public thing, whose docstring has the arguments."""
    outer = name.rpartition(".")[0]
    for other in re.findall(r"`([\w.]+)`", text):
        around = (f"{outer}.{other}", f"{outer.rpartition('.')[0]}.{other}")
        if {name_index.find(other), *around} & set(described):
            return True
    return False


def descriptions() -> Iterator[tuple[str, str, list[str]]]:
    """Yields full name, docstring and arguments of each described object of the reference.

    Messages of protobuf are left out: they are made from their files.
    """
    for module in public_names.modules().values():
        if module.name.endswith("_pb2"):
            continue
        for name in module.names:
            value, full = module[name], f"{module.name}.{name}"
            if isinstance(value, type):
                yield from _class(value, full)
            elif inspect.isroutine(value):
                yield full, inspect.getdoc(value) or "", _arguments(value)


def _class(value: type, full: str) -> Iterator[tuple[str, str, list[str]]]:
    makes = value.__init__  # type: ignore[misc]
    own = makes.__doc__ if inspect.isfunction(makes) else None
    is_called = not issubclass(value, (enum.Enum, BaseException)) and _is_ours(makes)
    is_called = is_called and not any(makes is base.__init__ for base in _public_bases(value))
    text = f"{inspect.getdoc(value) or ''}\n\n{inspect.cleandoc(own or '')}".strip()
    yield full, text, _arguments(value) if is_called else []
    for name in public_names.members(value):
        attribute = inspect.getattr_static(value, name)
        if isinstance(attribute, (property, functools.cached_property)):
            yield f"{full}.{name}", inspect.getdoc(attribute) or "", []
        else:
            arguments = [] if _is_foreign(value, name) else _arguments(attribute)
            yield f"{full}.{name}", inspect.getdoc(getattr(value, name)) or "", arguments


def _public_bases(value: type) -> list[Any]:
    return [base for base in value.__mro__[1:] if base in public_names.public_classes()]


def _is_ours(function: Any) -> bool:
    return getattr(function, "__module__", "").startswith(f"{tables.PACKAGE}.")


def _is_foreign(value: type, name: str) -> bool:
    """Whether a method is one of a class of TensorFlow or Keras, whose reference describes it."""
    bases = (base for base in value.__mro__ if not base.__module__.startswith(tables.PACKAGE))
    return any(name in vars(base) for base in bases if base is not object)


def _arguments(value: Any) -> list[str]:
    """Returns the arguments that a caller names or counts, without `self`."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return []
    function = getattr(value, "__func__", value)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    names = [p.name for p in parameters if p.kind not in _VARIADIC]
    return [name for name in names if name not in ("self", "cls") and name[0] != "_"]
