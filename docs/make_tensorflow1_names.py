"""Writes the catalogue of TensorFlow 1 names: `python docs/make_tensorflow1_names.py`.

They are what `tensorflow.compat.v1` has and `tensorflow` has not, in the installed TensorFlow. A
program that uses one of them by `import tensorflow as tf` was written for TensorFlow 1.
"""

from __future__ import annotations

import textwrap
import types
from pathlib import Path

import tensorflow as tf

PATH = Path(__file__).parents[1] / "tensorflow_ipu/compat/tables/tensorflow1_names.py"

_HEADER = '''"""Names that only TensorFlow 1 has: made by docs/make_tensorflow1_names.py.

A key is a module below `tensorflow`, a value its names.
"""

from __future__ import annotations

'''
# `tf.keras` and `tf.estimator` are packages of their own, and `tf.compat` is in both.
_OTHERS = ("compat", "estimator", "keras")


def render() -> str:
    """Returns the module."""
    v1 = tf.compat.v1
    found = {"": _missing(v1, tf)}
    for name in sorted(_names(v1) & _names(tf) - set(_OTHERS)):
        module, other = getattr(v1, name), getattr(tf, name)
        if isinstance(module, types.ModuleType) and _missing(module, other):
            found[name] = _missing(module, other)
    rows = "".join(
        f'    "{name}": """\n{_wrapped(names)}\n    """,\n' for name, names in found.items()
    )
    return f"{_HEADER}_TEXT = {{\n{rows}}}\n\n{_FOOTER}"


_FOOTER = """#: Their full names.
NAMES = frozenset(
    ".".join(part for part in ("tensorflow", module, name) if part)
    for module, names in _TEXT.items()
    for name in names.split()
)
"""


def _names(module: types.ModuleType) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")}


def _missing(module: types.ModuleType, other: types.ModuleType) -> list[str]:
    return sorted(_names(module) - _names(other))


def _wrapped(names: list[str]) -> str:
    return textwrap.fill(" ".join(names), 96, initial_indent=" " * 8, subsequent_indent=" " * 8)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
