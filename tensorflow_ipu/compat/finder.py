"""The import finder for modules that no longer exist."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from tensorflow_ipu.compat import facade, tables
from tensorflow_ipu.compat.rows import KERAS_2, is_below
from tensorflow_ipu.compat.tables.keras import COPY, SOURCES
from tensorflow_ipu.compat.usage import Shim, Usage

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
        targets = facade.module_targets(fullname)
        if not targets:
            return None
        loader: Any = facade.Merged(targets)
        self._usage.note(Shim(fullname, targets[0]), sys._getframe(1))
        return ModuleSpec(fullname, loader, is_package=True)
