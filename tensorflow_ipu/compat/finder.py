"""Modules that stand for dropped ones: their names, and the import finder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from tensorflow_ipu.compat import tables
from tensorflow_ipu.compat.rows import KERAS_2, Gone, Module, Name, is_below
from tensorflow_ipu.compat.tables import contrib_names
from tensorflow_ipu.compat.tables.keras import COPY, SOURCES
from tensorflow_ipu.compat.usage import Shim, Usage

# --- Names ---


def names_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Makes the `__getattr__` and the `__dir__` of a module of `tensorflow_ipu.compat.contrib`.

    Args:
        package: name of the module.

    Returns:
        The two functions, for the module to assign.
    """
    old = contrib_names.ROOT + package[len(contrib_names.PACKAGE) :]
    names = {
        row.old[len(old) + 1 :] for row in contrib_names.NAMES if row.old.startswith(old + ".")
    }

    def get_attribute(name: str) -> Any:
        row = tables.NAMES.get(f"{old}.{name}")
        if row is not None:
            return resolve(row.new)
        if any(other.startswith(name + ".") for other in names):
            return importlib.import_module(f"{package}.{name}")
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        raise AttributeError(missing(f"{old}.{name}"))

    return get_attribute, lambda: sorted({name.split(".")[0] for name in names})


def missing(name: str) -> str:
    """Returns the error for a name of `tensorflow.contrib` or another row without an equal."""
    found = tables.find(name)
    if found is not None and isinstance(found.row, Gone):
        return f"{name} is not in TensorFlow 2.15, and nothing takes its place. {found.row.advice}"
    return (
        f"{name} is not in TensorFlow 2.15, and tensorflow_ipu.compat has nothing that takes its "
        "place. docs/migration.md lists what it has."
    )


def resolve(name: str) -> Any:
    """Returns the object of a full name.

    Args:
        name: such as `tensorflow.compat.v1.nn.rnn_cell.LSTMCell` or `builtins.int`.

    Raises:
        AttributeError: there is no such name.
    """
    first, *parts = name.split(".")
    value: Any = importlib.import_module(first)
    path = first
    for part in parts:
        path = f"{path}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError as error:
            # Some packages do not show their modules before these are imported.
            try:
                value = importlib.import_module(path)
            except ModuleNotFoundError:
                raise error from None
    return value


class Merged:
    """Loader of a module with the names of several others.

    Args:
        modules: their names; the first is searched first.
    """

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules = modules

    @staticmethod
    def create_module(spec: Any) -> None:
        """Leaves the creation of the module to the import system."""

    def exec_module(self, module: Any) -> None:
        """Replaces the new module by the only source, or gives it the names of all sources."""
        if len(self.modules) == 1:
            sys.modules[module.__name__] = importlib.import_module(self.modules[0])
            return
        for name in reversed(self.modules):
            other = vars(importlib.import_module(name))
            names = {key: value for key, value in other.items() if not key.startswith("__")}
            vars(module).update(names)


def module_targets(name: str) -> tuple[str, ...]:
    """Returns the modules that replace a module of a program; none if it has no row.

    Args:
        name: full name of the module.

    Raises:
        ModuleNotFoundError: nothing takes its place.
    """
    found = tables.find(name)
    if found is None or isinstance(found.row, Name):
        return ()
    if isinstance(found.row, Gone):
        raise ModuleNotFoundError(missing(name))
    row: Module = found.row
    tail = found.tail(name)
    return tuple(f"{module}{tail}" for module in (row.new if not tail else row.new[:1]))


# --- Finder ---

#: The packages that the tables are about.
ROOTS = tables.packages()


class FormerModuleFinder:
    """Import finder for modules of the tables that no longer exist.

    Args:
        usage: where uses are noted.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Finds a module; the import system calls this.

        Args:
            fullname: name of the module.
            path: where its package is.
            target: module to be reloaded, if any.

        Returns:
            How to load it, or None when other finders know.

        Raises:
            ModuleNotFoundError: nothing takes the place of the module.
        """
        root = fullname.split(".")[0]
        # The old copy of Keras is there, and TensorFlow itself imports from it.
        if root not in ROOTS or is_below(fullname, SOURCES) or is_below(fullname, COPY):
            return None
        if root == "keras" != KERAS_2:  # Keras 3, which imports its own modules
            return None
        targets = module_targets(fullname)
        if not targets:
            return None
        loader: Any = Merged(targets)
        self._usage.note(Shim(fullname, targets[0]), sys._getframe(1))
        return ModuleSpec(fullname, loader, is_package=True)
