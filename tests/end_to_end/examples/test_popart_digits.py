"""Tests that the PopART examples train on real digits, and that their ONNX files are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"

RUN = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv = [{path!r}, *sys.argv[1:]]
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize("replicas", [1, 2])
def test_trains_to_96_percent_and_writes_equal_onnx(run_program, replicas):
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / "popart_digits.py"))
    arguments = ["--epochs", "6", "--replicas", str(replicas)]
    output = run_program(code, args=arguments, timeout=300).stdout
    assert float(re.search(r"test accuracy: ([\d.]+)%", output).group(1)) >= 96.0
    assert float(re.search(r"evaluator: (\S+)", output).group(1)) < 1e-4
    assert re.search(rf"Replicas +{replicas}\n", output) and "The program fits" in output


def test_an_onnx_file_is_run_trained_and_written(run_program):
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / "popart_onnx_file.py"))
    output = run_program(code, timeout=300).stdout
    assert float(re.search(r"evaluator: (\S+)\n", output).group(1)) < 1e-5
    assert float(re.search(r"evaluator: ([\d.]+)%", output).group(1)) >= 94.0
    assert "The program fits" in output
