"""Short one-line reprs for public objects: `IPUConfig(auto_select_ipus=2)`."""

from __future__ import annotations

import enum
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

#: Characters that a value, and a whole object, are shown with at most.
VALUE_LENGTH = 80
LENGTH = 240


class _Shortener(reprlib.Repr):
    """Shortener of long texts, containers and arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = VALUE_LENGTH
        self.maxlevel = 3

    def repr_instance(self, x: Any, level: int) -> str:
        """Shows functions and classes by name: their addresses say nothing."""
        if isinstance(x, enum.Enum):
            return str(x)
        if isinstance(x, type) or (callable(x) and hasattr(x, "__qualname__")):
            return str(x.__qualname__)
        return super().repr_instance(x, level)

    # `Repr` chooses the method by the name of the class.
    repr_function = repr_type = repr_method = repr_builtin_function_or_method = repr_instance


_shorten = _Shortener().repr


class Shown(str):
    """A text that stands for itself, without quotes: `float32[8, 4]`."""

    def __repr__(self) -> str:
        return str(self)


def short_repr(name: str, attributes: Mapping[str, Any]) -> str:
    """Returns the line that shows an object.

    Args:
        name: name of its class.
        attributes: what there is to say, the most important first. The value of a key "" stands
            alone, and what is None is left out.

    Returns:
        `Name(value, attribute=value, ...)`, at most `LENGTH` characters long. What does not fit is
        counted.
    """
    shown = [
        f"{key}={_shortened(value)}" if key else _shortened(value)
        for key, value in attributes.items()
        if value is not None
    ]
    used, count = len(name) + len("(, ... 00 more)"), 0
    for part in shown:
        used += len(part) + len(", ")
        if used > LENGTH:
            break
        count += 1
    left = len(shown) - count
    return f"{name}({', '.join([*shown[:count], *([f'... {left} more'] if left else [])])})"


def shows(attributes: Callable[[Any], Mapping[str, Any]]) -> Callable[[Any], str]:
    """Makes the method `__repr__` of a class from the facts of its objects.

    For example `__repr__ = shows(lambda self: {"name": self.name})` in the class.

    Args:
        attributes: takes the object, returns the attributes as `short_repr` takes them.

    Returns:
        The method. An object that is not wholly made yet shows its class only.
    """

    def __repr__(self: Any) -> str:  # noqa: N807
        try:
            found = attributes(self)
        except AttributeError:
            found = {}
        return short_repr(type(self).__name__, found)

    return __repr__


def _shortened(value: Any) -> str:
    """Returns one value on one line."""
    text = repr(value) if isinstance(value, Shown) else _shorten(value)
    text = " ".join(text.split())
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 3]}..."
