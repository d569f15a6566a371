"""Fitted figures with one configuration left out, compared with fits by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from measured.leave_out import left_out
from measured.prediction import Prediction
from measured.rows import Row

from tensorflow_ipu.configs.chips import BOW


def prediction(base: float, figure: float, measured: float, name: str, fitted: bool = True):
    """A prediction whose time is `base + figure` cycles."""
    row = Row(2, "s", "t", "Bow", name, {}, "time", measured, "cycles")
    value = base + figure
    return Prediction(row, "g", BOW, value, fitted, name, "figure", figure / value)


def test_figure_without_disagreement_stays():
    (found,) = left_out([prediction(b, 50.0, b + 50.0, f"{b}") for b in (100.0, 300.0, 900.0)])
    assert found.configurations == 3
    assert (found.fitted, found.median, found.percentile) == pytest.approx((0, 0, 0))
    assert (found.low, found.high) == pytest.approx((1, 1))


def test_left_out_rows_are_predicted_from_others():
    bases, measured = np.array([100.0, 300.0, 900.0, 50.0]), np.array([170.0, 345.0, 960.0, 95.0])
    predicted = bases + 50.0
    (found,) = left_out(
        [prediction(b, 50.0, m, f"{b}") for b, m in zip(bases.tolist(), measured.tolist())]
    )
    errors, factors = [], []
    for index in range(4):
        others = np.arange(4) != index
        shares = (50.0 / predicted)[others, None]
        change = np.linalg.lstsq(shares, (measured / predicted - 1)[others], rcond=None)[0][0]
        factors.append(1 + change)
        errors.append(abs((bases[index] + 50.0 * factors[-1]) / measured[index] - 1))
    assert found.median == pytest.approx(np.median(errors))
    assert found.percentile == pytest.approx(np.percentile(errors, 90))
    assert (found.low, found.high) == pytest.approx((min(factors), max(factors)))
    assert found.fitted == pytest.approx(np.median(abs(predicted / measured - 1)))


def test_rows_of_configuration_count_once():
    rows = [prediction(100.0, 50.0, m, "one") for m in (150.0, 160.0, 500.0)]
    assert left_out(rows) == []
    others = [prediction(b, 50.0, b + 50.0, f"{b}") for b in (300.0, 900.0)]
    assert left_out([*rows, *others])[0].configurations == 3


def test_predictions_that_were_not_fitted_do_not_count():
    rows = [prediction(b, 50.0, b, f"{b}", fitted=False) for b in (100.0, 300.0, 900.0)]
    assert left_out(rows) == []
