"""Tests that the pipeline examples train on real digits, and print the pipeline."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = ["pipeline_digits.py", "pipeline_digits_graph.py"]

RUN = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv = [{path!r}, *sys.argv[1:]]
runpy.run_path({path!r}, run_name="__main__")
"""


def _run(run_program, name, *arguments):
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / name))
    return run_program(code, args=arguments, timeout=300).stdout


@pytest.mark.parametrize("name", NAMES)
def test_trains_to_97_percent_and_reports(run_program, name, tmp_path):
    picture = tmp_path / "schedule.svg"
    output = _run(run_program, name, "--picture", str(picture))
    accuracy = float(re.search(r"test accuracy: ([\d.]+)%", output).group(1))
    assert accuracy >= 97.0
    assert "replicas: 2, with 4 IPUs each" in output
    assert "Grouped training: 4 stages, 4 IPUs, count 8, 22 executions, 23 steps" in output
    assert "IPU 3 .  .  .  F0 B0" in output
    assert "IPU 1 to IPU 0: 176 times 16384 bytes" in output
    assert "/device:IPU:0: 8 simulated Mk2" in output
    assert "launches: 20" in output
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("name", "schedule"), list(zip(NAMES, ["Interleaved", "Sequential"])), ids=["TF2", "TF1"]
)
def test_options_choose_schedule_and_recomputation(run_program, name, schedule):
    output = _run(run_program, name, "--launches", "1", "--schedule", schedule, "--recompute")
    assert f"{schedule} training: 4 stages" in output
    assert "recompute" in output
    assert "launches: 1" in output
