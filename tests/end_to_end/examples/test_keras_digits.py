"""Tests that the Keras example trains on real digits, in all its forms alike."""

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
    code = RUN.format(folder=str(EXAMPLES), path=str(EXAMPLES / "keras_digits.py"))
    return run_program(code, args=arguments, timeout=300).stdout


def _losses(output):
    """Returns the losses that the progress bars end with: of each epoch, then of `evaluate`."""
    lines = re.split(r"[\r\n]", output)
    pattern = re.compile(r"[mu]?s/step - loss: ([\d.]+)")
    return [float(loss) for line in lines for loss in pattern.findall(line)]


def test_trains_to_97_percent_and_reports(run_program):
    output = _run(run_program)
    assert "Epoch 10/10" in output
    assert "44/44 [==============================]" in output
    accuracy, predicted = (
        float(re.search(rf"{what}: ([\d.]+)%", output).group(1))
        for what in ("test accuracy", "predicted right")
    )
    assert accuracy == predicted >= 97.0
    assert "/device:IPU:0: 1 simulated Mk2" in output
    assert "launches: 10" in output


@pytest.mark.parametrize(
    ("arguments", "steps", "replicas", "ipus"),
    [
        (["--replicas", "4"], 44, 4, 1),
        (["--pipeline"], 352, 1, 4),
        (["--pipeline", "--replicas", "2"], 352, 2, 4),
    ],
    ids=["replicas", "pipeline", "pipelines"],
)
def test_an_epoch_is_alike_on_all_ipus(run_program, arguments, steps, replicas, ipus):
    output = _run(run_program, "--epochs", "2", *arguments)
    assert f"{steps}/{steps} [==============================]" in output
    assert f"{replicas} replica{'s'[: replicas - 1]} of {ipus} IPU" in output
    assert ("Pipeline Stage" in output) == (ipus == 4)
    # Those of one IPU, where the updates are the same but for rounding.
    assert _losses(output)[:2] == pytest.approx([2.022, 0.646], abs=0.01)
