"""Fixtures that compile and load libraries with operations, once for all tests."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import popart
import pytest

FILES = Path(__file__).parent
EXAMPLES = FILES.parents[2] / "examples"


@pytest.fixture(scope="session")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles and loads the library of operations, with the strictest flags."""
    assert popart.__file__  # it has named the folders of headers and libraries
    library = tmp_path_factory.mktemp("operations") / "liboperations.so"
    command = ["g++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    command += ["-fPIC", "-shared", "-fvisibility=hidden", "-DONNX_NAMESPACE=onnx"]
    source = str(FILES / "operations.cpp")
    subprocess.run([*command, source, "-lpopart", "-lpoplar", "-o", str(library)], check=True)
    ctypes.cdll.LoadLibrary(str(library))
    return library


@pytest.fixture(scope="session")
def leaky_relu(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Compiles and imports the example's module as cppimport does."""
    pybind11 = pytest.importorskip("pybind11")
    assert popart.__file__
    name = "leaky_relu"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    module = tmp_path_factory.mktemp("module") / f"{name}{suffix}"
    includes = [pybind11.get_include(), sysconfig.get_path("include")]
    command = ["g++", "-std=c++14", "-O0", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-DONNX_NAMESPACE=onnx", *(f"-I{include}" for include in includes)]
    source = EXAMPLES / "popxl" / "custom_op" / "leaky_relu.cpp"
    command += [str(source), "-lpopart", "-lpopops", "-lpoplar", "-o", str(module)]
    subprocess.run(command, check=True)
    loader = importlib.machinery.ExtensionFileLoader(name, str(module))
    spec = importlib.util.spec_from_file_location(name, str(module), loader=loader)
    found = importlib.util.module_from_spec(spec)
    loader.exec_module(found)
    return found
