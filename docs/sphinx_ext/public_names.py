"""Every public name: modules of `import_hook/tables.py`, their contents, members of classes."""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorflow_ipu.import_hook import tables

# Root of public names -> table of its modules, in the order of the reference. A thing with several
# public names is described under the first.
TABLES: Mapping[str, Mapping[str, str]] = {
    tables.PUBLIC: {"": "", **tables.MODULES},
    tables.POPXL: tables.POPXL_MODULES,
    tables.POPXL_ADDONS: tables.POPXL_ADDONS_MODULES,
    tables.POPART: tables.POPART_MODULES,
    tables.POPART_CORE: tables.POPART_CORE_MODULES,
    tables.PVA: tables.PVA_MODULES,
    tables.POPDIST: tables.POPDIST_MODULES,
    tables.ADDONS: tables.ADDONS_MODULES,
    tables.POPLAR: tables.POPLAR_MODULES,
}

_OURS = f"{tables.PACKAGE}."

# Shelves of the packages that the original has, too: their modules have one more name there.
_SHELVES = ("ops.", "optimizers.", "horovod.")


@dataclass(frozen=True)
class Module:
    """A public module.

    Args:
        name: its full name, as programs write it.
        code: the module of `tensorflow_ipu` that it is.
        others: further public names of the same module.
        names: what is in it that has a description here.
        elsewhere: name -> full public name of what is described in another module, or here under
            another name.
    """

    name: str
    code: types.ModuleType
    others: tuple[str, ...]
    names: list[str] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The name of the table that the module is in."""
        return max((root for root in TABLES if f"{self.name}.".startswith(f"{root}.")), key=len)

    def __getitem__(self, name: str) -> Any:
        """Returns the object with a name."""
        return getattr(self.code, name)


@functools.lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    """Returns all public modules by their names, each once.

    A thing that several modules have is described in the one with the shortest name.
    """
    found = {module.name: module for module in _each_module()}
    homes: dict[int, tuple[Module, str]] = {}
    for module in sorted(found.values(), key=_rank):
        for name in sorted(_names(module.code), key=lambda name: _is_alias(module, name)):
            value = module[name]
            home, first = homes.setdefault(id(value), (module, name))
            # Constants are often the same object by chance.
            if (home, first) == (module, name) or not _is_described_once(value):
                module.names.append(name)
            else:
                module.elsewhere[name] = f"{home.name}.{first}"
        module.names.sort()
    return found


def _is_alias(module: Module, name: str) -> bool:
    """Returns whether a name is an alias: its object has another `__name__`."""
    return getattr(module[name], "__name__", name) != name


def _each_module() -> Iterator[Module]:
    """Yields the modules of all tables, each under its first name."""
    seen: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for root, table in TABLES.items():
        for name in sorted(table, key=lambda name: (name.startswith(_SHELVES), name)):
            public = f"{root}.{name}" if name else root
            first = seen.setdefault(table[name], public)
            others.setdefault(first, [])
            if first != public:
                others[first].append(public)
    for code, public in seen.items():
        module = importlib.import_module(f"{tables.PACKAGE}.{code}" if code else tables.PACKAGE)
        yield Module(public, module, tuple(others[public]))


def _rank(module: Module) -> tuple[int, bool, int, bool, str]:
    """Orders modules: those with first claim to a thing first."""
    depth = module.name.count(".")
    is_lazy = module.name == tables.PUBLIC  # it has what is in its modules
    is_package = hasattr(module.code, "__path__")
    return list(TABLES).index(module.root), is_lazy, depth, is_package, module.name


def _names(module: types.ModuleType) -> list[str]:
    """Returns the public names of a module, without modules: its `__all__`, or else its own.

    Without `__all__` a module has what it defines. A package, and a module that defines nothing,
    has what it imports from this package.
    """
    listed = getattr(module, "__all__", None)
    if listed is None:
        visible = [name for name in dir(module) if not name.startswith("_")]
        listed = [name for name in visible if _origin(module, name) == module.__name__]
        if not listed or hasattr(module, "__path__"):
            listed = [name for name in visible if _origin(module, name).startswith(_OURS)]
    return sorted(name for name in set(listed) if _is_shown(getattr(module, name)))


def _is_shown(value: Any) -> bool:
    """Whether something belongs to the reference: no module, and no class of somebody else."""
    if isinstance(value, type):
        return value.__module__.startswith((_OURS, "popart", "popxl"))
    return not isinstance(value, types.ModuleType)


def _origin(module: types.ModuleType, name: str) -> str:
    """Returns the module that defines a name's object, or the object's type."""
    value = getattr(module, name)
    return getattr(value, "__module__", None) or type(value).__module__


def _is_described_once(value: Any) -> bool:
    """Whether a thing is the same wherever it is: one of this package, but not a number."""
    return callable(value) or type(value).__module__.startswith(_OURS)


def members(value: type) -> list[str]:
    """Returns the public attributes of a class that this package defines.

    Args:
        value: the class.

    Returns:
        Names in the order of definition. What a public class has inherits is described there.
    """
    found: dict[str, None] = {}
    for base in value.__mro__:
        if base is value or base not in public_classes():
            found.update(dict.fromkeys(own_members(base)))
    return list(found)


def own_members(value: type) -> list[str]:
    """Returns the public attributes that a class of this package defines itself.

    Args:
        value: the class; one of another package has none here.
    """
    if not value.__module__.startswith(_OURS):
        return []
    members = value.__members__ if issubclass(value, enum.Enum) else ()
    return [
        name
        for name, attribute in vars(value).items()
        if not name.startswith("_") and name not in members and _is_member(attribute)
    ]


def _is_member(attribute: Any) -> bool:
    wrappers = (property, staticmethod, classmethod, functools.cached_property)
    return callable(attribute) or isinstance(attribute, wrappers)


@functools.lru_cache(maxsize=1)
def public_classes() -> frozenset[type]:
    """Returns all classes with a public name."""
    return frozenset(
        module[name]
        for module in modules().values()
        for name in module.names
        if isinstance(module[name], type)
    )


def parameters(value: Any) -> list[str]:
    """Returns the names of the parameters that a caller passes, without `self`."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    names = list(signature.parameters)
    return names[1:] if names[:1] in (["self"], ["cls"]) else names
