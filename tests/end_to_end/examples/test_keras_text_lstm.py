"""Tests that the Keras example with an LSTM learns to tell texts apart."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np

EXAMPLE = Path(__file__).parents[3] / "examples" / "keras_text_lstm.py"

RUN = """
import runpy
runpy.run_path({path!r}, run_name="__main__")
"""


def test_learns_and_reports(run_program):
    output = run_program(RUN.format(path=str(EXAMPLE)), timeout=300).stdout
    accuracy = float(re.search(r"test accuracy: ([\d.]+)%", output).group(1))
    assert accuracy >= 97.0
    assert "val_accuracy" in output
    assert "/device:IPU:0: 1 simulated Mk2" in output


def test_texts_repeat_and_differ_only_in_order():
    write_texts = runpy.run_path(str(EXAMPLE))["write_texts"]
    texts, labels = write_texts(2000, seed=0)
    again, _ = write_texts(2000, seed=0)
    np.testing.assert_array_equal(texts, again)
    assert texts.shape == (2000, 40) and texts.dtype == np.int32
    counts = [np.bincount(texts[labels == label].ravel(), minlength=100) for label in (0, 1)]
    shares = [count[1:] / count[1:].sum() for count in counts]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.004)
