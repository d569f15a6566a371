"""Intervals from residuals: widening, the check on left-out rows, correlation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from measured import residuals
from measured.prediction import Prediction
from measured.residuals import Residual
from measured.rows import Row

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs import intervals
from tensorflow_ipu.costs.intervals import Interval


def series(generator, number, size, common, own):
    """Folds whose residuals have a normal part in common and one of their own."""
    return [
        (common * generator.standard_normal() + own * generator.standard_normal(size)).tolist()
        for _ in range(number)
    ]


def as_residuals(folds):
    return [
        Residual(value, "s", "t", str(number))
        for number, fold in enumerate(folds)
        for value in fold
    ]


@pytest.mark.parametrize(("common", "own"), [(0.0, 0.1), (0.1, 0.1), (0.2, 0.05)])
def test_eight_of_ten_values_left_out_lie_inside(common, own):
    generator = np.random.default_rng(7)
    shares = [residuals.inside(series(generator, 12, 15, common, own)) for _ in range(20)]
    assert 0.72 <= np.mean(shares) <= 0.9


def test_errors_in_common_widen_the_band():
    generator = np.random.default_rng(3)
    folds = series(generator, 6, 40, 0.2, 0.02)
    values = [value for fold in folds for value in fold]
    low, middle, high = residuals.band(folds)
    assert low < np.percentile(values, 10)
    assert high > np.percentile(values, 90)
    assert middle == pytest.approx(np.median(values))


def test_one_fold_has_its_percentiles_and_no_check():
    values = np.linspace(-0.5, 0.5, 101).tolist()
    assert residuals.band([values]) == pytest.approx((-0.4, 0.0, 0.4))
    assert math.isnan(residuals.inside([values]))


@pytest.mark.parametrize(("common", "own"), [(0.0, 1.0), (1.0, 1.0), (2.0, 0.5)])
def test_correlation_is_part_of_variance_in_common(common, own):
    generator = np.random.default_rng(11)
    found = residuals.correlation(as_residuals(series(generator, 300, 10, common, own)))
    assert found == pytest.approx(common**2 / (common**2 + own**2), abs=0.06)


def test_one_program_counts_as_fully_correlated():
    assert residuals.correlation([Residual(value, "s", "t", "a") for value in (0.1, 0.2)]) == 1.0


def test_folds_are_sources_unless_one_has_most():
    even = [Residual(0.1 * n, f"source {n % 3}", f"series {n}", "p") for n in range(9)]
    unit, folds = residuals.folds_of(even)
    assert (unit, len(folds)) == ("sources", 3)
    unit, folds = residuals.folds_of([one._replace(source="one") for one in even])
    assert (unit, len(folds)) == ("series", 9)


def test_configurations_of_one_series_are_left_out_singly():
    values = [0.1 * n for n in range(30)]
    unit, folds = residuals.folds_of([Residual(value, "s", "t", "p") for value in values])
    assert unit == "configurations"
    assert folds == [[value] for value in values]
    assert 0.7 <= residuals.inside(folds) <= 0.9


def program(number, ratio):
    """A whole model of two ops, measured at `ratio` of the predicted throughput."""
    found = Row(2, "s", "t", "Bow", f"BERT-Large {number}", {}, "throughput", 1.0, "items/s")
    parts = (("dense products", 3.0), ("other", 1.0))
    return Prediction(found, "g", BOW, ratio, configuration=str(number), parts=parts)


def test_whole_models_are_compared_with_op_sums():
    held = [
        residuals.Checked(Interval("dense products", 0.9, 1.0, 1.1, 1.0, 10), "", math.nan),
        residuals.Checked(intervals.ALL._replace(correlation=1.0), "", math.nan),
    ]
    programs = [program(1, 1.0), program(2, 1.02), program(3, 3.0), program(4, 0.2)]
    found = residuals.sums(programs, held)
    assert found.startswith("50% of 4 configurations")
    assert "50% lie in the interval that is shown" in found
    assert residuals.sums([program(1, 1.0)._replace(parts=())], held) == ""
