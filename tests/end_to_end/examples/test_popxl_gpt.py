"""Tests that the GPT of PopXL learns, over 4 IPUs of each of 2 replicas."""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"

RUN = """
import runpy, sys
sys.argv = [{path!r}, "--updates", "60", "--replicas", "2"]
runpy.run_path({path!r}, run_name="__main__")
"""


def test_learns_more_than_how_frequent_characters_are(run_python):
    output = run_python(RUN.format(path=str(EXAMPLES / "popxl_gpt.py")), timeout=300).stdout
    (guess,) = re.findall(r"how frequent they are: ([\d.]+)", output)
    losses = [float(loss) for loss in re.findall(r"update \d+/60: loss ([\d.]+)", output)]
    assert len(losses) == 6 and losses[-1] < min(losses[0], float(guess)) - 0.1
    assert "2 replicas of 4 IPUs each" in output and "8 simulated Mk2" in output
