"""The classes that users get from the public modules."""

from __future__ import annotations

import importlib
import inspect
import types

from tensorflow_ipu.import_hook import tables

_TABLES = (tables.MODULES, tables.POPLAR_MODULES, tables.ADDONS_MODULES)


def public_names(module: types.ModuleType) -> list[str]:
    """Returns the public names of a module: `__all__`, else its own definitions."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def public_classes() -> set[type]:
    """Returns all classes of this package that a public module has under a public name."""
    modules = [
        importlib.import_module(f"{tables.PACKAGE}.{name}")
        for name in sorted({name for table in _TABLES for name in table.values()})
    ]
    named = [getattr(module, name) for module in modules for name in public_names(module)]
    named += [
        getattr(importlib.import_module(f"{tables.PACKAGE}.{module}"), name.split(".")[-1])
        for name, module in tables.NAMES.items()
    ]
    return {
        found
        for found in named
        if inspect.isclass(found) and found.__module__.startswith(f"{tables.PACKAGE}.")
    }
