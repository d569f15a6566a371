"""Tests that the examples train on real digits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"

RUN = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv = [{path!r}]
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.process
@pytest.mark.parametrize("name", ["digits.py", "digits_graph.py"])
def test_trains_to_97_percent_and_reports(run_program, name):
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / name))
    output = run_program(code, timeout=300).stdout
    accuracy = float(re.search(r"test accuracy: ([\d.]+)%", output).group(1))
    assert accuracy >= 97.0
    assert "/device:IPU:0: 1 simulated Mk2" in output
    assert "launches: 20" in output
