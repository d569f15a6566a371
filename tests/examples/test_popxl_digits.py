"""Tests that the PopXL examples train on real digits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

# One process for all: most of the time of each would be the start of TensorFlow.
RUN = """
import pathlib, runpy, sys
sys.path.insert(0, {folder!r})
for line in {lines!r}:
    name, *arguments = line.split()
    path = str(pathlib.Path({folder!r}) / name)
    sys.argv = [path, *arguments]
    print("run:", line)
    runpy.run_path(path, run_name="__main__")
"""
# What each run says: its arguments, and the launches of the program that trains.
LAUNCHES = {
    "popxl_digits.py": 12,
    "popxl_addons_digits.py": 2148,
    "popxl_addons_digits.py --outline --recompute --accumulate 2": 1068,
    "popxl_phases.py --layers 2": 529,
}


@pytest.fixture(scope="module")
def outputs(run_python):
    """What each run prints."""
    code = RUN.format(folder=str(EXAMPLES), lines=list(LAUNCHES))
    printed = run_python(code, timeout=300).stdout
    return dict(part.split("\n", 1) for part in printed.split("run: ")[1:])


@pytest.mark.parametrize("line", LAUNCHES)
def test_trains_to_96_percent_and_reports(outputs, line):
    output = outputs[line]
    assert float(re.search(r"test accuracy: ([\d.]+)%", output).group(1)) >= 96.0
    assert "/device:IPU:0: 1 simulated Mk2" in output
    assert f"launches: {LAUNCHES[line]}," in output
