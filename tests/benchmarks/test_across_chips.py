"""Figures of one chip on another."""

from __future__ import annotations

import numpy as np
import pytest
from measured import across_chips
from measured.prediction import Prediction
from measured.rows import Row

from tensorflow_ipu.configs.chips import BOW, MK2


def prediction(predicted, chip, factor, cycles):
    """A product whose measured cycles follow from the predicted ones."""
    measured = factor * predicted + cycles
    found = Row(2, "s", "t", chip.title, "matmul", {"n": "8"}, "time", measured, "cycles")
    return Prediction(found, "g", chip, predicted)


def test_a_factor_and_cycles_are_found_again():
    predicted = np.geomspace(100, 1e6, 12)
    rows = np.stack([1.3 * predicted + 700, predicted], axis=1)
    assert across_chips.fit(rows) == pytest.approx((1.3, 700), rel=1e-4)


def test_cycles_are_never_negative():
    predicted = np.geomspace(1000, 1e6, 12)
    _, cycles = across_chips.fit(np.stack([predicted - 500, predicted], axis=1))
    assert cycles == 0


def test_figures_of_one_chip_predict_another():
    sizes = np.geomspace(1000, 1e6, 6)
    members = [prediction(size, MK2, 1.2, 0) for size in sizes]
    members += [prediction(size, BOW, 1.5, 0) for size in sizes]
    first, second = across_chips.across(members)
    assert (first.source, first.target) == (MK2.title, BOW.title)
    assert first.median == pytest.approx(1 - 1.2 / 1.5, rel=1e-3)
    assert second.median == pytest.approx(1.5 / 1.2 - 1, rel=1e-3)
    assert first.in_use == pytest.approx(1 - 1 / 1.5)


def test_chips_of_few_rows_are_left_out():
    members = [prediction(size, MK2, 1.0, 0) for size in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert not across_chips.across([*members, prediction(7.0, BOW, 1.0, 0)])
