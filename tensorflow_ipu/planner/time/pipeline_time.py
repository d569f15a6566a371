"""Costs of pipeline stages by mini-batch, and the time of a pipeline by its schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.exchange import sync_cycles
from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Segment
from tensorflow_ipu.planner.program.structure import UPDATE, enclosing, is_container
from tensorflow_ipu.planner.schedule import (
    Costs,
    Phase,
    PipelineDescription,
    RecomputationMode,
    Schedule,
    Timing,
    build,
    timed,
)
from tensorflow_ipu.planner.schedule.description import members
from tensorflow_ipu.planner.time.items import (
    CHIP_KINDS,
    COLLECTIVE,
    HOST,
    LINK,
    STREAMING,
    SYNC,
    Item,
    with_gaps,
)
from tensorflow_ipu.planner.workload import Op, Workload

# --- Costs of one mini-batch in each pipeline stage, by phase, IPU and kind ---

_PHASES = {"": Phase.FORWARD, "backward": Phase.BACKWARD, UPDATE: Phase.UPDATE}


# Cycles by kind and label.
Parts = dict[tuple[str, Label], float]


def recomputing(description: PipelineDescription) -> PipelineDescription:
    """Returns a pipeline that recomputes activations, even if the program keeps them.

    Args:
        description: the pipeline. If it does not train, or recomputes already, it is returned
            unchanged.
    """
    if not description.training or description.recomputation is not None:
        return description
    return dataclasses.replace(description, recomputation=RecomputationMode.Auto)


@dataclasses.dataclass
class StageCosts:
    """Cycles of the stages of a pipeline.

    Attributes:
        description: The pipeline.
        per_batch: Runs in one launch, as compiled, of an op that runs once for a mini-batch.
        per_update: Runs in one launch, as compiled, of an op that runs once for an update.
        parts: Of each phase, stage and IPU, the cycles of one run by kind and label.
    """

    description: PipelineDescription
    per_batch: int = 1
    per_update: int = 1
    parts: dict[tuple[Phase, int, int], Parts] = dataclasses.field(default_factory=dict)

    def share(self, item: Item) -> float:
        """Returns the runs of an item in one run of its stage."""
        return item.runs / (self.per_update if item.phase == UPDATE else self.per_batch)

    def is_counter(self, item: Item) -> bool:
        """Returns whether an item of the loop is in no stage and no update."""
        if item.stage is not None:
            return False
        each_batch = item.runs >= self.per_batch > self.per_update
        return item.phase != UPDATE or each_batch

    def runs(self, item: Item) -> int:
        """Returns the runs of an item in one launch, without recomputation."""
        visits = self.description.repeat_count
        if item.phase != UPDATE:
            visits *= self.description.mini_batches
        return round(self.share(item) * visits)

    def cycles(self, phase: Phase, stage: int, ipu: int) -> float:
        """Returns the cycles of one run of a stage on an IPU."""
        return sum(self.parts.get((phase, stage, ipu), {}).values())

    def costs(self) -> Costs:
        """Returns the cycles of each stage and phase, the input of a schedule's timing."""
        recomputes = self.description.resolved_recomputation is not None
        phases = {phase: self._of_stages(phase) for phase in Phase}
        zeros = tuple(
            tuple(0.0 for _ in device) if isinstance(device, tuple) else 0.0
            for device in self.description.device_mapping
        )
        return Costs(
            phases[Phase.FORWARD],
            phases[Phase.BACKWARD] if self.description.training else None,
            phases[Phase.RECOMPUTE] if recomputes else zeros,
            phases[Phase.UPDATE],
        )

    def add(self, key: tuple[Phase, int, int], kind: str, label: Label, cycles: float) -> None:
        """Adds cycles to a run of a stage on an IPU."""
        parts = self.parts.setdefault(key, {})
        parts[kind, label] = parts.get((kind, label), 0.0) + cycles

    def _of_stages(self, phase: Phase) -> tuple[float | tuple[float, ...], ...]:
        """Returns the cycles of a phase in the form of the device mapping."""
        made: list[float | tuple[float, ...]] = []
        for stage, device in enumerate(self.description.device_mapping):
            ipus = members(device)
            # Members of a parallel stage on one IPU are counted together.
            numbers = tuple(
                0.0 if ipu in ipus[:place] else self.cycles(phase, stage, ipu)
                for place, ipu in enumerate(ipus)
            )
            made.append(numbers if isinstance(device, tuple) else numbers[0])
        return tuple(made)


def body(workload: Workload) -> tuple[int, int]:
    """Returns the range of ops of the loop over mini-batches, the body of a pipeline.

    Args:
        workload: the program.
    """
    staged = [index for index, op in enumerate(workload.ops) if op.stage is not None]
    if not staged:
        return len(workload.ops), len(workload.ops)
    begin, end = enclosing(workload.ops, staged)
    if (begin, end) == (0, len(workload.ops)):
        return staged[0], max(staged[-1] + 1, workload.ops[staged[-1]].end)
    return begin, end


def stage_costs(
    workload: Workload, description: PipelineDescription, items: Iterable[Item], chip: Chip
) -> StageCosts:
    """Adds up the items of the loop over mini-batches.

    A run of a stage has all items of its phase once, and items of inner loops once for each
    iteration. A recomputation has the ops of the forward pass. A copy counts on the IPU that sends
    it: others send and receive at the same time. All IPUs wait for each other once per run.
    Counters of mini-batches are free, as the schedule is fixed when the program is compiled.

    Args:
        workload: the program.
        description: its pipeline.
        items: the items in the loop.
        chip: the chip.
    """
    found = StageCosts(description, *_bases(workload))
    recomputes = description.resolved_recomputation is not None
    for item in items:
        if found.is_counter(item):
            continue
        # Without training there are no other passes: stages may be backward passes themselves.
        phase = _PHASES.get(item.phase, Phase.FORWARD) if description.training else Phase.FORWARD
        stage, ipu = _place(item, description)
        times = found.share(item)
        again = recomputes and phase is Phase.FORWARD and not item.kind
        again = again and stage < description.stages - 1
        for kind, cycles in item.parts:
            found.add((phase, stage, ipu), kind, item.cost.label, cycles * times)
            if again:
                key = (Phase.RECOMPUTE, stage, ipu)
                found.add(key, kind, item.cost.label, cycles * times)
    _add_syncs(found, chip)
    return found


def _add_syncs(found: StageCosts, chip: Chip) -> None:
    """Adds the waiting of IPUs for each other to each forward and backward pass."""
    description = found.description
    ipus = len(description.ipus)
    if ipus < 2:
        return
    cycles = sync_cycles(ipus, chip)
    phases = (Phase.FORWARD, Phase.BACKWARD) if description.training else (Phase.FORWARD,)
    for phase in phases:
        for stage, of_stage in enumerate(description.ipus_of_stages):
            for ipu in of_stage:
                found.add((phase, stage, ipu), SYNC, Label.MODELLED, cycles)


def _bases(workload: Workload) -> tuple[int, int]:
    """Returns the runs in one launch of ops that run once per mini-batch, and once per update.

    They are the fewest that any op of the stages, or of the update, has. They are read off the ops
    and not the pipeline, as the latter may have been given another count; and updates, which are in
    a branch, may be counted as if taken in each mini-batch.
    """
    begin, end = body(workload)
    inside = [
        op
        for index, op in enumerate(workload.ops[begin:end], begin)
        if op.runs > 0 and not is_container(index, op)
    ]
    passes = _fewest(op for op in inside if op.stage is not None and op.phase != UPDATE)
    return passes, _fewest(op for op in inside if op.phase == UPDATE)


def _fewest(ops: Iterable[Op]) -> int:
    return min((op.runs for op in ops), default=1)


def _place(item: Item, description: PipelineDescription) -> tuple[int, int]:
    """Returns stage and IPU of an item: its stage's present IPU, the one it names of several."""
    ipus: Sequence[Sequence[int]] = description.ipus_of_stages
    stage = item.stage
    if stage is None:
        stage = next((s for s, of_stage in enumerate(ipus) if item.ipu in of_stage), 0)
    stage = min(stage, description.stages - 1)
    return stage, item.ipu if item.ipu in ipus[stage] else ipus[stage][0]


# --- Time of a pipeline by its schedule ---

#: Most entries of the schedule, of all executions, that get segments. Longer ones show about half
#: as many at each end, in whole slots.
MOST_ENTRIES = 2000


_PHASE_NAMES = {
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
                yield Segment(
                    ipu, kind, name, at, cycles, None, stage, _PHASE_NAMES[done], batch, label
                )
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
