"""Shims for older programs in this process.

Missing modules come from an import finder (`finder.py`), missing names from `__getattr__`
(`added_attributes.py`). They are looked up when they are used, so a program without uses pays
nothing.

Names with another meaning must not change for TensorFlow and Keras themselves. So they are
exchanged in the imports of the program's own files: `import tensorflow` in a program for TensorFlow
1 gives `tensorflow.compat.v1`.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from typing import Any

from tensorflow_ipu.compat import (
    added_attributes,
    dataclass_defaults,
    facade,
    float_dimensions,
    generation,
    sources,
    tables,
)
from tensorflow_ipu.compat.finder import ROOTS, FormerModuleFinder
from tensorflow_ipu.compat.generation import Generation
from tensorflow_ipu.compat.rows import KERAS_2, Gone, is_below
from tensorflow_ipu.compat.tables import tensorflow1_names
from tensorflow_ipu.compat.tables.keras import COPY
from tensorflow_ipu.compat.usage import Shim, Usage

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
        dataclass_defaults.allow(self._usage)

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
            added_attributes.add(root, self._usage)
            return
        self._shown.update(_TENSORFLOW)
        importlib.import_module("tensorflow")
        if self._generation.tensorflow == 1:
            self._become_tensorflow_1()
        for package in ("tensorflow", KERAS_2):
            added_attributes.add(package, self._usage)
        self._show_code()
        if self._generation.old_optimizers:
            added_attributes.add_old_optimizers(self._usage)

    def _become_tensorflow_1(self) -> None:
        """Makes TensorFlow behave as 1.15, before the program uses it."""
        tf1 = importlib.import_module("tensorflow.compat.v1")
        # It says that reference variables are deprecated, which the program did not ask for.
        verbosity = tf1.logging.get_verbosity()
        tf1.logging.set_verbosity(tf1.logging.ERROR)
        tf1.disable_v2_behavior()
        tf1.logging.set_verbosity(verbosity)
        float_dimensions.allow(self._usage)

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
            targets = facade.module_targets(name)
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
        if row is None or isinstance(row.row, Gone) or not facade.module_targets(full):
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
