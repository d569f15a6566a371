"""Shims for older programs in this process.

Missing modules come from an import finder (`finder.py`), missing names from a `__getattr__` of
their module. Both are looked up at their first use, so a program without uses pays nothing.

Names with another meaning must not change for TensorFlow and Keras themselves. So they are
exchanged in the imports of the program's own files: `import tensorflow` in a program for TensorFlow
1 gives `tensorflow.compat.v1`.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from tensorflow_ipu.compat import finder, generation, sources, tables
from tensorflow_ipu.compat.finder import ROOTS, FormerModuleFinder
from tensorflow_ipu.compat.generation import Generation
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
from tensorflow_ipu.compat.tables import tensorflow1_names
from tensorflow_ipu.compat.tables.keras import COPY
from tensorflow_ipu.compat.usage import Shim, Usage

# --- Floats as dimensions of shapes ---

# TensorFlow 1.15 took a float that is a whole number; TensorFlow 2.15 refuses it.

_FLOAT_DIMENSION = Shim("float dimension of a shape", "the same number as an integer")


def allow_float_dimensions(usage: Usage) -> None:
    """Allows whole floats as dimensions of shapes.

    Args:
        usage: where uses are noted.
    """
    from tensorflow.python.framework import tensor_shape

    dimension = tensor_shape.Dimension
    make = dimension.__init__

    @functools.wraps(make)
    def init(self: Any, value: Any) -> None:
        if isinstance(value, float):
            if int(value) != value:
                raise ValueError(
                    f"Ambiguous dimension: {value}. Dimensions are whole numbers: round it as it "
                    "is meant, for instance with // or int()."
                )
            usage.note(_FLOAT_DIMENSION, sys._getframe(1))
            value = int(value)
        make(self, value)

    dimension.__init__ = init


# --- Dataclass instances as defaults of fields ---

# Python 3.10 took any default but a list, a dict and a set. Python 3.11 refuses all that cannot be
# hashed, and instances of most dataclasses cannot.

_DATACLASS_DEFAULT = Shim(
    "dataclass instance as a default of a field", "the same instance for all objects"
)


def allow_dataclass_defaults(usage: Usage) -> None:
    """Allows instances of dataclasses as defaults of fields in the program's dataclasses.

    Args:
        usage: where uses are noted.
    """
    module: Any = dataclasses
    check = getattr(module, "_get_field", None)
    if sys.version_info < (3, 11) or check is None:
        return

    @functools.wraps(check)
    def get_field(cls: Any, name: str, *arguments: Any, **named: Any) -> Any:
        default = vars(cls).get(name)
        if isinstance(default, dataclasses.Field):
            default = default.default
        kind = type(default)
        if not dataclasses.is_dataclass(kind) or kind.__hash__ is not None or not _is_own(cls):
            return check(cls, name, *arguments, **named)
        usage.note(_DATACLASS_DEFAULT, sys._getframe(1))
        # The check asks whether instances can be hashed; nothing hashes one meanwhile.
        known = vars(kind).get("__hash__", dataclasses.MISSING)
        kind.__hash__ = object.__hash__
        try:
            return check(cls, name, *arguments, **named)
        finally:
            if known is dataclasses.MISSING:
                del kind.__hash__
            else:
                kind.__hash__ = known

    module._get_field = get_field


def _is_own(cls: Any) -> bool:
    """Returns whether a class is defined by the program."""
    module = sys.modules.get(cls.__module__)
    return sources.is_of_program(str(getattr(module, "__file__", None) or ""))


# --- Attributes of modules, classes and functions ---

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
            raise AttributeError(finder.missing(f"{parent}.{name}"))
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
        return finder.resolve(name)
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
    return finder.resolve(new)


def _add_method(row: Method, usage: Usage) -> None:
    """Gives a class a method or a property by its former name."""
    owner, new = finder.resolve(row.owner), finder.resolve(row.new)
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


# --- Installation ---

# Packages of the tables that TensorFlow comes with.
_TENSORFLOW = ("tensorflow", "keras", KERAS_2, "tensorflow_core")


class Shims:
    """All shims of one process.

    Args:
        written_for: the generation that the program was written for.
        usage: where uses are noted.
    """

    def __init__(self, written_for: Generation, usage: Usage) -> None:
        self._generation = written_for
        self._usage = usage
        self._shown: set[str] = set()
        self._import = builtins.__import__

    def install(self) -> None:
        """Installs the shims; a package's shims follow when the program imports it."""
        sys.meta_path.insert(0, FormerModuleFinder(self._usage))
        builtins.__import__ = self._program_import
        allow_dataclass_defaults(self._usage)

    def _program_import(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """Replaces `__import__`: exchanges imports in the program's own files."""
        root = name.partition(".")[0]
        if level or root not in ROOTS:
            return self._import(name, globals, locals, fromlist, level)
        if not sources.is_of_program(str((globals or {}).get("__file__", ""))):
            return self._import(name, globals, locals, fromlist, level)
        if root not in self._shown:
            self._usage.paused = True
            try:
                self._load(root)
            finally:
                self._usage.paused = False
        return self._exchanged(name, globals, locals, tuple(fromlist or ()))

    def _load(self, root: str) -> None:
        """Loads a package with its shims."""
        self._shown.add(root)
        if root not in _TENSORFLOW:
            importlib.import_module(root)
            add(root, self._usage)
            return
        self._shown.update(_TENSORFLOW)
        importlib.import_module("tensorflow")
        if self._generation.tensorflow == 1:
            self._become_tensorflow_1()
        for package in ("tensorflow", KERAS_2):
            add(package, self._usage)
        self._show_code()
        if self._generation.old_optimizers:
            add_old_optimizers(self._usage)

    def _become_tensorflow_1(self) -> None:
        """Makes TensorFlow behave as 1.15, before the program uses it."""
        tf1 = importlib.import_module("tensorflow.compat.v1")
        # It says that reference variables are deprecated, which the program did not ask for.
        verbosity = tf1.logging.get_verbosity()
        tf1.logging.set_verbosity(tf1.logging.ERROR)
        tf1.disable_v2_behavior()
        tf1.logging.set_verbosity(verbosity)
        allow_float_dimensions(self._usage)

    def _show_code(self) -> None:
        """Makes TensorFlow's `python`, `core` and `compiler` attributes of TensorFlow 1's."""
        tf, tf1 = sys.modules["tensorflow"], importlib.import_module("tensorflow.compat.v1")
        before_1, before_2 = vars(tf1)["__getattr__"], vars(tf)["__getattr__"]
        wanted = self._generation.tensorflow

        def of_version_1(name: str) -> Any:
            if name in ("python", "core", "compiler") and name in vars(tf):
                return vars(tf)[name]
            return before_1(name)

        def of_version_2(name: str) -> Any:
            if wanted == 2 and f"tensorflow.{name}" in tensorflow1_names.NAMES:
                raise AttributeError(
                    f"module 'tensorflow' has no attribute {name!r}: it is a name of TensorFlow 1. "
                    "If the program was written for that: tensorflow-ipu run --tensorflow 1 ..."
                )
            return before_2(name)

        tf1.__getattr__ = of_version_1  # type: ignore[method-assign]
        tf.__getattr__ = of_version_2  # type: ignore[method-assign]

    def _exchanged(self, name: str, globals: Any, locals: Any, fromlist: tuple[str, ...]) -> Any:
        """Imports today's module for a module that a program names."""
        frame = sys._getframe(2)
        new = self._new_module(name)
        if new != name:
            self._usage.note(Shim(name, new), frame)
        # With names to import, the import system returns the module, and not its package.
        found = self._import(new, globals, locals, fromlist or ("",), 0)
        if not fromlist:
            return self._package(name, found)
        items = {item: self._new_item(found, name, item, frame) for item in fromlist}
        if not any(value is not None for value in items.values()):
            return found
        return _View(found, {item: value for item, value in items.items() if value is not None})

    def _package(self, name: str, found: Any) -> Any:
        """Returns the result of `import name`: the outermost package, with the module below it."""
        parts = name.split(".")
        if not is_below(name, COPY):
            return sys.modules[self._new_module(parts[0])]
        for count in range(len(parts) - 1, 0, -1):
            parent = importlib.import_module(self._new_module(".".join(parts[:count])))
            found = _View(parent, {parts[count]: found})
        return found

    def _new_module(self, name: str) -> str:
        """Returns the module that the program means by a name."""
        if is_below(name, COPY):
            targets = finder.module_targets(name)
            if len(targets) == 1:
                return targets[0]
            # The same module of Keras has one name of several; the finder makes it of them.
            return f"tensorflow.keras{name[len(COPY) :]}" if targets else name
        return generation.today(name, self._generation)

    def _new_item(self, found: Any, module: str, item: str, frame: Any) -> Any:
        """Returns the module that `from module import item` means, None if it is no row's."""
        full = f"{module}.{item}"
        if full != COPY and (item == "*" or hasattr(found, item)):
            return None
        row = tables.find(full)
        if row is None or isinstance(row.row, Gone) or not finder.module_targets(full):
            return None
        new = self._new_module(full)
        try:
            value = importlib.import_module(new)
        except ModuleNotFoundError:
            return None  # The statement says so.
        if new != full:
            self._usage.note(Shim(full, new), frame)
        return value


class _View(types.ModuleType):
    """A module with some names exchanged.

    Args:
        module: the module.
        names: the other names.
    """

    def __init__(self, module: types.ModuleType, names: dict[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


_installed: list[Usage] = []


def install(written_for: Generation) -> Usage:
    """Installs the shims in this process, once.

    Args:
        written_for: the generation that the program was written for.

    Returns:
        The shims used, updated during the run. A second call returns the same object and changes
        nothing.
    """
    if not _installed:
        usage = Usage()
        _installed.append(usage)
        Shims(written_for, usage).install()
    return _installed[0]
