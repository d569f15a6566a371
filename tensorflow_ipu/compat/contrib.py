"""`tensorflow.contrib` of TensorFlow 1.15: modules made from `compat/tables/contrib_names.py`.

from tensorflow_ipu.compat import contrib

cell = contrib.rnn.LSTMCell(64)
"""

from __future__ import annotations

import sys
from types import ModuleType

from tensorflow_ipu.compat.finder import names_of
from tensorflow_ipu.compat.tables.contrib_names import TABLE

# A package for the import system, whose modules no file stands for.
__path__: list[str] = []
__getattr__, __dir__ = names_of(__name__)


def _make(name: str) -> None:
    """Makes a module of the table, which resolves its names when they are used.

    Args:
        name: dotted name below `tensorflow.contrib`.
    """
    full = f"{__name__}.{name}"
    module = ModuleType(full, f"`tensorflow.contrib.{name}`: the names of the table.")
    module.__path__ = []
    module.__getattr__, get_names = names_of(full)  # type: ignore[method-assign]
    module.__dir__ = get_names  # type: ignore[method-assign]
    sys.modules[full] = module


for _name in sorted({"compiler", *TABLE}):
    _make(_name)
