"""Groups of rows: coverage, noise floor, bounds and the headline."""

from __future__ import annotations

import pytest
from measured import judged
from measured.groups import BOUNDS, DENSE, NAMES, OTHER, Bounds, by_group
from measured.predict import Outcome
from measured.prediction import Prediction
from measured.rows import Row, parameters
from measured.statistics import statistics

from tensorflow_ipu.configs.chips import BOW


def row(workload, options="", value=10.0, chip="Bow", unit="us"):
    return Row(2, "s", "t", chip, workload, parameters(options), "time", value, unit)


def prediction(value, measured=10.0, workload="matmul", configuration=""):
    found = row(workload, "n=8", measured)
    return Prediction(found, "g", BOW, value, configuration=configuration)


def test_coverage_counts_rows_that_are_refused():
    refused = [(row("matmul"), "no size"), (row("matmul"), "left out: wrong")]
    outcome = Outcome([prediction(10.0), prediction(11.0)], [*refused, (row("other"), "unknown")])
    dense, other = judged.judged(outcome)
    assert (dense.name, dense.rows, dense.coverage) == (DENSE, 3, pytest.approx(2 / 3))
    assert (other.name, other.coverage) == (OTHER, 0)


def test_noise_floor_compares_rows_of_one_configuration():
    members = [
        prediction(9.0, measured, configuration=name)
        for measured, name in ((10.0, "a"), (10.5, "a"), (8.0, "b"), (9.0, ""), (90.0, ""))
    ]
    assert judged.noise_floor(members) == (pytest.approx(0.05), False)
    assert judged.noise_floor(members[2:]) is None


def test_noise_floor_prefers_other_sources():
    one, again, other = (prediction(9.0, value, configuration="a") for value in (10.0, 10.1, 11.0))
    other = other._replace(row=other.row._replace(source="another"))
    found = judged.noise_floor([one, again, other])
    assert found == (pytest.approx((11 / 10 + 11 / 10.1) / 2 - 1), True)
    assert "one source" in str(judged.noise_floor([one, again]))


@pytest.mark.parametrize(
    ("bounds", "misses"),
    [
        (Bounds(0.2, 0.5, 0.9), ()),
        (Bounds(0.1, 0.5), ("median",)),
        (Bounds(0.1, 0.1), ("median", "90th percentile")),
    ],
)
def test_bounds_that_are_missed_are_named(bounds, misses):
    found = statistics([prediction(value, value / 1.2) for value in (10.0, 20.0, 30.0)])
    assert judged.Judged("g", 3, found, None, bounds).misses == misses


def test_a_rank_that_is_too_low_is_missed():
    found = statistics([prediction(10.0, 10.0), prediction(10.1, 10.2), prediction(10.2, 10.1)])
    assert judged.Judged("g", 3, found, None, Bounds(0.1, 0.1, 0.9)).misses == ("rank",)


def test_the_headline_is_the_median_over_groups():
    many = [prediction(11.0) for _ in range(20)]
    few = [prediction(13.0, workload="sparse x dense matmul"), prediction(15.0, workload="other")]
    groups = judged.judged(Outcome([*many, *few], []))
    assert "median over 3 groups: median error 30.0 %" in judged.headline(groups)
    assert "bounds met in 0 of 1 groups" in judged.headline(groups)


def test_groups_have_the_order_of_the_table():
    rows = [row("other"), row("matmul"), row("broadcast, on chip")]
    assert list(by_group(rows)) == sorted(by_group(rows), key=NAMES.index)
    assert set(BOUNDS) <= set(NAMES)
