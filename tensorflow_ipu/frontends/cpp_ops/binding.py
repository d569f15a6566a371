"""The compiled module behind `popart._internal.ir`, made with the installed pybind11.

Classes of bindings are shared by modules of one version of pybind11 only. So the module is compiled
when a user's module needs it, and kept until something that it is made of changes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tensorflow_ipu.frontends.cpp_ops import library
from tensorflow_ipu.frontends.poplar import popc, sdk

_NAME = "popart_ir"
# Optimizing takes several times as long, and nothing here runs in a loop.
_FLAGS = ("-std=c++17", "-O0", "-g0", "-fPIC", "-shared", "-fvisibility=hidden")

#: Names that `popart._internal.ir` has from the module.
NAMES = (
    "CommGroup",
    "GradInOutMapper",
    "GradOpInType",
    "GraphId",
    "NumInputs",
    "OperatorIdentifier",
    "OptionalExecutionPhase",
    "OptionalPipelineStage",
    "OptionalVGraphId",
    "Scope",
    "Settings",
)


@functools.cache
def load() -> ModuleType:
    """Returns the module; compiles it if it was not yet with the installed pybind11.

    Raises:
        ImportError: If pybind11 is not installed, or the compiler fails.
    """
    library.load()
    path = _path()
    if not path.exists():
        _compile(path)
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    spec = importlib.machinery.ModuleSpec(_NAME, loader, origin=str(path))
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def enable() -> None:
    """Prepares the process for libraries of users: `library.prepare`, and the module when needed.

    The module is made before the first module of Python that registers operations.
    """
    if library.prepare():
        library.call("watch_registrations", _watcher)


@library.WATCHER
def _watcher() -> None:
    """Is called while a user's library is loaded."""
    if _is_importing(sys._getframe()) and importlib.util.find_spec("pybind11"):
        load()


def _is_importing(frame: FrameType | None) -> bool:
    """Returns whether a compiled module of Python is loaded, rather than a mere library."""
    while frame is not None:
        if frame.f_code.co_name == "create_module" and "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _pybind11() -> Any:
    try:
        return importlib.import_module("pybind11")
    except ImportError as error:
        raise ImportError(
            "Operations of C++ libraries in PopXL need pybind11: pip install "
            "'tensorflow_ipu[custom-ops]'"
        ) from error


def _source() -> Path:
    return sdk.folder() / "bindings" / f"{_NAME}.cpp"


def _path() -> Path:
    """Returns the file of the module, by a hash of all that it is made of."""
    key = hashlib.sha256()
    parts = (_pybind11().__version__, sys.version, popc.compiler(), *_FLAGS)
    for part in parts:
        key.update(part.encode() + b"\0")
    headers = sorted((sdk.folder() / "include" / "popart").rglob("*.hpp"))
    for file in (_source(), *headers):
        key.update(file.read_bytes())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return popc.cache() / f"{_NAME}_{key.hexdigest()[:32]}" / f"{_NAME}{suffix}"


def _compile(path: Path) -> None:
    """Compiles the module beside its place, and moves it there: another process may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    folder = sdk.folder()
    includes = [folder / "include", _pybind11().get_include(), sysconfig.get_path("include")]
    command = [popc.compiler(), *_FLAGS, *(f"-isystem{include}" for include in includes)]
    command += [str(_source()), f"-L{folder / 'lib'}", "-lpopart", "-lpoplar", "-o", str(beside)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ImportError(
            f"The compiler '{command[0]}' is not installed: apt install g++, or name another one "
            "in CXX."
        ) from error
    if process.returncode != 0:
        raise ImportError(f"The binding of popart cannot be compiled:\n{process.stderr}")
    os.replace(beside, path)
