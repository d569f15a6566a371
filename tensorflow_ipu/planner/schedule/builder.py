"""The table of a schedule, from the formula of its slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.planner.schedule.description import (
    Phase,
    PipelineDescription,
    PipelineSchedule,
    RecomputationMode,
)
from tensorflow_ipu.planner.schedule.table import NO_MINI_BATCH, TABLE_TYPE, Schedule

# --- The formula of the slot in which a stage handles a mini-batch, for all schedules ---

# A mini-batch walks down the stages, `hop` slots from a stage to the next, turns round at the last
# stage and walks back at the same speed. A new one starts every `period` slots. With d the distance
# of stage s to the last stage,
#
#     turn(m)        = period * m + hop * (stages - 1)
#     forward(s, m)  = turn(m) - hop * d
#     backward(s, m) = turn(m) + 1 + hop * d
#
# A schedule is a choice of the two numbers:
#
#     schedule       period      hop   which makes
#     Grouped        2           2     forward passes in even slots, backward passes in odd ones
#     Interleaved    2           1     neighbours go forward and backward in turn
#     Sequential     2 * stages  1     the next mini-batch starts when the last one is done
#     (inference)    1, stages   1     every slot a forward pass; Sequential as above
#
# A mini-batch is in flight in stage s from its forward to its backward slot, that is for
# 2 * hop * d + 2 slots, so ceil((2 * hop * d + 2) / period) mini-batches are: 2d + 1 in Grouped,
# d + 1 in Interleaved, 1 in Sequential. One of them is being worked on; the stash holds the rest.
#
# A slot is a stretch of time after which all IPUs of the pipeline wait for each other. Stages of
# one IPU in the same slot run one after the other (`builder.py`).


class Pace(NamedTuple):
    """Period and hop of mini-batches, in slots.

    Args:
        period: slots from the start of a mini-batch to the start of the next.
        hop: slots that a mini-batch needs from a stage to the next.
    """

    period: int
    hop: int


def pace_of(description: PipelineDescription) -> Pace:
    """Returns the pace of a pipeline's schedule."""
    directions = 2 if description.training else 1
    if description.schedule is PipelineSchedule.Sequential:
        return Pace(directions * description.stages, 1)
    grouped = description.schedule is PipelineSchedule.Grouped
    return Pace(directions, directions if grouped else 1)


def forward_slots(description: PipelineDescription) -> np.ndarray:
    """Returns the slot of each forward pass, int64, by stage and mini-batch."""
    distance = _distances(description)[:, np.newaxis]
    return _serialized(description, _turns(description) - pace_of(description).hop * distance)


def backward_slots(description: PipelineDescription) -> np.ndarray:
    """Returns the slot of each backward pass, int64, by stage and mini-batch.

    Args:
        description: a pipeline that is trained.
    """
    distance = _distances(description)[:, np.newaxis]
    return _serialized(description, _turns(description) + 1 + pace_of(description).hop * distance)


def in_flight(description: PipelineDescription) -> tuple[int, ...]:
    """Returns the most mini-batches in flight in each stage, by the closed form.

    Exact. A mini-batch is in flight in a stage from the start of its forward pass there to the end
    of its backward pass. In inference it is as long as the stage works on it.
    """
    pace = pace_of(description)
    serialized = description.batch_serialization_iterations
    if not description.training:
        return (min(description.count, 1),) * description.stages
    lifetimes = 2 * pace.hop * _distances(description) + 2
    executions = np.minimum(-(-lifetimes // pace.period), description.count)
    return tuple((serialized * executions).tolist())


def stash_depths(description: PipelineDescription) -> tuple[int, ...]:
    """Returns the most mini-batches in the stash of each stage, by the closed form.

    Exact: the mini-batches in flight without the one being worked on. 2d in Grouped, d in
    Interleaved and 0 in Sequential, with d the distance to the last stage; batch serialization by b
    makes 0 into b - 1.
    """
    return tuple(max(number - 1, 0) for number in in_flight(description))


def _distances(description: PipelineDescription) -> np.ndarray:
    """Returns the distance of each stage to the last one."""
    return np.arange(description.stages - 1, -1, -1)


def _turns(description: PipelineDescription) -> np.ndarray:
    """Returns the slot of each mini-batch in the last stage."""
    period, hop = pace_of(description)
    return period * np.arange(description.count) + hop * (description.stages - 1)


def _serialized(description: PipelineDescription, slots: np.ndarray) -> np.ndarray:
    """Makes each slot into one for each mini-batch that a stage handles when it runs."""
    iterations = description.batch_serialization_iterations
    each = slots[:, :, np.newaxis] * iterations + np.arange(iterations)
    return each.reshape(description.stages, -1)


# --- The table of a schedule, from the formula of its slots ---


class _Visits(NamedTuple):
    """Times that a stage runs, as arrays of equal length.

    Args:
        slot: index of the slot, among those in which some stage runs.
        stage: the stage.
        mini_batch: the mini-batch.
        phase: `FORWARD`, `BACKWARD` or `UPDATE`.
        length: steps it takes: two if it recomputes first.
    """

    slot: np.ndarray
    stage: np.ndarray
    mini_batch: np.ndarray
    phase: np.ndarray
    length: np.ndarray


def build(description: PipelineDescription) -> Schedule:
    """Returns the schedule of one execution of a pipeline.

    Slots come from `forward_slots` and `backward_slots`; those in which no stage runs take no time
    and are left out. A slot has as many steps as its busiest IPU needs: stages that share an IPU
    run there one after the other, and a recomputation comes before its backward pass. The weights
    are updated in a slot of their own after all backward passes.

    Args:
        description: the pipeline. Whether the schedule supports its count is not checked here.
    """
    visits = _visits(description)
    step = _steps(description, visits)
    work = _rows(description, visits, step + visits.length - 1)
    again = visits.length == 2
    recomputation = _rows(description, _Visits(*(array[again] for array in visits)), step[again])
    recomputation["phase"] = Phase.RECOMPUTE
    table = np.concatenate([work, recomputation])
    mode = description.resolved_recomputation
    if mode is RecomputationMode.RecomputeAndBackpropagateInterleaved:
        not_last = table["stage"] < description.stages - 1
        table["fused"] = (table["phase"] == Phase.BACKWARD) & not_last
    table = table[np.lexsort((table["ipu"], table["step"]))]
    table.flags.writeable = False
    return Schedule(description, table)


def _visits(description: PipelineDescription) -> _Visits:
    """Returns all times that a stage runs, with slots counted without the empty ones."""
    stages, mini_batches = description.stages, description.mini_batches
    grids = [forward_slots(description)]
    if description.training:
        grids.append(backward_slots(description))
    slot = np.concatenate([grid.ravel() for grid in grids])
    phase = np.repeat([Phase.FORWARD, Phase.BACKWARD][: len(grids)], stages * mini_batches)
    stage = np.tile(np.repeat(np.arange(stages), mini_batches), len(grids))
    mini_batch = np.tile(np.arange(mini_batches), stages * len(grids))
    if description.training:
        after_all = slot.max(initial=-1) + 1
        slot = np.append(slot, np.full(stages, after_all))
        phase = np.append(phase, np.full(stages, Phase.UPDATE))
        stage = np.append(stage, np.arange(stages))
        mini_batch = np.append(mini_batch, np.full(stages, NO_MINI_BATCH))
    then = description.resolved_recomputation is RecomputationMode.RecomputeThenBackpropagate
    recomputes = then & (phase == Phase.BACKWARD) & (stage < stages - 1)
    index = np.unique(slot, return_inverse=True)[1]
    return _Visits(index, stage, mini_batch, phase, 1 + recomputes.astype(np.int64))


def _steps(description: PipelineDescription, visits: _Visits) -> np.ndarray:
    """Returns the first step of each visit."""
    number = visits.slot.max(initial=-1) + 1
    # Which stages run in a slot, and for how many steps. No schedule runs one twice in a slot.
    lengths = np.zeros((number, description.stages), np.int64)
    lengths[visits.slot, visits.stage] = visits.length
    # Few patterns differ: fill, drain, and those in between.
    patterns, pattern = np.unique(lengths, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    ipus = description.ipus_of_stages
    starts = np.array([_starts(row, ipus) for row in patterns.tolist()], np.int64)
    starts = starts.reshape(len(patterns), description.stages)
    widths = (starts + patterns).max(axis=1, initial=0)[pattern]
    first_steps = np.cumsum(widths) - widths
    return first_steps[visits.slot] + starts[pattern[visits.slot], visits.stage]


def _starts(lengths: Sequence[int], ipus: Sequence[Sequence[int]]) -> list[int]:
    """Returns the start of each stage in a slot: as soon as all its IPUs are free."""
    free: dict[int, int] = {}
    starts = []
    for length, of_stage in zip(lengths, ipus):
        start = max(free.get(ipu, 0) for ipu in of_stage) if length else 0
        starts.append(start)
        if length:
            free.update(dict.fromkeys(of_stage, start + length))
    return starts


def _rows(description: PipelineDescription, visits: _Visits, step: np.ndarray) -> np.ndarray:
    """Returns the rows of the table at the given steps, one for each IPU of a visit's stage."""
    ipus = description.ipus_of_stages
    numbers = np.array([len(of_stage) for of_stage in ipus])[visits.stage]
    visit = np.repeat(np.arange(len(numbers)), numbers)
    member = np.arange(len(visit)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    widest = max(map(len, ipus))
    by_member = np.array([[*of_stage, *[-1] * (widest - len(of_stage))] for of_stage in ipus])
    rows = np.zeros(len(visit), TABLE_TYPE)
    rows["slot"] = visits.slot[visit]
    rows["step"] = step[visit]
    rows["ipu"] = by_member[visits.stage[visit], member]
    rows["stage"] = visits.stage[visit]
    rows["mini_batch"] = visits.mini_batch[visit]
    rows["phase"] = visits.phase[visit]
    return rows
