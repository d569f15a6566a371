"""The table of a schedule, from the formula of its slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.schedule import slots
from tensorflow_ipu.schedule.description import PipelineDescription
from tensorflow_ipu.schedule.modes import Phase, RecomputationMode
from tensorflow_ipu.schedule.table import NO_MINI_BATCH, TABLE_TYPE, Schedule


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

    Slots come from the formula in `slots.py`; those in which no stage runs take no time and are
    left out. A slot has as many steps as its busiest IPU needs: stages that share an IPU run there
    one after the other, and a recomputation comes before its backward pass. The weights are updated
    in a slot of their own after all backward passes.

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
    grids = [slots.forward_slots(description)]
    if description.training:
        grids.append(slots.backward_slots(description))
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
