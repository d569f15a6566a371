"""Stash depths: the closed form, published numbers, and a count in the table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tensorflow_ipu.schedule import Phase, PipelineDescription, PipelineSchedule, build
from tensorflow_ipu.schedule import slots as slots_module
from tests.schedule import strategies

_EXPECTED = {
    PipelineSchedule.Grouped: lambda distance: 2 * distance,
    PipelineSchedule.Interleaved: lambda distance: distance,
    PipelineSchedule.Sequential: lambda distance: 0,
}


def _counted(schedule):
    """Mini-batches in flight at most, counted entry by entry."""
    most = [0] * schedule.description.stages
    flying = [set() for _ in most]
    for entry in schedule:
        if entry.phase is Phase.FORWARD:
            flying[entry.stage].add(entry.mini_batch)
            most[entry.stage] = max(most[entry.stage], len(flying[entry.stage]))
        ends = Phase.BACKWARD if schedule.description.training else Phase.FORWARD
        if entry.phase is ends:
            # Members of a parallel stage end together.
            flying[entry.stage].discard(entry.mini_batch)
    return tuple(most)


@pytest.mark.parametrize("mode", PipelineSchedule)
@pytest.mark.parametrize("stages", range(1, 17))
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_stash_depths_are_those_of_the_specification(mode, stages, factor):
    description = PipelineDescription(tuple(range(stages)), 2 * stages * factor, schedule=mode)
    expected = tuple(_EXPECTED[mode](stages - 1 - stage) for stage in range(stages))
    assert slots_module.stash_depths(description) == expected
    assert build(description).stash_depths() == expected


@settings(derandomize=True, deadline=None, max_examples=200)
@given(strategies.descriptions())
def test_measured_closed_form_and_counted_depths_agree(description):
    schedule = build(description)
    assert schedule.in_flight() == slots_module.in_flight(description) == _counted(schedule)
    assert schedule.stash_depths() == slots_module.stash_depths(description)


def test_serialized_mini_batches_wait_for_each_other():
    description = PipelineDescription(
        (0, 0), 3, schedule=PipelineSchedule.Sequential, batch_serialization_iterations=4
    )
    assert slots_module.stash_depths(description) == (3, 3)


def test_nothing_is_stashed_in_inference():
    assert build(PipelineDescription((0, 1, 2), 6, training=False)).stash_depths() == (0, 0, 0)
