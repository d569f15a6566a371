"""Trees of typed attributes: their declarations as data, and objects with their values."""

from __future__ import annotations

import copy
import difflib
import enum
import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorflow_ipu.configs.enums import Effect
from tensorflow_ipu.configs.ranges import Folder, Range, shown
from tensorflow_ipu.util.notices import warn_once
from tensorflow_ipu.util.short_repr import Shown, short_repr, shows

# --- Declarations ---


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


# --- Objects ---


class UnknownAttributeError(ValueError, AttributeError):
    """Raised when an attribute is read or written that the configuration does not have.

    A `ValueError` for users; also an `AttributeError`, so that `hasattr` and `copy` work as usual.
    """


class AttributeMetadata:
    """Name, type, default and description (`__doc__`) of one attribute of a configuration."""

    def __init__(self, name: str, node: Option | Group):
        """Describes an option or a category.

        Args:
            name: its dotted name from the root of the configuration.
            node: its declaration.
        """
        self._name = name
        self._node = node
        self.__doc__ = node.doc

    __repr__ = shows(
        lambda self: {
            "": self.name,
            "type": self.type and Shown(self.type),
            "default": self.default,
        }
    )

    @property
    def name(self) -> str:
        """The dotted name from the root of the configuration."""
        return self._name

    @property
    def type(self) -> str | None:
        """The type as text; None for a category."""
        return type_text(self._node.type) if isinstance(self._node, Option) else None

    @property
    def default(self) -> Any:
        """A copy of the default value; None for a category."""
        return copy.deepcopy(self._node.default) if isinstance(self._node, Option) else None

    @property
    def effect(self) -> Effect | None:
        """The option's effect in this simulator; None for a category."""
        return self._node.effect if isinstance(self._node, Option) else None

    @property
    def deprecated(self) -> bool:
        """Whether the attribute should no longer be used."""
        return self._node.deprecated_msg is not None

    @property
    def deprecated_msg(self) -> str | None:
        """The reason of a deprecation and the replacement; None if it is not deprecated."""
        return self._node.deprecated_msg

    @property
    def allowed(self) -> str | None:
        """The allowed values, as text; None for all of its type, and for a category."""
        allowed = self._node.allowed if isinstance(self._node, Option) else None
        return None if allowed is None else str(allowed)

    def check(self, value: Any) -> None:
        """Checks that `value` may be assigned to this attribute: its type, and its range.

        Args:
            value: any object.

        Raises:
            TypeError: the value is not exactly of the attribute's type.
            ValueError: it is outside the range.
        """
        self.check_type(value)
        if isinstance(self._node, Option):
            self._node.check(self._name, value)

    def check_type(self, value: Any) -> bool:
        """Checks that `value` is of the type of this attribute.

        Args:
            value: any object.

        Returns:
            True.

        Raises:
            TypeError: the value is not exactly of the attribute's type.
        """
        if isinstance(self._node, Group):
            raise TypeError(f"'{self._name}' is a category, so no value has its type.")
        if has_type(value, self._node.type):
            return True
        hint = ""
        if isinstance(self._node.type, enum.EnumMeta):
            members = ", ".join(map(str, self._node.type.__members__.values()))
            hint = f" Choose one of {members}."
        wanted = plain_type_text(self._node.type)
        raise TypeError(
            f"Trying to set {self._name} to {shown(value)}, but it must be of type {wanted}. "
            f"Received: {type(value).__name__}.{hint}"
        )

    def warn_if_deprecated(self) -> None:
        """Logs a warning if the attribute is deprecated."""
        if self.deprecated:
            warn_once("%s has been deprecated: %s", self._name, self.deprecated_msg)


class Category:
    """One node of a configuration: attributes by name, assignment checked against the tree."""

    # Class-level annotations only; the values are stored past our own __setattr__.
    _tree: Group
    _group: Group
    _prefix: str
    _values: dict[str, Any]
    _categories: dict[str, Category]

    def __init__(self, tree: Group, group: Group, prefix: str = ""):
        """Makes the node for `group` (dotted name `prefix`, ending in a dot) of `tree`."""
        values: dict[str, Any] = {}
        categories: dict[str, Category] = {}
        for node in group.members:
            if isinstance(node, Group):
                categories[node.name] = Category(tree, node, f"{prefix}{node.name}.")
            else:
                values[node.name] = copy.deepcopy(node.default)
        vars(self).update(
            _tree=tree, _group=group, _prefix=prefix, _values=values, _categories=categories
        )

    def __getattr__(self, name: str) -> Any:
        """Returns the value of an option, or a category; called for names that are not methods."""
        if name.startswith("__") or "_values" not in vars(self):
            raise AttributeError(name)  # protocol look-ups of copy, pickle, numpy, ...
        if name in self._values:
            return self._values[name]
        if name in self._categories:
            return self._categories[name]
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an option, after checking its value."""
        if name in self._categories:
            raise Exception(
                f"'{self._prefix}{name}' is a category and cannot be assigned to. Set its "
                f"attributes: {', '.join(dir(self._categories[name]))}."
            )
        if name not in self._values:
            raise self._unknown(name)
        self._store(name, value)
        self.get_attribute_metadata(name).warn_if_deprecated()

    def __dir__(self) -> list[str]:
        """Returns the names of the attributes and categories in this node."""
        return [node.name for node in self._group.members]

    def __deepcopy__(self, memo: dict[int, Any]) -> Category:
        """Returns an independent copy; the declaration tree is shared."""
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        vars(result).update(
            vars(self),
            _values=copy.deepcopy(self._values, memo),
            _categories=copy.deepcopy(self._categories, memo),
        )
        return result

    def __copy__(self) -> Category:
        """Returns a deep copy: two configurations never share state."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        """Returns the options that differ from the defaults: `IPUConfig(auto_select_ipus=2)`."""
        start = len(self._prefix)
        changed = {
            (prefix + node.name)[start:]: value
            for prefix, node, value in self._nodes()
            if value != node.default or type(value) is not type(node.default)
        }
        return short_repr(self._prefix.rstrip(".") or type(self).__name__, changed)

    def __str__(self) -> str:
        """Returns one line `full.name = value` per attribute."""
        return "\n".join(f"{name} = {value}" for name, value in self.items())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields all options below this node as (name from the root, value), in order."""
        for prefix, node, value in self._nodes():
            yield prefix + node.name, value

    def _nodes(self) -> Iterator[tuple[str, Option, Any]]:
        """Yields the options below this node: prefix of the name, declaration, value."""
        for node in self._group.members:
            if isinstance(node, Group):
                yield from self._categories[node.name]._nodes()
            else:
                yield self._prefix, node, self._values[node.name]

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """Describes an attribute or category.

        Args:
            attr: dotted name relative to this node.

        Returns:
            Its `AttributeMetadata`.

        Raises:
            ValueError: there is no such attribute.
        """
        for name, node in walk(self._group):
            if name == attr:
                return AttributeMetadata(self._prefix + name, node)
        raise ValueError(
            f"Could not get attribute metadata for '{self._prefix}{attr}': it "
            f"is not a valid attribute of this config.{suggestion(self._tree, str(attr))}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the values as nested dictionaries, enumeration members as their numbers."""
        result: dict[str, Any] = {}
        for node in self._group.members:
            if isinstance(node, Group):
                result[node.name] = self._categories[node.name].to_dict()
            else:
                value = self._values[node.name]
                result[node.name] = (
                    value.value if isinstance(value, enum.Enum) else copy.deepcopy(value)
                )
        return result

    def from_dict(self, dct: Mapping[str, Any]) -> None:
        """Sets the values found in nested dictionaries such as `to_dict` returns.

        Attributes missing from `dct` keep their value, with a warning. On an error nothing changes.

        Args:
            dct: values by name; enumeration members as members or numbers.

        Raises:
            TypeError: a value is of the wrong type.
            ValueError: a name is not an attribute, a value outside its range, or a number not a
                member of the enumeration.
        """
        updated = copy.deepcopy(self)
        missing = updated._load(dct)
        vars(self).update(vars(updated))
        if missing:
            warn_once(
                "Missing from the given configuration, so these keep their values: %s.",
                ", ".join(missing),
            )

    def to_json(self) -> str:
        """Returns the values as a JSON object; see `to_dict`."""
        return json.dumps(self.to_dict())

    def from_json(self, json_cfg: str) -> None:
        """Sets the values found in a JSON object; see `from_dict`.

        Args:
            json_cfg: text such as `to_json` returns.

        Raises:
            ValueError: the text is not JSON, or as for `from_dict`.
            TypeError: as for `from_dict`.
        """
        self.from_dict(json.loads(json_cfg))

    def _store(self, name: str, value: Any) -> None:
        """Sets an option of this node after checking its value, without other warnings."""
        self.get_attribute_metadata(name).check(value)
        self._values[name] = value

    def _load(self, values: Mapping[str, Any]) -> list[str]:
        """Sets values as `from_dict` does; returns the names that are missing."""
        if not isinstance(values, Mapping):
            where = self._prefix.rstrip(".") or "the configuration"
            raise TypeError(f"Expected a dictionary for {where}, received {values!r}.")
        for name in values:
            if name not in self._values and name not in self._categories:
                raise self._unknown(name)
        missing = []
        for node in self._group.members:
            if node.name not in values:
                if not node.name.startswith("_"):  # private: absent from other versions' files
                    missing.append(self._prefix + node.name)
            elif isinstance(node, Group):
                missing += self._categories[node.name]._load(values[node.name])
            else:
                self._load_option(node, values[node.name])
        return missing

    def _load_option(self, node: Option, value: Any) -> None:
        """Sets one option, making enumeration members from numbers."""
        hints = (node.type, *typing.get_args(node.type))
        enums = [hint for hint in hints if isinstance(hint, enum.EnumMeta)]
        if enums and type(value) is int:
            value = enums[0](value)
        if value != self._values[node.name] or type(value) is not type(self._values[node.name]):
            setattr(self, node.name, copy.deepcopy(value))

    def _unknown(self, name: str) -> UnknownAttributeError:
        """Returns the error for a name that is not in this node."""
        return UnknownAttributeError(
            f"'{self._prefix}{name}' is not a valid attribute of this config."
            f"{suggestion(self._tree, self._prefix + name)}"
        )


def store(node: Category, name: str, value: Any) -> None:
    """Sets an option without warning; the caller has warned already.

    Args:
        node: the category, or the configuration itself.
        name: the option, in that category.
        value: its value, which is checked.
    """
    node._store(name, value)
