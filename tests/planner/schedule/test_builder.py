"""Properties that the table of every schedule has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from tensorflow_ipu.planner.schedule import (
    Phase,
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
    build,
)
from tensorflow_ipu.planner.schedule import builder as slots_module
from tests.planner.schedule import strategies

# --- Stash depths: the closed form, published numbers, and a count in the table ---

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


# --- Properties that the table of every schedule has ---

_property = settings(derandomize=True, deadline=None, max_examples=150)


def _steps(schedule):
    """The step of each (phase, stage, mini-batch)."""
    return {(entry.phase, entry.stage, entry.mini_batch): entry.step for entry in schedule}


def _expected_work(description):
    """Every (phase, stage, mini-batch) that a pipeline has to do."""
    then = description.resolved_recomputation is RecomputationMode.RecomputeThenBackpropagate
    for stage in range(description.stages):
        for mini_batch in range(description.mini_batches):
            yield Phase.FORWARD, stage, mini_batch
            if description.training:
                yield Phase.BACKWARD, stage, mini_batch
            if then and stage < description.stages - 1:
                yield Phase.RECOMPUTE, stage, mini_batch
        if description.training:
            yield Phase.UPDATE, stage, -1


@_property
@given(strategies.descriptions())
def test_an_ipu_does_one_thing_at_a_time(description):
    cells = Counter((entry.step, entry.ipu) for entry in build(description))
    assert set(cells.values()) == {1}


@_property
@given(strategies.descriptions())
def test_work_runs_once_on_each_stage_ipu(description):
    done = Counter(
        (entry.phase, entry.stage, entry.mini_batch, entry.ipu) for entry in build(description)
    )
    expected = Counter(
        (*work, ipu)
        for work in _expected_work(description)
        for ipu in description.ipus_of_stages[work[1]]
    )
    assert done == expected


@_property
@given(strategies.descriptions())
def test_members_of_parallel_stage_run_at_same_step(description):
    schedule = build(description)
    steps = _steps(schedule)
    assert all(
        entry.step == steps[entry.phase, entry.stage, entry.mini_batch] for entry in schedule
    )


@_property
@given(strategies.descriptions())
def test_work_comes_after_what_it_needs(description):
    steps = _steps(build(description))
    last = description.stages - 1
    for (phase, stage, mini_batch), step in steps.items():
        needs = []
        if phase is Phase.FORWARD and stage > 0:
            needs.append((Phase.FORWARD, stage - 1, mini_batch))
        if phase in (Phase.BACKWARD, Phase.RECOMPUTE):
            needs.append((Phase.FORWARD, stage, mini_batch))
        if phase is Phase.BACKWARD and stage < last:
            needs.append((Phase.BACKWARD, stage + 1, mini_batch))
        if phase is Phase.BACKWARD and (Phase.RECOMPUTE, stage, mini_batch) in steps:
            needs.append((Phase.RECOMPUTE, stage, mini_batch))
        if phase is Phase.UPDATE:
            needs += [key for key in steps if key[0] is Phase.BACKWARD]
        assert all(steps[need] < step for need in needs)


@_property
@given(strategies.descriptions())
def test_mini_batches_are_in_order_in_each_stage(description):
    schedule = build(description)
    for stage in range(description.stages):
        for phase in (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD):
            steps = [
                step
                for (of, at, _), step in sorted(_steps(schedule).items())
                if (of, at) == (phase, stage)
            ]
            assert steps == sorted(set(steps))


@_property
@given(strategies.descriptions())
def test_steps_and_slots_have_work_without_overlap(description):
    schedule = build(description)
    steps, slots = schedule.table["step"], schedule.table["slot"]
    assert sorted(set(steps.tolist())) == list(range(schedule.steps))
    assert sorted(set(slots.tolist())) == list(range(slots.max() + 1))
    assert (np.diff(slots) >= 0).all()
    assert len(np.unique(np.stack([steps, slots]), axis=1).T) == schedule.steps


def _slots(description):
    """Returns the work of each slot."""
    work = {}
    for entry in build(description):
        work.setdefault(entry.slot, []).append(entry)
    return work


@_property
@given(strategies.descriptions(schedules=[PipelineSchedule.Grouped]))
def test_grouped_slot_has_one_direction(description):
    for work in _slots(description).values():
        directions = {entry.phase for entry in work} - {Phase.RECOMPUTE}
        assert len(directions) == 1


@_property
@given(strategies.descriptions(schedules=[PipelineSchedule.Sequential]))
def test_in_a_sequential_slot_one_stage_works(description):
    for work in _slots(description).values():
        assert len({entry.stage for entry in work}) == 1 or work[0].phase is Phase.UPDATE


@pytest.mark.parametrize("stages", [2, 3, 4, 7])
def test_in_interleaved_slots_neighbors_go_in_opposite_directions(stages):
    description = PipelineDescription(
        tuple(range(stages)), 3 * stages, schedule=PipelineSchedule.Interleaved
    )
    both = 0
    for work in _slots(description).values():
        phases = {entry.stage: entry.phase for entry in work}
        if Phase.UPDATE in phases.values():
            continue
        both += len(set(phases.values())) == 2
        assert all(phases[stage] != phases.get(stage + 1) for stage in phases)
    # In every slot from the first backward to the last forward pass; there are 2 a mini-batch.
    assert both == 2 * (description.count - 1)


@_property
@given(strategies.descriptions())
def test_only_recomputing_backward_passes_are_fused(description):
    mode = description.resolved_recomputation
    fused = mode is RecomputationMode.RecomputeAndBackpropagateInterleaved
    for entry in build(description):
        backward = entry.phase is Phase.BACKWARD and entry.stage < description.stages - 1
        assert entry.fused == (fused and backward)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("factor", [1, 2, 5])
def test_steps_and_bubble_follow_their_formulas(stages, factor):
    # Each phase passes through `count` mini-batches and fills and drains stages - 1 steps.
    count = 2 * stages * factor
    mapping = tuple(range(stages))
    for mode, steps in [
        (PipelineSchedule.Grouped, 2 * (count + stages - 1)),
        (PipelineSchedule.Interleaved, 2 * (count + stages - 1)),
        (PipelineSchedule.Sequential, 2 * count * stages),
    ]:
        schedule = build(PipelineDescription(mapping, count, schedule=mode))
        assert schedule.steps == steps + 1
        assert schedule.bubble_share == pytest.approx(1 - (2 * count + 1) / (steps + 1))
    inference = build(PipelineDescription(mapping, count, training=False))
    assert inference.steps == count + stages - 1
    assert inference.bubble_share == pytest.approx((stages - 1) / (count + stages - 1))


def test_one_ipu_is_never_idle():
    mode = PipelineSchedule.Sequential
    schedule = build(PipelineDescription((0, 0, 0), 5, schedule=mode))
    assert schedule.bubble_share == 0
    assert schedule.steps == 2 * 3 * 5 + 3


def test_serialized_mini_batches_follow_each_other_in_stage():
    schedule = build(
        PipelineDescription(
            (0, 0), 2, schedule=PipelineSchedule.Sequential, batch_serialization_iterations=2
        )
    )
    work = [(entry.phase.name[0], entry.stage, entry.mini_batch) for entry in schedule]
    once = [
        *[("F", 0, 0), ("F", 0, 1), ("F", 1, 0), ("F", 1, 1)],
        *[("B", 1, 0), ("B", 1, 1), ("B", 0, 0), ("B", 0, 1)],
    ]
    again = [(phase, stage, mini_batch + 2) for phase, stage, mini_batch in once]
    assert work == [*once, *again, ("U", 0, -1), ("U", 1, -1)]


def test_long_schedule_has_the_expected_length_and_stash():
    schedule = build(PipelineDescription((0, 1, 2, 3), 2048))
    assert len(schedule) == 4 * (2 * 2048 + 1)
    assert schedule.stash_depths() == (6, 4, 2, 0)


def test_equal_descriptions_give_equal_frozen_schedules():
    description = PipelineDescription((0, 1), 4)
    schedule = build(description)
    assert schedule == build(PipelineDescription.from_json(description.to_json()))
    assert schedule != build(PipelineDescription((0, 1), 8))
    with pytest.raises(ValueError):
        schedule.table["step"] = 0
