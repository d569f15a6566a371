"""Fixtures that compile and run C++ programs for Poplar."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorflow_ipu.frontends.poplar import sdk

FILES = Path(__file__).parent


@pytest.fixture(scope="session")
def poplar_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the variables of a shell with Poplar, and a cache of codelets of its own."""
    cache = str(tmp_path_factory.mktemp("cache"))
    return {**os.environ, **sdk.variables(os.environ), "XDG_CACHE_HOME": cache}


@pytest.fixture(scope="session")
def compiled(
    poplar_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Returns a function that compiles a source of this folder, once, and returns the program."""
    programs: dict[str, Path] = {}

    def compiled_source(name: str, *libraries: str, standard: str = "c++11") -> Path:
        if name not in programs:
            program = tmp_path_factory.mktemp("program") / Path(name).stem
            command = ["g++", f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic"]
            command += [str(FILES / name), "-lpoplar", *(f"-l{lib}" for lib in libraries)]
            subprocess.run([*command, "-o", str(program)], env=poplar_environment, check=True)
            programs[name] = program
        return programs[name]

    return compiled_source


@pytest.fixture
def run_poplar(
    compiled: Callable[..., Path], poplar_environment: dict[str, str]
) -> Callable[..., str]:
    """Returns a function that runs a program with arguments and input, and returns its output."""

    def run_program(
        name: str,
        *arguments: str,
        libraries: tuple[str, ...] = (),
        text: str = "",
        standard: str = "c++11",
    ) -> str:
        process = subprocess.run(
            [str(compiled(name, *libraries, standard=standard)), *arguments],
            input=text,
            env=poplar_environment,
            cwd=FILES,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run_program
