"""Tests that the examples for several processes train on real digits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
POPRUN = [
    *(sys.executable, "-m", "tensorflow_ipu.distributed.launcher", "--num-instances", "2"),
    *("--only-output-from-instance", "0"),
]


@pytest.mark.parametrize(
    ("command", "example", "arguments"),
    [
        ([*POPRUN, "--num-replicas", "4", sys.executable], "distributed_keras.py", []),
        ([*POPRUN, sys.executable], "distributed_graph.py", ["--launches", "10"]),
        ([sys.executable], "distributed_estimator.py", ["--workers", "2", "--steps", "200"]),
    ],
    ids=["keras", "graph", "estimator"],
)
def test_two_processes_train_to_95_percent(command, example, arguments):
    done = subprocess.run(
        [*command, str(EXAMPLES / example), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    accuracies = re.findall(r"test accuracy: ([\d.]+)%", done.stdout)
    assert len(accuracies) == 1  # only one of them says it
    assert float(accuracies[0]) >= 95.0
