"""Table of what NumPy dropped up to 1.26."""

from __future__ import annotations

from tensorflow_ipu.compat.rows import Name

_ALIAS = "not in NumPy since 1.24: it was Python's own type"

NAMES = (
    *(
        Name(f"numpy.{name}", f"builtins.{name}", _ALIAS)
        for name in ("bool", "complex", "float", "int", "object", "str")
    ),
    Name("numpy.long", "builtins.int", _ALIAS),
    Name("numpy.unicode", "builtins.str", _ALIAS),
    Name("numpy.alen", "builtins.len", "not in NumPy since 1.23"),
    Name(
        "numpy.asscalar",
        "tensorflow_ipu.compat.replacements.python.asscalar",
        "not in NumPy since 1.23: it is the method item()",
    ),
    Name("numpy.loads", "pickle.loads", "not in NumPy since 1.23"),
    Name("numpy.typeDict", "numpy.sctypeDict", "not in NumPy since 1.24"),
)
