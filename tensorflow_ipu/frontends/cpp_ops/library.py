"""`libpopart`: loading it, its functions, and its errors as Python's exceptions."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorflow_ipu.frontends.common import errors
from tensorflow_ipu.frontends.poplar import sdk

# Loaded in this order, each after those that it needs.
_LIBRARIES = (
    "poplar",
    "poputil",
    "popops",
    "poplin",
    "popnn",
    "poprand",
    "popsparse",
    "gcl",
    "popart",
)

FIND_TENSOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
CREATED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
WATCHER = ctypes.CFUNCTYPE(None)

_HANDLE, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_TEXTS, _INTS = ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_int)
_INT64S, _FLOATS = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_float)

# Result and arguments of the functions (`native/poplar/src/popart/c_api.cc`).
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "error_kind": (_TEXT, ()),
    "error_text": (_TEXT, ()),
    "watch_registrations": (None, (WATCHER,)),
    "op_version": (_INT, (_TEXT, _TEXT, _INT)),
    "list_ops": (_TEXT, ()),
    "attributes": (_HANDLE, ()),
    "free_attributes": (None, (_HANDLE,)),
    "set_int": (None, (_HANDLE, _TEXT, ctypes.c_int64)),
    "set_float": (None, (_HANDLE, _TEXT, ctypes.c_float)),
    "set_string": (None, (_HANDLE, _TEXT, _TEXT)),
    "set_ints": (None, (_HANDLE, _TEXT, _INT, _INT64S)),
    "set_floats": (None, (_HANDLE, _TEXT, _INT, _FLOATS)),
    "set_strings": (None, (_HANDLE, _TEXT, _INT, _TEXTS)),
    "ir": (_HANDLE, (_INT, _INT, FIND_TENSOR, CREATED)),
    "set_replicas": (None, (_HANDLE, _INT)),
    "set_option": (None, (_HANDLE, _TEXT, ctypes.c_int64)),
    "fail": (None, (_TEXT,)),
    "free_ir": (None, (_HANDLE,)),
    "graph": (_HANDLE, (_HANDLE, _TEXT)),
    "add_tensor": (_INT, (_HANDLE, _TEXT, _TEXT, _INT, _INT64S, _HANDLE)),
    "create_op": (
        _HANDLE,
        (_HANDLE, _TEXT, _TEXT, _INT, _TEXT, _HANDLE, _INT, _TEXTS, _INT, _TEXTS),
    ),
    "create_built_in": (
        _HANDLE,
        (_HANDLE, _TEXT, _TEXT, _INT, _TEXT, _HANDLE, _INT, _TEXTS, _INT, _TEXTS),
    ),
    "connect_seed": (_INT, (_HANDLE, _TEXT)),
    "describe": (_TEXT, (_HANDLE,)),
    "infer_shapes": (
        _TEXT,
        (_TEXT, _TEXT, _INT, _HANDLE, _INT, _TEXTS, _INTS, _INT64S, _INT),
    ),
    "register_lowering": (_TEXT, (_HANDLE, _HANDLE, _TEXT, _INT)),
    "check_lowering": (_INT, (_TEXT,)),
    "list_patterns": (_TEXT, ()),
    "set_kept": (_INT, (_HANDLE, _TEXT, _INT, _TEXTS)),
    "set_tensor_type": (_INT, (_HANDLE, _TEXT, _INT)),
    "apply_patterns": (_INT, (_HANDLE, _INT, _TEXTS)),
    "apply_transform": (_INT, (_HANDLE, _TEXT)),
    "schedule": (_TEXT, (_HANDLE,)),
    "sources": (_TEXT, (_HANDLE, _INT)),
    "tensor_data": (_HANDLE, (_HANDLE, _TEXT)),
    "gradients": (_HANDLE, (_HANDLE,)),
    "free_gradients": (None, (_HANDLE,)),
    "gradient_count": (_INT, (_HANDLE,)),
    "describe_gradient": (_TEXT, (_HANDLE, _INT)),
    "connect_gradient": (
        _HANDLE,
        (_HANDLE, _INT, _HANDLE, _INT, _INTS, _TEXTS, _INT, _INTS, _TEXTS),
    ),
}


def prepare() -> bool:
    """Lets users' libraries find headers and libraries, and loads the libraries.

    Compilers that this process starts find them by `CPATH` and `LIBRARY_PATH`. Users' libraries
    may lack the names of the libraries that they need, so symbols of these are global.

    Returns:
        Whether the libraries are installed.
    """
    if not is_installed():
        return False
    folder = sdk.folder()
    for name, path in (("CPATH", "include"), ("LIBRARY_PATH", "lib")):
        os.environ[name] = sdk.before(os.environ.get(name, ""), str(folder / path))
    load()
    return True


@functools.cache
def is_installed() -> bool:
    """Returns whether the libraries are installed."""
    return (sdk.folder() / "lib" / "libpopart.so").exists()


@functools.cache
def load() -> ctypes.CDLL:
    """Loads `libpopart`, with its functions.

    Raises:
        popart_exception: If it is not installed.
    """
    libraries = sdk.folder() / "lib"
    paths = [libraries / f"lib{name}.so" for name in _LIBRARIES]
    if not is_installed():
        raise errors.popart_exception(
            f"There is no libpopart.so in {libraries}: install tensorflow_ipu again (in a "
            "checkout: `make native`)."
        )
    for path in paths:
        if path.exists():
            found = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    # Operations may bring sources of codelets. Symbols of libpoplar are found in what needs it.
    found.poplar_set_popc.argtypes = (ctypes.c_char_p,)
    found.poplar_set_popc(shlex.quote(str(Path(sys.executable).with_name("popc"))).encode())
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(found, f"popart_{name}")
        function.restype, function.argtypes = result, arguments
    return found


def call(name: str, *arguments: Any) -> Any:
    """Calls a function of the library, and raises the exception that it met.

    Args:
        name: the function, without its prefix.
        *arguments: its arguments; texts are passed as bytes.

    Raises:
        Exception: The one that the library, or a user's, has thrown.
    """
    passed = [a.encode() if isinstance(a, str) else a for a in arguments]
    result = getattr(load(), f"popart_{name}")(*passed)
    if _FUNCTIONS[name][0] in (_HANDLE, _TEXT) and result is None:
        raise error()
    if _FUNCTIONS[name][0] is _INT and result < 0:
        raise error()
    return result.decode() if isinstance(result, bytes) else result


def error() -> Exception:
    """Returns the exception that the last failed call of this thread met."""
    kind, text = load().popart_error_kind().decode(), load().popart_error_text().decode()
    if kind == "RuntimeError":
        return RuntimeError(text)
    found: type[Exception] = getattr(errors, kind)
    return found(text)


def texts(values: Sequence[str]) -> Any:
    """Returns texts as an array of C."""
    return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))


def ints(values: Sequence[int]) -> Any:
    """Returns integers as an array of C's `int`."""
    return (ctypes.c_int * len(values))(*values)


def int64s(values: Sequence[int]) -> Any:
    """Returns integers as an array of 64-bit integers."""
    return (ctypes.c_int64 * len(values))(*values)


def floats(values: Sequence[float]) -> Any:
    """Returns numbers as an array of 32-bit floats."""
    return (ctypes.c_float * len(values))(*values)
