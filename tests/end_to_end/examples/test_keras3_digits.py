"""Tests that the example of Keras 3 trains on real digits."""

from __future__ import annotations

import re

import pytest

from tests.end_to_end.examples import test_keras_digits as keras_digits

pytest.importorskip("keras", minversion="3", reason="needs Keras 3")


def test_trains_to_97_percent_and_reports(run_python) -> None:
    path = keras_digits.EXAMPLES / "keras3_digits.py"
    code = keras_digits.RUN.format(folder=str(keras_digits.EXAMPLES), path=str(path))
    output = run_python(code, timeout=300).stdout
    accuracy, predicted = (
        float(re.search(rf"{what}: ([\d.]+)%", output).group(1))
        for what in ("test accuracy", "predicted right")
    )
    assert accuracy == predicted >= 97.0
    assert "/device:IPU:0: 1 simulated Mk2" in output
    assert "launches: 10" in output
