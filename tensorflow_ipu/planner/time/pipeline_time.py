"""Time of a pipeline by its schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Segment
from tensorflow_ipu.planner.time.items import CHIP_KINDS, COLLECTIVE, HOST, LINK, STREAMING
from tensorflow_ipu.planner.time.pipeline_costs import Parts, StageCosts
from tensorflow_ipu.planner.time.sequence import with_gaps
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.schedule import Phase, Schedule, Timing, build, timed

#: Most entries of the schedule, of all executions, that get segments. Longer ones show about half
#: as many at each end, in whole slots.
MOST_ENTRIES = 2000

_PHASES = {
    Phase.FORWARD: "",
    Phase.RECOMPUTE: "recompute",
    Phase.BACKWARD: "backward",
    Phase.UPDATE: "update",
}
# Order of kinds in a run of a stage.
_ORDER = (HOST, STREAMING, *CHIP_KINDS, COLLECTIVE, LINK)

_KEY = ("phase", "stage", "ipu", "fused")


class _Window(NamedTuple):
    """Entries that are shown, `first` to before `last`, from `begin` to `end` in cycles."""

    first: int
    last: int
    begin: float
    end: float


@dataclasses.dataclass(frozen=True)
class PipelineTime:
    """The time of all executions of a pipeline in a launch.

    Attributes:
        schedule: The schedule.
        timing: Times of one execution.
        stages: Costs of the stages.
    """

    schedule: Schedule
    timing: Timing
    stages: StageCosts

    @property
    def repeats(self) -> int:
        """Executions in one launch."""
        return self.stages.description.repeat_count

    @property
    def total(self) -> float:
        """Cycles of all executions."""
        return self.timing.total * self.repeats

    def by_ipu(self) -> dict[int, Parts]:
        """Returns the cycles of each IPU by kind and label, in all executions."""
        table = self.schedule.table
        columns = np.stack([table[name].astype(np.int64) for name in _KEY], axis=1)
        keys, counts = np.unique(columns, axis=0, return_counts=True)
        found: dict[int, Parts] = {ipu: {} for ipu in self.stages.description.ipus}
        for (phase, stage, ipu, fused), count in zip(keys.tolist(), counts.tolist()):
            for part in self._runs(Phase(phase), stage, ipu, bool(fused)):
                for key, cycles in part[1].items():
                    whole = found[ipu].get(key, 0.0)
                    found[ipu][key] = whole + cycles * count * self.repeats
        return found

    def segments(self, workload: Workload, start: float) -> list[Segment]:
        """Returns the segments of each IPU, mini-batch by mini-batch.

        Args:
            workload: the program.
            start: cycles at which the pipeline starts.
        """
        made: list[Segment] = []
        for window in self._windows():
            inside = [
                segment
                for number in range(window.first, window.last)
                for segment in self._entry(workload, number, start)
            ]
            ipus = self.stages.description.ipus
            made += with_gaps(inside, ipus, start + window.begin, start + window.end)
        return made

    def _entry(self, workload: Workload, number: int, start: float) -> Iterator[Segment]:
        """Yields the segments of one entry, counted over all executions."""
        repeat, row = divmod(number, len(self.schedule))
        _, _, ipu, stage, mini_batch, phase, fused = self.schedule.table[row].tolist()
        at = start + self._at(number)
        batch = mini_batch if mini_batch >= 0 else None
        name = _name(workload, stage)
        for done, parts in self._runs(Phase(phase), stage, ipu, fused):
            for kind, cycles, label in _by_kind(parts):
                yield Segment(ipu, kind, name, at, cycles, None, stage, _PHASES[done], batch, label)
                at += cycles

    def _windows(self) -> list[_Window]:
        """Returns the windows that are shown: all, or the first and the last slots."""
        number = len(self.schedule) * self.repeats
        if number <= MOST_ENTRIES:
            return [_Window(0, number, 0.0, self.total)]
        first = self._slot_start(MOST_ENTRIES // 2)
        last = self._slot_start(number - MOST_ENTRIES // 2)
        return [
            _Window(0, first, 0.0, self._at(first)),
            _Window(last, number, self._at(last), self.total),
        ]

    def _slot_start(self, number: int) -> int:
        """Returns the first entry of the slot of an entry, counted over all executions."""
        repeat, row = divmod(number, len(self.schedule))
        slots = self.schedule.table["slot"]
        return repeat * len(slots) + int(np.searchsorted(slots, slots[row], side="left"))

    def _at(self, number: int) -> float:
        """Returns the start of an entry in cycles, counted over all executions."""
        repeat, row = divmod(number, len(self.schedule))
        return repeat * self.timing.total + float(self.timing.start[row])

    def _runs(
        self, phase: Phase, stage: int, ipu: int, fused: bool
    ) -> Iterator[tuple[Phase, Parts]]:
        """Yields the phases of an entry: a fused entry recomputes, then goes backward."""
        for done in (Phase.RECOMPUTE, phase) if fused else (phase,):
            yield done, self.stages.parts.get((done, stage, ipu), {})


def pipeline_time(stages: StageCosts) -> PipelineTime:
    """Times a pipeline by its schedule.

    Args:
        stages: costs of its stages.
    """
    schedule = build(stages.description)
    return PipelineTime(schedule, timed(schedule, stages.costs()), stages)


def _by_kind(parts: Parts) -> list[tuple[str, float, Label]]:
    """Returns kinds in order with cycles and label."""
    found = []
    for kind in _ORDER:
        labels = {label: cycles for (of, label), cycles in parts.items() if of == kind}
        cycles = sum(labels.values())
        if cycles:
            found.append((kind, cycles, worst(labels)))
    return found


def _name(workload: Workload, stage: int) -> str:
    names = workload.stage_names
    return names[stage] if stage < len(names) else f"stage {stage}"
