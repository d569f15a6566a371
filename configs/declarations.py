"""Declares trees of typed attributes as data: names, types, defaults and documentation."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensorflow_ipu.configs.enums import Effect
from tensorflow_ipu.configs.ranges import Folder, Range


@dataclass(frozen=True)
class Option:
    """Declares one settable attribute.

    Args:
        name: attribute name, without the names of its categories.
        type: a class, or `Union`, `List[T]`, `Tuple[T, ...]` of classes. Checked exactly.
        default: initial value; every configuration gets its own copy.
        effect: what the option does in this simulator.
        doc: description for users.
        deprecated_msg: why the option should no longer be set, or None.
        allowed: which values it may have, checked when it is set. Each option that is a number or
            a folder has to say it.
        checked_later: whether a value outside `allowed` is an error only when the system is
            configured, as in the reference; `validation` has these checks.
    """

    name: str
    type: Any
    default: Any
    effect: Effect
    doc: str
    deprecated_msg: str | None = None
    allowed: Range | Folder | None = None
    checked_later: bool = False

    def check(self, name: str, value: Any) -> None:
        """Checks a value of the right type where it is set.

        Args:
            name: dotted name of the option.
            value: the value.

        Raises:
            ValueError: the option does not take it.
        """
        if self.allowed is not None and not self.checked_later:
            self.allowed.check(f"'{name}'", value)


@dataclass(frozen=True)
class Group:
    """Declares a category: a named node that holds options and further categories."""

    name: str
    doc: str
    members: tuple[Option | Group, ...]
    deprecated_msg: str | None = None


def type_text(hint: Any) -> str:
    """Returns a type as users write it, such as `bool` or `typing.Union[int, typing.List[int]]`."""
    if hint is Ellipsis:
        return "..."
    origin = typing.get_origin(hint)
    if origin is None:
        return str(hint.__name__)
    name = "Union" if origin is typing.Union else origin.__name__.capitalize()
    return f"typing.{name}[{', '.join(type_text(arg) for arg in typing.get_args(hint))}]"


def plain_type_text(hint: Any) -> str:
    """Returns a type in words, such as `int, list of int or tuple of int`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return str(hint.__name__)
    if origin is not typing.Union:
        return f"{origin.__name__} of {plain_type_text(arguments[0])}"
    *others, last = map(plain_type_text, arguments)
    return f"{', '.join(others)} or {last}"


def has_type(value: Any, hint: Any) -> bool:
    """Returns whether `value` is exactly of type `hint`: no subclasses, so True is not an int."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return any(has_type(value, argument) for argument in arguments)
    if origin in (list, tuple):
        return type(value) is origin and all(has_type(item, arguments[0]) for item in value)
    return type(value) is hint


def walk(group: Group, prefix: str = "") -> Iterator[tuple[str, Option | Group]]:
    """Yields every node below `group` with its dotted name, in declaration order, parents first."""
    for node in group.members:
        name = prefix + node.name
        yield name, node
        if isinstance(node, Group):
            yield from walk(node, name + ".")


def options(group: Group) -> dict[str, Option]:
    """Returns the options below `group` by dotted name."""
    return {name: node for name, node in walk(group) if isinstance(node, Option)}


def suggestion(tree: Group, wanted: str) -> str:
    """Returns a sentence with the attribute of `tree` most like the dotted name `wanted`, or ''."""
    names = [name for name, _ in walk(tree) if name != wanted]
    leaf = wanted.rsplit(".", 1)[-1]
    by_leaf: dict[str, str] = {}
    for name in names:
        by_leaf.setdefault(name.rsplit(".", 1)[-1], name)
    if leaf in by_leaf:
        return f" Did you mean '{by_leaf[leaf]}'?"
    close = difflib.get_close_matches(leaf, by_leaf, n=1)
    if close:
        return f" Did you mean '{by_leaf[close[0]]}'?"
    close = difflib.get_close_matches(wanted, names, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
