"""Examples of operations in C++ for PopXL compile when they are imported, and run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "popxl"

RUN = """
import os, runpy, sys
os.chdir({folder!r})
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    "folder, program, expected",
    [
        ("custom_op", "leaky_relu_example.py", "gradients [0.1 0.1 1.  1. ]"),
        ("quantized_linear", "quantized_digits.py --replicas 2", "logits are those of NumPy"),
    ],
)
def test_examples_compile_and_print_their_results(
    folder: str,
    program: str,
    expected: str,
    run_python: Callable[..., Any],
    tmp_path: Path,
) -> None:
    for module in ("cppimport", "pybind11"):
        pytest.importorskip(module)
    sources = shutil.copytree(EXAMPLES / folder, tmp_path / folder)  # modules land beside them
    code = RUN.format(folder=str(sources), argv=program.split())
    assert expected in run_python(code, timeout=300).stdout
