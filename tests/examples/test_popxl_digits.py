"""Tests that the PopXL examples train on real digits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

RUN = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv = [{path!r}, *sys.argv[1:]]
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("name", "arguments", "launches"),
    [
        ("popxl_digits.py", [], 12),
        ("popxl_addons_digits.py", [], 2148),
        ("popxl_addons_digits.py", ["--outline", "--recompute", "--accumulate", "2"], 1068),
    ],
    ids=["plain", "addons", "outlined, recomputed, accumulated"],
)
def test_trains_to_96_percent_and_reports(run_python, name, arguments, launches):
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / name))
    output = run_python(code, args=arguments, timeout=300).stdout
    assert float(re.search(r"test accuracy: ([\d.]+)%", output).group(1)) >= 96.0
    assert "/device:IPU:0: 1 simulated Mk2" in output and f"launches: {launches}," in output
