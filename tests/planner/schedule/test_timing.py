"""Times of schedules, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tensorflow_ipu.planner.schedule import (
    Costs,
    Phase,
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
    build,
    timed,
    unit_costs,
)
from tests.planner.schedule import strategies

_property = settings(derandomize=True, deadline=None, max_examples=100)
_COSTS = Costs(forward=(1, 2), backward=(3, 4), update=(5, 0.5))


def test_a_grouped_schedule_by_hand():
    # IPU 0 F0 F1 .  F2 B0 F3 B1 .  B2 B3 U
    # IPU 1 .  F0 B0 F1 B1 F2 B2 F3 B3 .  U
    timing = timed(build(PipelineDescription((0, 1), 4)), _COSTS)
    assert timing.total == 1 + 2 + 4 + 2 + 4 + 2 + 4 + 2 + 4 + 3 + 5
    assert timing.ipus == (0, 1)
    assert timing.busy == (4 * 1 + 4 * 3 + 5, 4 * 2 + 4 * 4 + 0.5)
    assert timing.utilisation == pytest.approx((21 / 33, 24.5 / 33))
    assert timing.bubble_share == pytest.approx(1 - (21 + 24.5) / 66)
    assert timing.start[:4].tolist() == [0, 1, 1, 3]
    assert timing.end[:4].tolist() == [1, 2, 3, 7]


def test_a_recomputation_costs_a_forward_pass_unless_told():
    description = PipelineDescription(
        (0, 1), 4, recomputation=RecomputationMode.RecomputeThenBackpropagate
    )
    # In the four slots that have a recomputation IPU 0 takes 1 + 3 cycles; only in the last of
    # them, where IPU 1 is idle, is that more than before.
    assert timed(build(description), _COSTS).total == 33 + 1
    costs = Costs(_COSTS.forward, _COSTS.backward, recompute=(2, 0), update=_COSTS.update)
    assert timed(build(description), costs).total == 33 + 3 * (2 + 3 - 4) + 2


@pytest.mark.parametrize("mode", RecomputationMode)
def test_fused_recomputation_costs_as_much_as_separate(mode):
    description = PipelineDescription((0, 1, 2), 6, recomputation=mode)
    costs = Costs((1, 2, 3), (2, 4, 6))
    # A slot lasts as long as the slowest stage at work. Stage 2 is at work in all forward slots but
    # the first two, and in all backward slots but the last two.
    forward = 1 + 2 + 6 * 3
    backward = 6 * 6 + (4 + 2) + (2 + 1)
    assert timed(build(description), costs).total == forward + backward


@pytest.mark.parametrize("stages, count", [(2, 4), (4, 16), (5, 30)])
def test_interleaved_is_slower_with_longer_backward_pass(stages, count):
    forward, backward = 1.0, 2.0
    costs = Costs([forward] * stages, [backward] * stages)
    mapping = tuple(range(stages))
    total = {
        mode: timed(build(PipelineDescription(mapping, count, schedule=mode)), costs).total
        for mode in PipelineSchedule
    }
    # Slots of one kind each.
    assert total[PipelineSchedule.Grouped] == (count + stages - 1) * (forward + backward)
    # Only the first `stages` slots have no backward pass.
    slots = 2 * (count + stages - 1)
    assert total[PipelineSchedule.Interleaved] == stages * forward + (slots - stages) * backward
    assert total[PipelineSchedule.Sequential] == count * stages * (forward + backward)
    assert total[PipelineSchedule.Grouped] < total[PipelineSchedule.Interleaved]


def test_stages_of_one_ipu_add_up():
    # Light first and last stages on IPU 0, as models of language have.
    costs = Costs(forward=(1, 4, 4, 4, 2), backward=(2, 8, 8, 8, 4))
    mapping = (0, 1, 2, 3, 0)
    short, long = (
        timed(build(PipelineDescription(mapping, count)), costs).total for count in (10, 20)
    )
    assert long - short == 10 * (4 + 8)
    heavy = Costs(forward=(3, 4, 4, 4, 2), backward=(6, 8, 8, 8, 4))
    short, long = (
        timed(build(PipelineDescription(mapping, count)), heavy).total for count in (10, 20)
    )
    assert long - short == 10 * (3 + 2 + 6 + 4)


def test_members_of_parallel_stage_have_their_own_costs():
    description = PipelineDescription(
        (0, (1, 2, 1)), 2, training=False, schedule=PipelineSchedule.Sequential
    )
    timing = timed(build(description), Costs(forward=(1, (2, 3, 4))))
    assert timing.busy == (2, 2 * (2 + 4), 2 * 3)
    assert timing.total == 2 * (1 + 6)


def test_work_in_slot_is_done_back_to_back():
    description = PipelineDescription((0, 0, 0), 3, training=False)
    timing = timed(build(description), Costs(forward=(0.1, 0.2, 0.4)))
    np.testing.assert_allclose(timing.start[1:], timing.end[:-1], rtol=1e-12)
    assert timing.total == pytest.approx(3 * 0.7)


@_property
@given(strategies.descriptions(parallel=False))
def test_unit_costs_take_number_of_steps(description):
    schedule = build(description)
    costs = unit_costs(description)
    timing = timed(schedule, costs)
    fused = int(schedule.table["fused"].sum())
    if not fused:
        assert timing.total == schedule.steps
        assert timing.bubble_share == pytest.approx(schedule.bubble_share)
    assert sum(timing.busy) == pytest.approx(len(schedule) + fused)


@_property
@given(strategies.descriptions())
def test_ipu_entries_do_not_overlap_across_slots(description):
    schedule = build(description)
    timing = timed(schedule, unit_costs(description))
    for ipu in description.ipus:
        mine = schedule.table["ipu"] == ipu
        assert (timing.start[mine][1:] >= timing.end[mine][:-1] - 1e-9).all()
    slot = schedule.table["slot"]
    for number in range(1, slot.max() + 1):
        assert timing.start[slot == number].min() >= timing.end[slot < number].max() - 1e-9
    assert timing.end.max() == pytest.approx(timing.total)


def test_nothing_takes_no_time():
    description = PipelineDescription((0, 1), 0, training=False)
    timing = timed(build(description), unit_costs(description))
    assert timing.total == 0
    assert timing.utilisation == (0, 0)
    assert timing.bubble_share == 0


def test_a_phase_without_cost_takes_no_time():
    schedule = build(PipelineDescription((0, 1), 4))
    timing = timed(schedule, Costs((1, 1), (1, 1)))
    update = schedule.table["phase"] == Phase.UPDATE
    assert (timing.start[update] == timing.total).all()


@pytest.mark.parametrize(
    "costs, phrase",
    [
        (Costs((1, 1)), "give Costs.backward"),
        (Costs((1, 1, 1), (1, 1)), "The forward costs have 3 entries for 2 stages"),
        (Costs((1, 1), (1, (1, 1))), "backward cost of stage 1 is .* one number for each IPU"),
        (Costs((1, float("nan")), (1, 1)), "forward cost of stage 1 is nan: give a number"),
        (Costs((1, 1), (-1, 1)), "backward cost of stage 0 is -1: give a number of cycles"),
        (Costs((1, 1), (1, 1), update=(1,)), "The update costs have 1 entries for 2 stages"),
    ],
)
def test_costs_that_do_not_fit(costs, phrase):
    with pytest.raises(ValueError, match=phrase):
        timed(build(PipelineDescription((0, 1), 4)), costs)
