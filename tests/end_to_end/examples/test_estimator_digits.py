"""Tests that the example of estimators trains on real digits, in all its forms alike."""

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


def _run(run_program, *arguments):
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / "estimator_digits.py"))
    return run_program(code, args=arguments, timeout=300)


def _losses(process):
    """Returns the losses that are logged: of each run, then of the evaluation."""
    return [float(loss) for loss in re.findall(r"\bloss = ([\d.]+)", process.stderr)]


@pytest.mark.parametrize("arguments", [[], ["--pipeline"]], ids=["one", "pipeline"])
def test_trains_to_97_percent_and_reports(run_program, arguments):
    output = _run(run_program, *arguments).stdout
    accuracy, predicted = (
        float(re.search(rf"{what}: ([\d.]+)%", output).group(1))
        for what in ("test accuracy", "predicted right")
    )
    assert accuracy == predicted >= 97.0
    assert f"after {3600 if arguments else 450} steps" in output
    assert f"/device:IPU:0: {4 if arguments else 1} simulated Mk2" in output
    assert "launches: 10" in output


@pytest.mark.parametrize(
    ("arguments", "replicas", "ipus"),
    [(["--replicas", "4"], 4, 1), (["--pipeline", "--replicas", "2"], 2, 4)],
    ids=["replicas", "pipelines"],
)
def test_two_passes_are_alike_on_all_ipus(run_program, arguments, replicas, ipus):
    process = _run(run_program, "--epochs", "2", *arguments)
    assert f"{replicas} replicas of {ipus} IPU" in process.stdout
    # Those of one IPU, where the updates are the same but for rounding.
    assert _losses(process) == pytest.approx([1.9968, 0.6214, 0.2307], abs=1e-3)


def test_goes_on_from_its_folder(run_program, tmp_path):
    for epochs in (1, 2):
        process = _run(run_program, "--epochs", str(epochs), "--model-dir", str(tmp_path))
        assert f"after {45 * epochs} steps" in process.stdout
    assert "step = 45" in process.stderr
    assert "step = 0" not in process.stderr
