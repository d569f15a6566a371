"""Where measurements lie around predictions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorflow_ipu.costs import catalogue, intervals
from tensorflow_ipu.costs.intervals import Interval

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"


def test_a_rate_is_the_inverse_of_a_time():
    interval = Interval("kind", 0.8, 1.25, 10)
    assert interval.of_time(100.0) == pytest.approx((80.0, 125.0))
    assert interval.of_rate(100.0) == pytest.approx((80.0, 125.0))
    low, high = Interval("kind", 0.5, 2.0, 10).of_rate(10.0)
    assert (low, high) == (5.0, 20.0)


@pytest.mark.parametrize("interval", intervals.INTERVALS, ids=lambda one: one.kind)
def test_intervals_have_measurements_on_both_sides(interval):
    assert 0 < interval.low < interval.high
    assert interval.configurations >= 10


def test_ops_that_nobody_measured_take_the_spread_of_all():
    assert intervals.of_op("Conv2DBackpropFilter") == intervals.PRODUCTS
    assert intervals.of_op("MatMul") == intervals.of_op("BatchMatMulV2") == intervals.PRODUCTS
    assert intervals.of_op("Tanh") == intervals.of_op("UserOp") == intervals.ALL


def test_every_op_type_has_an_interval():
    assert {intervals.of_op(op_type) for op_type in catalogue.RULES} == {
        intervals.PRODUCTS,
        intervals.ALL,
    }


def test_the_intervals_are_those_that_the_page_has_measured():
    page = PAGE.read_text(encoding="utf-8")
    for kind, low, high, configurations in intervals.INTERVALS:
        row = re.escape(f"| {kind} | {low:.2f} | {high:.2f} | {configurations} |")
        assert re.search(row, page), f"run {intervals.SOURCE}: {kind} is not as on the page"
