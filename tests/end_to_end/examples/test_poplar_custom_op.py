"""The example of a custom operation in Poplar compiles as its Makefile says, and runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorflow_ipu.frontends.poplar import sdk

FOLDER = Path(__file__).parents[3] / "examples" / "poplar" / "custom_op"

RUN = """
import runpy, sys
sys.argv = [{path!r}, *sys.argv[1:]]
runpy.run_path({path!r}, run_name="__main__")
"""


def test_results_equal_those_of_numpy(run_python: Callable[..., Any], tmp_path: Path) -> None:
    environment = {**os.environ, **sdk.variables(os.environ)}
    subprocess.run(["make", "-C", str(FOLDER), f"OUT={tmp_path}"], check=True, env=environment)
    program = RUN.format(path=str(FOLDER / "custom_op.py"))
    output = run_python(program, args=["--build", str(tmp_path)]).stdout
    assert "gradient of 100000 elements: as NumPy has them" in output
