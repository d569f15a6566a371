"""Timeline of a launch: ops and transfers with their runs, its cycles, the segments of each IPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.memory.stash import CHEAP
from tensorflow_ipu.planner.plan import OpTime, Segment, Timeline, median_label
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.program.structure import BACKWARD, FORWARD
from tensorflow_ipu.planner.schedule import PipelineDescription, Timing
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import transfers
from tensorflow_ipu.planner.time.items import IDLE, Item, in_order, op_items, schedule, with_gaps
from tensorflow_ipu.planner.time.pipeline_time import (
    Parts,
    StageCosts,
    body,
    pipeline_time,
    recomputing,
    stage_costs,
)
from tensorflow_ipu.planner.time.transfers import Subject, Traffic
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.util import op_names

# --- Time of recomputing activations in a program without a pipeline ---


def recomputed(placed: PlacedWorkload, items: Sequence[Item]) -> list[Item]:
    """Returns items with cheap forward ops run twice, if there is a backward pass.

    Args:
        placed: the program, without a pipeline.
        items: ops and transfers with their cycles.
    """
    sections, ops = placed.sections, placed.workload.ops
    if BACKWARD not in sections:
        return list(items)
    return [
        item._replace(runs=2 * item.runs)
        if item.op is not None and sections[item.op] == FORWARD and ops[item.op].type in CHEAP
        else item
        for item in items
    ]


# --- Ops and transfers of a launch with their runs ---


def items(placed: PlacedWorkload, settings: Settings, costs: Sequence[Cost]) -> list[Item]:
    """Returns the ops and transfers of a launch, in the order of the program.

    Args:
        placed: the program.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        Ops and transfers with all their runs in a launch; in a pipeline without recomputation and
        counters of mini-batches. Transfers beside the computation have only the run that IPUs wait
        for.
    """
    _, found = collect(placed, settings, costs)
    if placed.pipeline is not None:
        workload, pipeline = placed.relocated, as_run(placed.pipeline, settings)
        inside = body(workload)
        found = in_body(found, inside[0])
        stages = stage_costs(workload, pipeline, between(found, inside), settings.chip)
        found = counted(found, stages, inside)
    return in_order(found)


def collect(
    placed: PlacedWorkload, settings: Settings, costs: Sequence[Cost]
) -> tuple[Traffic, list[Item]]:
    """Returns the transfers of a launch, and all items that take time in it.

    Args:
        placed: the program.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.
    """
    workload = placed.relocated
    subject, traffic = Subject(workload, settings), Traffic()
    for add in (
        transfers.add_host_transfers,
        transfers.add_collectives,
        transfers.add_copies,
        transfers.add_streaming_transfers,
    ):
        add(subject, traffic)
    found = op_items(workload, costs, op_names.TRANSFERS) + traffic.items
    found = _taken(workload, found)
    if placed.pipeline is None and settings.recompute:
        found = recomputed(placed, found)
    return traffic, found


def as_run(description: PipelineDescription, settings: Settings) -> PipelineDescription:
    """Returns a pipeline as it is run: settings may add recomputation.

    Args:
        description: the pipeline.
        settings: chip, replicas and options.
    """
    return recomputing(description) if settings.recompute else description


def in_body(items: Sequence[Item], begin: int) -> list[Item]:
    """Returns the items, with items of a stage that no op makes in the pipeline's loop.

    Copies of variables are such items.

    Args:
        items: of the whole program.
        begin: position of the loop's first op.
    """
    return [
        item._replace(position=begin) if item.stage is not None and item.position < 0 else item
        for item in items
    ]


def between(items: Sequence[Item], inside: tuple[int, int]) -> list[Item]:
    """Returns the items at some positions.

    Args:
        items: of the whole program.
        inside: first position, and one past the last.
    """
    return [item for item in items if inside[0] <= item.position < inside[1]]


def counted(items: Sequence[Item], stages: StageCosts, inside: tuple[int, int]) -> list[Item]:
    """Returns items with their runs in a launch of the present pipeline.

    Args:
        items: of the whole program.
        stages: costs of the pipeline's stages.
        inside: positions of the ops of its loop.
    """
    made = []
    for item in items:
        if not inside[0] <= item.position < inside[1]:
            made.append(item)
        elif not stages.is_counter(item):
            made.append(item._replace(runs=stages.runs(item)))
    return made


def _taken(workload: Workload, items: Sequence[Item]) -> list[Item]:
    """Returns the items without items of branches that are not counted."""
    if not any(op.branch for op in workload.ops):
        return list(items)
    cycles = np.zeros(len(workload.ops))
    for item in items:
        if 0 <= item.position < len(cycles):
            cycles[item.position] += item.cycles
    counted = structure.taken(workload, cycles)
    return [
        item for item in items if not 0 <= item.position < len(counted) or counted[item.position]
    ]


def plan(placed: PlacedWorkload, settings: Settings, costs: Sequence[Cost]) -> Timeline:
    """Times one launch of a program.

    Without a pipeline, ops come one after the other, on several IPUs as their data allow. A
    pipeline is timed by its schedule, and ops outside of it come before and after. Transfers beside
    the computation lengthen the launch only if they take longer than it.

    Args:
        placed: the program.
        settings: chip, replicas and options.
        costs: cost of each op with these settings.

    Returns:
        The timeline. Of a pipeline with more than `pipeline_time.MOST_ENTRIES` entries in a launch
        only the first and last entries have segments; sums are over all entries.
    """
    workload, chip = placed.relocated, settings.chip
    traffic, items = collect(placed, settings, costs)
    if placed.pipeline is None:
        return _timeline(workload, chip, traffic, _sequential(workload, items))
    pipeline = as_run(placed.pipeline, settings)
    return _timeline(workload, chip, traffic, _pipelined(workload, pipeline, items, chip))


@dataclasses.dataclass
class _Made:
    """Builder of a timeline.

    Attributes:
        segments: Of all IPUs.
        end: Cycles of the launch so far.
        by_ipu: Cycles of each IPU by kind and label.
        ops: Time of each op.
        timing: Of the pipeline.
        waited: Until when IPUs wait for transfers after that.
    """

    segments: list[Segment]
    end: float
    by_ipu: dict[int, Parts]
    ops: tuple[OpTime, ...]
    timing: Timing | None = None
    waited: dict[int, float] = dataclasses.field(default_factory=dict)

    def end_of(self, ipu: int) -> float:
        """Returns the cycles up to which an IPU waits for a transfer."""
        return self.waited.get(ipu, self.end)


def _sequential(workload: Workload, items: Sequence[Item]) -> _Made:
    """Returns the timeline of a program without a pipeline."""
    track = schedule(workload, items)
    segments = with_gaps(track.segments, range(workload.ipus), 0.0, track.end)
    return _Made(segments, track.end, _sums(track.segments), _op_times(items))


def _pipelined(
    workload: Workload, description: PipelineDescription, items: Sequence[Item], chip: Chip
) -> _Made:
    """Returns the timeline of a program with a pipeline."""
    begin, end = body(workload)
    items = in_body(items, begin)
    inside = between(items, (begin, end))
    pipeline = pipeline_time(stage_costs(workload, description, inside, chip))
    before = schedule(workload, [item for item in items if item.position < begin])
    middle = before.end + pipeline.total
    after = schedule(workload, [item for item in items if item.position >= end], middle)
    inner = pipeline.segments(workload, before.end)
    ipus = range(workload.ipus)
    by_ipu = _merged(_sums(before.segments), pipeline.by_ipu(), _sums(after.segments))
    return _Made(
        [
            *with_gaps(before.segments, ipus, 0.0, before.end),
            *inner,
            *with_gaps(after.segments, ipus, middle, after.end),
        ],
        after.end,
        by_ipu,
        _op_times(counted(items, pipeline.stages, (begin, end))),
        pipeline.timing,
    )


def _op_times(items: Sequence[Item]) -> tuple[OpTime, ...]:
    """Returns the time of each op."""
    return tuple(
        OpTime(item.op, item.ipu, item.cost, item.runs) for item in items if item.op is not None
    )


def _sums(segments: Sequence[Segment]) -> dict[int, Parts]:
    """Returns the cycles of each IPU by kind and label."""
    found: dict[int, Parts] = {}
    for segment in segments:
        parts = found.setdefault(segment.ipu, {})
        key = segment.kind, segment.label
        parts[key] = parts.get(key, 0.0) + segment.cycles
    return found


def _merged(*found: Mapping[int, Parts]) -> dict[int, Parts]:
    """Returns the sums of several sums."""
    merged: dict[int, Parts] = {}
    for by_ipu in found:
        for ipu, parts in by_ipu.items():
            whole = merged.setdefault(ipu, {})
            for key, cycles in parts.items():
                whole[key] = whole.get(key, 0.0) + cycles
    return merged


def _timeline(workload: Workload, chip: Chip, traffic: Traffic, made: _Made) -> Timeline:
    """Closes the timeline: waits for hidden transfers, idle times, sums."""
    ipus = sorted({*range(max(workload.ipus, 1)), *made.by_ipu})
    total = _with_hidden(traffic, made)
    sums = {ipu: sum(made.by_ipu.get(ipu, {}).values()) for ipu in ipus}
    busiest = max(ipus, key=lambda ipu: (sums[ipu], -ipu))
    by_kind: dict[str, float] = {}
    by_label: dict[Label, float] = {}
    for (kind, label), cycles in made.by_ipu.get(busiest, {}).items():
        by_kind[kind] = by_kind.get(kind, 0.0) + cycles
        by_label[label] = by_label.get(label, 0.0) + cycles
    idle = total - sums[busiest]
    if idle > 1e-9 * total:
        by_kind[IDLE] = idle
    return Timeline(
        total,
        chip.clock,
        by_kind,
        made.ops,
        tuple(made.segments),
        tuple(traffic.transfers),
        made.timing,
        median_label(by_label),
        by_label,
    )


def _with_hidden(traffic: Traffic, made: _Made) -> float:
    """Extends the launch to the end of the longest transfer beside the computation."""
    total = made.end
    for (ipu, kind), cost in traffic.hidden.items():
        # Transfers in and out, of host and streaming memory, do not wait for each other.
        at = made.end_of(ipu)
        if cost.cycles > at:
            of, label = kind.split()[0], cost.label
            wait = cost.cycles - at
            made.segments.append(Segment(ipu, of, kind, at, wait, None, None, "", None, label))
            parts = made.by_ipu.setdefault(ipu, {})
            parts[of, label] = parts.get((of, label), 0.0) + wait
            made.waited[ipu] = total = max(total, cost.cycles)
    return total
