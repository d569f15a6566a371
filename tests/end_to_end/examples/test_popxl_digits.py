"""Tests that the PopXL examples train on real digits."""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"

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


# One test, so that the one process does not run on each worker of the suite.
def test_they_train_to_95_percent_and_report(run_program):
    code = RUN.format(folder=str(EXAMPLES), lines=list(LAUNCHES))
    printed = run_program(code, timeout=300).stdout
    outputs = dict(part.split("\n", 1) for part in printed.split("run: ")[1:])
    assert list(outputs) == list(LAUNCHES)
    for line, output in outputs.items():
        assert float(re.search(r"test accuracy: ([\d.]+)%", output).group(1)) >= 95.0, line
        assert "/device:IPU:0: 1 simulated Mk2" in output, line
        assert f"launches: {LAUNCHES[line]}," in output, line
