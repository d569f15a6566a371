"""Attributes of the tables, added to modules, classes and functions when they are used."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from tensorflow_ipu.compat import facade, generation, sources, tables
from tensorflow_ipu.compat.rows import (
    KERAS_2,
    Gone,
    Keyword,
    Method,
    Module,
    Name,
    is_below,
    parents,
)
from tensorflow_ipu.compat.tables.keras import COPY
from tensorflow_ipu.compat.usage import Shim, Usage

_API = "tensorflow.keras"
# Real names of the modules with Keras's public names.
_KERAS = (KERAS_2, f"{KERAS_2}.api._v2.keras", f"{KERAS_2}.api._v1.keras", _API)


def add(root: str, usage: Usage) -> None:
    """Adds the attributes that a package lacks.

    Args:
        root: name of the package, which is loaded.
        usage: where uses are noted.
    """
    for parent, names in _by_parent(root).items():
        for holder in holders(parent):
            show(holder, parent, names, usage)
    for method in tables.METHODS.values():
        if is_below(method.owner, root):
            _add_method(method, usage)
    for keyword in tables.KEYWORDS.values():
        if is_below(keyword.function, root):
            _drop_keyword(keyword, usage)


def add_old_optimizers(usage: Usage) -> None:
    """Gives the program the optimizers of TensorFlow 2.6 by the public modules of Keras.

    Args:
        usage: where uses are noted.
    """
    mixed = generation.LOSS_SCALE.rpartition(".")[0]
    for parent, names in (
        (generation.OPTIMIZERS, generation.CLASSES),
        (mixed, ("LossScaleOptimizer",)),
    ):
        old = {name: generation.old_optimizer(f"{parent}.{name}") for name in names}
        for holder in holders(parent):
            if "_v1" not in holder.__name__:  # that one has them
                _show_to_program(holder, parent, old, usage)


def _show_to_program(holder: Any, parent: str, names: Mapping[str, str], usage: Usage) -> None:
    """Gives the program other classes of a module than installed packages get."""
    kept = {name: vars(holder).pop(name) for name in names}
    show(holder, parent, names, usage)
    to_program = holder.__getattr__

    def get_attribute(name: str) -> Any:
        frame = sys._getframe(1)
        if name in kept and not sources.is_of_program(frame.f_code.co_filename):
            return kept[name]
        return to_program(name)

    holder.__getattr__ = get_attribute


def show(holder: Any, parent: str, names: Mapping[str, str], usage: Usage) -> None:
    """Adds missing names to a module.

    Args:
        holder: the module.
        parent: its full name in the tables.
        names: full name of the replacement, by name.
        usage: where uses are noted.
    """
    before = vars(holder).get("__getattr__")

    def get_attribute(name: str) -> Any:
        if name in names:
            value = _value(f"{parent}.{name}", names[name])
            usage.note(Shim(f"{parent}.{name}", names[name]), sys._getframe(1))
            return value
        found = None if name.startswith("__") else tables.find(f"{parent}.{name}")
        if found is not None and isinstance(found.row, Gone):
            raise AttributeError(facade.missing(f"{parent}.{name}"))
        if before is not None:
            return before(name)
        raise AttributeError(f"module {parent!r} has no attribute {name!r}")

    holder.__getattr__ = get_attribute


def holders(parent: str) -> list[Any]:
    """Returns the modules that a full name of the tables stands for.

    Args:
        parent: full name of a module.
    """
    if is_below(parent, _API):
        found = [_imported(f"{root}{parent[len(_API) :]}") for root in _KERAS]
    else:
        names = [parent]
        if is_below(parent, "tensorflow"):
            names.append(f"tensorflow.compat.v1{parent[len('tensorflow') :]}")
        # TensorFlow has many modules twice: as attributes, and by `import`.
        found = [holder for name in names for holder in (_attribute(name), _imported(name))]
    modules = [holder for holder in found if isinstance(holder, types.ModuleType)]
    return list({id(holder): holder for holder in modules}.values())


def _imported(name: str) -> Any:
    """Imports a module, if there is one of this name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _attribute(name: str) -> Any:
    """Returns the object of a full name; None if it does not exist."""
    try:
        return facade.resolve(name)
    except (AttributeError, ImportError):
        return None


@functools.cache
def _by_parent(root: str) -> dict[str, dict[str, str]]:
    """Returns the missing names of a package with their replacements, by module."""
    rows: dict[str, dict[str, str]] = {}
    for row in _rows(root):
        parent, _, name = row.old.rpartition(".")
        names = rows.setdefault(parent, {})
        if isinstance(row, Name):
            names[name] = row.new
        elif isinstance(row, Module):
            # A module that is made of several has only the name of the program.
            names[name] = row.new[0] if len(row.new) == 1 else row.old
    # Names in a dropped module are resolved by the module itself.
    return {
        parent: names
        for parent, names in rows.items()
        if not any(one in tables.MODULES for one in parents(parent))
    }


def _rows(root: str) -> Iterable[tables.Row]:
    """Yields the rows of a package, without names that exist with another meaning."""
    for table in (tables.NAMES, tables.MODULES, tables.GONE):
        for row in table.values():
            if is_below(row.old, root) and not is_below(row.old, COPY) and "." in row.old:
                yield row


def _value(old: str, new: str) -> Any:
    """Returns the replacement of a name."""
    if old == new:
        return importlib.import_module(new)
    return facade.resolve(new)


def _add_method(row: Method, usage: Usage) -> None:
    """Gives a class a method or a property by its former name."""
    owner, new = facade.resolve(row.owner), facade.resolve(row.new)
    shim = Shim(f"{row.owner}.{row.old}", row.new)
    if hasattr(owner, row.old):
        return
    if isinstance(new, property):
        setattr(owner, row.old, _noted_property(new, shim, usage))
        return

    inside, _, name = row.new.rpartition(".")

    @functools.wraps(new)
    def call(*args: Any, **kwargs: Any) -> Any:
        usage.note(shim, sys._getframe(1))
        if inside == row.owner:  # the method of the object's own class
            return getattr(args[0], name)(*args[1:], **kwargs)
        return new(*args, **kwargs)

    setattr(owner, row.old, call)


def _noted_property(new: property, shim: Shim, usage: Usage) -> property:
    """Returns a property that records its uses."""

    def get(instance: Any) -> Any:
        usage.note(shim, sys._getframe(1))
        return new.__get__(instance)

    def put(instance: Any, value: Any) -> None:
        usage.note(shim, sys._getframe(1))
        new.__set__(instance, value)

    return property(get, put)


def _drop_keyword(row: Keyword, usage: Usage) -> None:
    """Makes a function accept and drop an argument that it no longer has."""
    module, _, name = row.function.rpartition(".")
    holder = importlib.import_module(module)
    function = getattr(holder, name)
    if row.old in inspect.signature(function).parameters:
        return
    shim = Shim(f"{row.function}({row.old}=)", "left out")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if row.old in kwargs:
            del kwargs[row.old]
            usage.note(shim, sys._getframe(1))
        return function(*args, **kwargs)

    setattr(holder, name, call)
