"""Times of a schedule, from the cost of each stage."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Union

import numpy as np

from tensorflow_ipu.planner.schedule.description import Phase, PipelineDescription, members
from tensorflow_ipu.planner.schedule.table import Schedule, idle_share
from tensorflow_ipu.util.short_repr import shows

# Cycles of a stage, or of each member of a parallel stage.
StageCost = Union[float, tuple[float, ...]]


@dataclasses.dataclass(frozen=True)
class Costs:
    """Cycles of each stage for one mini-batch, by phase.

    Attributes:
        forward: Of forward passes, one number for each stage; a tuple for a parallel stage, with
            one for each entry of its device mapping.
        backward: Of backward passes; None if there are none.
        recompute: Of recomputations; None if they cost as much as the forward pass.
        update: Of one weight update; None if it costs nothing.
    """

    forward: Sequence[StageCost]
    backward: Sequence[StageCost] | None = None
    recompute: Sequence[StageCost] | None = None
    update: Sequence[StageCost] | None = None


@dataclasses.dataclass(frozen=True)
class Timing:
    """The times of one execution of a pipeline, in cycles from its start.

    Attributes:
        start: Start of each entry, float64, in the order of the schedule's table.
        end: End of each entry.
        total: Cycles of the execution.
        ipus: The IPUs that have a stage, in order.
        busy: Cycles that each of them works.
    """

    start: np.ndarray
    end: np.ndarray
    total: float
    ipus: tuple[int, ...]
    busy: tuple[float, ...]

    __repr__ = shows(
        lambda self: {
            "total": self.total,
            "ipus": self.ipus,
            "bubble_share": round(self.bubble_share, 4),
            "entries": len(self.start),
        }
    )

    @property
    def utilisation(self) -> tuple[float, ...]:
        """Busy share of the time of each IPU, 0 to 1."""
        return tuple(cycles / self.total if self.total else 0.0 for cycles in self.busy)

    @property
    def bubble_share(self) -> float:
        """Idle share of the IPUs' time, 0 to 1."""
        return idle_share(self.busy, self.total)


def unit_costs(description: PipelineDescription) -> Costs:
    """Returns costs of one cycle for each entry of a schedule."""
    ones = tuple(
        tuple(1.0 / device.count(ipu) for ipu in device) if isinstance(device, tuple) else 1.0
        for device in description.device_mapping
    )
    return Costs(ones, ones, ones, ones)


def timed(schedule: Schedule, costs: Costs) -> Timing:
    """Returns start and end of each entry of a schedule, in cycles.

    Exact: the dependences of entries, the order on each IPU, and the sums. Modelled: the chip's
    IPUs wait for each other at the end of each slot and only there, so a slot lasts as long as its
    busiest IPU, which works off its entries back to back; copies between IPUs, feeds and waiting
    itself cost the cycles that the caller adds. A fused backward pass costs recomputation plus
    backward pass.

    Args:
        schedule: the schedule.
        costs: cycles of the stages.

    Returns:
        The times of one execution. `repeat_count` executions take that many times as long.

    Raises:
        ValueError: If the costs do not fit the schedule's stages.
    """
    table, description = schedule.table, schedule.description
    ipus = np.array(description.ipus)
    row = np.searchsorted(ipus, table["ipu"])
    duration = _durations(table, row, _matrix(description, costs))
    # The work of each IPU in each slot; entries are in the order of their steps.
    slots = int(table["slot"].max(initial=-1)) + 1
    work = np.zeros((slots, len(ipus)))
    np.add.at(work, (table["slot"], row), duration)
    length = work.max(axis=1)
    slot_start = np.cumsum(length) - length
    start = slot_start[table["slot"]] + _waits(table["slot"] * len(ipus) + row, duration)
    busy = tuple(work.sum(axis=0).tolist())
    return Timing(start, start + duration, float(length.sum()), description.ipus, busy)


def _durations(table: np.ndarray, row: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Returns the cycles of each entry."""
    recomputation = matrix[Phase.RECOMPUTE, table["stage"], row]
    return matrix[table["phase"], table["stage"], row] + np.where(
        table["fused"], recomputation, 0.0
    )


def _waits(group: np.ndarray, duration: np.ndarray) -> np.ndarray:
    """Returns the sum of the durations of the earlier members of each entry's group."""
    waits = np.zeros_like(duration)
    order = np.argsort(group, kind="stable")
    follows = np.flatnonzero(np.diff(group[order]) == 0)
    while follows.size:
        # In groups of more than two the sums arrive from one member to the next.
        before, after = order[follows], order[follows + 1]
        sums = waits[before] + duration[before]
        if np.array_equal(waits[after], sums):
            break
        waits[after] = sums
    return waits


def _matrix(description: PipelineDescription, costs: Costs) -> np.ndarray:
    """Returns the costs by phase, stage and used IPU; a phase without costs takes no time."""
    if description.training and costs.backward is None:
        raise ValueError("A pipeline that trains has backward passes: give Costs.backward.")
    by_phase = {
        Phase.FORWARD: costs.forward,
        Phase.RECOMPUTE: costs.forward if costs.recompute is None else costs.recompute,
        Phase.BACKWARD: costs.backward,
        Phase.UPDATE: costs.update,
    }
    matrix = np.zeros((len(Phase), description.stages, len(description.ipus)))
    for phase, of_stages in by_phase.items():
        if of_stages is not None:
            _fill(matrix[phase], description, of_stages, phase.name.lower())
    return matrix


def _fill(
    matrix: np.ndarray, description: PipelineDescription, costs: Sequence[StageCost], phase: str
) -> None:
    """Adds the costs of a phase to its stages and IPUs."""
    if len(costs) != description.stages:
        raise ValueError(
            f"The {phase} costs have {len(costs)} entries for {description.stages} stages: give "
            "one for each stage."
        )
    for stage, (cost, device) in enumerate(zip(costs, description.device_mapping)):
        numbers = cost if isinstance(cost, tuple) else (cost,)
        if len(numbers) != len(members(device)):
            raise ValueError(
                f"The {phase} cost of stage {stage} is {cost}, but the stage is on {device}: give "
                "one number for each IPU."
            )
        if not all(0 <= number < math.inf for number in numbers):
            raise ValueError(
                f"The {phase} cost of stage {stage} is {cost}: give a number of cycles from 0."
            )
        for number, ipu in zip(numbers, members(device)):
            matrix[stage, description.ipus.index(ipu)] += number
