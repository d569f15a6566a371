"""Table of the names that NumPy dropped up to 2.0."""

from __future__ import annotations

from importlib import metadata

from tensorflow_ipu.compat.rows import Name

# The rows depend on it: some names are back since 2.0, and others are gone.
_IS_2 = int(metadata.version("numpy").partition(".")[0]) >= 2

_ALIAS = "not in NumPy since 1.24: it was Python's own type"
_DROPPED = "not in NumPy since 2.0"

# Aliases of NumPy's names, which 2.0 dropped.
_OTHER_NAMES = {
    **dict.fromkeys(("Inf", "Infinity", "PINF", "infty"), "inf"),
    **{"NaN": "nan", "float_": "float64", "complex_": "complex128", "cfloat": "complex128"},
    **{"string_": "bytes_", "unicode_": "str_", "longfloat": "longdouble"},
    **{"singlecomplex": "complex64", "longcomplex": "clongdouble", "clongfloat": "clongdouble"},
    **{"product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any"},
    **{"round_": "round", "mat": "asmatrix"},
}

NAMES = (
    *(
        Name(f"numpy.{name}", f"builtins.{name}", _ALIAS)
        for name in ("complex", "float", "int", "object", "str")
    ),
    Name("numpy.unicode", "builtins.str", _ALIAS),
    *(
        (Name(f"numpy.{old}", f"numpy.{new}", _DROPPED) for old, new in _OTHER_NAMES.items())
        if _IS_2
        else (
            Name("numpy.bool", "builtins.bool", _ALIAS),
            Name("numpy.long", "builtins.int", _ALIAS),
        )
    ),
    Name("numpy.alen", "builtins.len", "not in NumPy since 1.23"),
    Name(
        "numpy.asscalar",
        "tensorflow_ipu.compat.replacements.python.asscalar",
        "not in NumPy since 1.23: it is the method item()",
    ),
    Name("numpy.loads", "pickle.loads", "not in NumPy since 1.23"),
    Name("numpy.typeDict", "numpy.sctypeDict", "not in NumPy since 1.24"),
)
