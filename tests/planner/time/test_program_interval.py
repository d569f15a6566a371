"""Where the measured time of a program lies around its plan."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs import intervals
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tests.support.planner.layered_workloads import dense

SETTINGS = Settings(chip=chips.MK2.with_tiles(64))


def plan_of(layers, **changes):
    return planning.plan(dense(layers, batch=32), SETTINGS.replace(**changes))


def test_a_program_has_the_interval_of_its_ops():
    plan = plan_of([256, 512])
    parts = [
        (intervals.of_op(plan.workload.ops[time.op].type), time.cycles)
        for time in plan.timeline.ops
    ]
    parts += [
        (intervals.of_op(one.kind), one.cycles * one.runs)
        for one in plan.timeline.transfers
        if not one.overlapped
    ]
    assert throughput.interval(plan)[1:4] == pytest.approx(intervals.of_program(parts)[1:4])


def test_equal_ops_have_equal_errors():
    # Layers of one shape repeat one error; layers of several shapes have their own.
    equal, different = plan_of([256] * 9), plan_of([200, 216, 232, 248, 264, 280, 296, 312, 320])
    spans = [found.high - found.low for found in map(throughput.interval, (equal, different))]
    assert spans[0] >= spans[1]


def test_ranges_of_rates_follow_from_the_interval():
    plan = plan_of([256] * 3)
    low, high = throughput.range_per_second(plan)
    found, rate = throughput.interval(plan), throughput.items_per_second(plan)
    assert (low, high) == pytest.approx((rate / found.high, rate / found.low))
    assert low < rate < high
