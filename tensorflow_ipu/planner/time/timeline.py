"""Timeline of a launch: its cycles, and the segments of each IPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import OpTime, Segment, Timeline, median_label
from tensorflow_ipu.planner.program.placed_workload import PlacedWorkload
from tensorflow_ipu.planner.schedule import PipelineDescription, Timing
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import work
from tensorflow_ipu.planner.time.items import IDLE, Item, schedule, with_gaps
from tensorflow_ipu.planner.time.pipeline_time import Parts, body, pipeline_time, stage_costs
from tensorflow_ipu.planner.time.transfers import Traffic
from tensorflow_ipu.planner.workload import Workload


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
    traffic, items = work.collect(placed, settings, costs)
    if placed.pipeline is None:
        return _timeline(workload, chip, traffic, _sequential(workload, items))
    pipeline = work.as_run(placed.pipeline, settings)
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
    items = work.in_body(items, begin)
    inside = work.between(items, (begin, end))
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
        _op_times(work.counted(items, pipeline.stages, (begin, end))),
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
