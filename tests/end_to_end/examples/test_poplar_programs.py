"""The C++ programs of `examples/poplar`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tensorflow_ipu.frontends.poplar import sdk
from tests.support.checkout.repository import ROOT

FIRST_LINES = {
    "reduction_tree": "sum 50000, host 50000, modelled cycles ",
    # The stationary temperature of a square with one hot side is a quarter of it in the middle; the
    # grid is still on its way there.
    "stencil": "middle 20.4507",
}


@pytest.mark.process
@pytest.mark.parametrize("name", FIRST_LINES)
def test_program_prints_its_result(name: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        **sdk.variables(os.environ),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    source = ROOT / "examples" / "poplar" / name / "main.cpp"
    program = str(tmp_path / name)
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", str(source), "-lpoplar"]
    subprocess.run([*command, "-o", program], env=environment, check=True)
    output = subprocess.run(
        [program], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert output.startswith(FIRST_LINES[name])
