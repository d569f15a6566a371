"""Where measurements lie around predictions."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tensorflow_ipu.costs import catalogue, intervals
from tensorflow_ipu.costs.intervals import Interval

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
ONE = Interval("one", 0.8, 1.0, 1.25, 0.25, 10)
OTHER = Interval("other", 0.6, 1.1, 1.5, 1.0, 20)


def ends(interval):
    return interval.low, interval.middle, interval.high


def test_a_rate_is_the_inverse_of_a_time():
    assert ONE.of_time(100.0) == pytest.approx((80.0, 125.0))
    assert ONE.of_rate(100.0) == pytest.approx((80.0, 125.0))
    low, high = Interval("kind", 0.5, 1.0, 2.0, 0.0, 10).of_rate(10.0)
    assert (low, high) == (5.0, 20.0)


@pytest.mark.parametrize("interval", intervals.INTERVALS, ids=lambda one: one.kind)
def test_intervals_have_measurements_on_both_sides(interval):
    assert 0 < interval.low < interval.middle < interval.high
    assert 0 <= interval.correlation <= 1
    assert interval.configurations >= 10


@pytest.mark.parametrize(
    ("op_type", "interval"),
    [
        ("MatMul", intervals.PRODUCTS),
        ("BatchMatMulV2", intervals.BATCHED),
        ("Conv2DBackpropFilter", intervals.CONVOLUTIONS),
        ("DepthwiseConv2dNative", intervals.GROUPED),
        ("Relu", intervals.ELEMENTWISE),
        ("MaxPool", intervals.ELEMENTWISE),
        ("Transpose", intervals.EXCHANGE),
        ("Sum", intervals.EXCHANGE),
        ("link", intervals.LINKS),
        ("IpuCrossReplicaSum", intervals.ALL),
        ("Softmax", intervals.ALL),
        ("UserOp", intervals.ALL),
    ],
)
def test_op_types_take_the_interval_of_their_kind(op_type, interval):
    assert intervals.of_op(op_type) == interval


def test_every_op_type_has_an_interval():
    assert {intervals.of_op(op_type) for op_type in catalogue.RULES} <= set(intervals.INTERVALS)


def test_a_sum_of_one_op_has_its_interval():
    assert intervals.of_sum([(ONE, 500.0)]) == pytest.approx(ONE)
    assert ends(intervals.of_sum([(OTHER, 1.0)])) == pytest.approx(ends(OTHER))


def test_errors_in_common_remain_and_others_cancel():
    many = intervals.of_sum([(ONE, 1.0)] * 10_000)
    # A quarter of the variance is common, so half of the deviation remains.
    assert many.high - 1 == pytest.approx(0.5 * 0.25, rel=1e-3)
    assert 1 - many.low == pytest.approx(0.5 * 0.2, rel=1e-3)
    assert ends(intervals.of_sum([(OTHER, 1.0)] * 10_000)) == pytest.approx(ends(OTHER))


def test_kinds_deviate_independently():
    found = intervals.of_sum([(ONE, 30.0), (OTHER, 10.0)])
    assert found.kind == intervals.SUM
    assert found.middle == pytest.approx(0.75 + 0.25 * 1.1)
    assert found.high - found.middle == pytest.approx(math.hypot(0.75 * 0.25, 0.25 * 0.4))
    assert found.middle - found.low == pytest.approx(math.hypot(0.75 * 0.2, 0.25 * 0.5))


def test_parts_of_sum_may_come_in_any_order():
    parts = [(ONE, 3.0), (OTHER, 2.0), (ONE, 1.0)]
    forward, backward = intervals.of_sum(parts), intervals.of_sum(parts[::-1])
    assert ends(forward) == pytest.approx(ends(backward))


def test_simulated_sums_lie_in_their_interval():
    """Eight of ten sums of ops with normal errors, partly in common, lie in the interval."""
    generator, cycles = np.random.default_rng(5), np.array([5.0, 3.0, 1.0, 1.0])
    # The 90th percentile of a normal distribution is at 1.2816 of its deviation.
    spread, common = 0.1 / 1.2816, 0.4
    kind = Interval("kind", 0.9, 1.0, 1.1, common, 10)
    shared = generator.standard_normal((20_000, 1)) * math.sqrt(common)
    errors = shared + generator.standard_normal((20_000, 4)) * math.sqrt(1 - common)
    sums = (1 + spread * errors) @ cycles
    low, high = intervals.of_sum([(kind, part) for part in cycles]).of_time(float(cycles.sum()))
    assert np.mean((low <= sums) & (sums <= high)) == pytest.approx(0.8, abs=0.01)


def test_no_cycles_have_the_spread_of_all():
    assert intervals.of_sum([]) == intervals.of_sum([(ONE, 0.0)]) == intervals.ALL


def test_programs_are_no_surer_than_whole_models():
    sure = Interval("sure", 0.999, 1.0, 1.001, 0.0, 10)
    found = intervals.of_program([(sure, 1.0)])
    assert (found.low, found.high) == (intervals.WHOLE_MODELS.low, intervals.WHOLE_MODELS.high)
    wide = Interval("wide", 0.3, 1.0, 3.0, 1.0, 10)
    assert ends(intervals.of_program([(wide, 1.0)])) == pytest.approx(ends(wide))


def test_intervals_are_those_that_the_page_has_measured():
    page = PAGE.read_text(encoding="utf-8")
    for kind, *numbers, configurations in intervals.INTERVALS:
        cells = [kind, *(f"{number:.2f}" for number in numbers), str(configurations)]
        row = re.escape(f"| {' | '.join(cells)} |")
        assert re.search(row, page), f"run {intervals.SOURCE}: {kind} is not as on the page"
