"""Examples of custom operations in Poplar compile as their Makefiles say, and run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorflow_ipu.frontends.poplar import sdk

EXAMPLES = Path(__file__).parents[3] / "examples" / "poplar"

RUN = """
import runpy, sys
sys.argv = [{path!r}, *sys.argv[1:]]
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.fixture
def run_example(run_python: Callable[..., Any], tmp_path: Path) -> Callable[..., str]:
    """Returns a function that builds and runs the program of a folder; it returns the output."""

    def run(folder: str, *arguments: str) -> str:
        environment = {**os.environ, **sdk.variables(os.environ)}
        sources = EXAMPLES / folder
        subprocess.run(["make", "-C", str(sources), f"OUT={tmp_path}"], check=True, env=environment)
        program = RUN.format(path=str(sources / f"{folder}.py"))
        output: str = run_python(program, args=["--build", str(tmp_path), *arguments]).stdout
        return output

    return run


def test_results_equal_those_of_numpy(run_example: Callable[..., str]) -> None:
    output = run_example("custom_op")
    assert "gradient of 100000 elements: as NumPy has them" in output


def test_graph_networks_train_as_with_tensorflow(run_example: Callable[..., str]) -> None:
    output = run_example("graph_network", "--replicas", "2")
    assert "losses are those of TensorFlow's ops" in output
    losses = [float(line.split()[-1]) for line in output.splitlines() if line.startswith("epoch")]
    assert losses[-1] < losses[0] / 2
