"""The tracks of a trace: layers, tiles and waits of an IPU, and the work of the host."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow_ipu.costs.chip.vertex import share
from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.rules.elementwise import computed_type
from tensorflow_ipu.planner.details import group
from tensorflow_ipu.planner.plan import OpTime, Plan, Segment
from tensorflow_ipu.planner.time.items import COMPUTE, IDLE, SYNC
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.profiler.host_activity import (
    COMPILE,
    LAUNCH,
    LOAD,
    NOT_RECORDED,
    OF_THREADS,
    TO_DEVICE,
    TO_HOST,
    HostActivity,
    HostSpan,
    ThreadSpan,
)

# --- Trace event format ---

#: An event, as data for JSON.
Event = dict[str, Any]


def about(what: str, process: int, thread: int, **args: Any) -> Event:
    """Returns the metadata event of a process or thread.

    Args:
        what: type of the fact, such as `thread_name`.
        process: id of the process.
        thread: id of the thread.
        **args: the fact.
    """
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def microseconds(nanoseconds: int) -> float:
    """Returns a time in microseconds that keeps its nanoseconds if a reader truncates.

    Args:
        nanoseconds: the time.
    """
    found = nanoseconds / 1000
    return found if int(found * 1000) == nanoseconds else math.nextafter(found, math.inf)


# --- Slices and tracks ---

#: Kind of a slice that stands for several short ones.
MERGED = "merged"

#: Slices of a track that are shown at most, unless a caller says otherwise.
MOST_SLICES = 20_000


class Slice(NamedTuple):
    """A stretch of time.

    Args:
        name: name of the work.
        kind: kind of segment, such as `compute`.
        start: start in cycles from the start of a launch.
        cycles: length.
        details: further facts as data for JSON.
    """

    name: str
    kind: str
    start: float
    cycles: float
    details: Mapping[str, Any]

    @property
    def end(self) -> float:
        """When it ends."""
        return self.start + self.cycles


class Track(NamedTuple):
    """Slices that are shown in a row.

    Args:
        name: name of the row.
        slices: in order of their start, an outer one before those inside it.
        hidden: number of further slices that are not shown on their own.
    """

    name: str
    slices: Sequence[Slice]
    hidden: int = 0


def bounded(name: str, slices: Sequence[Slice], most: int) -> Track:
    """Returns a track of at most `most` slices: short ones are merged with their neighbors.

    A merged slice has the cycles of each kind in its details, so sums are unchanged.

    Args:
        name: of the track.
        slices: in order of their start, none inside another.
        most: limit of its slices, at least 4.
    """
    if len(slices) <= most:
        return Track(name, slices)
    # Of slices and full groups that are this long there are at most a third of `most` each, and of
    # other groups at most one more than of slices.
    shortest = 3 * (max(s.end for s in slices) - slices[0].start) / (most - 1)
    kept: list[Slice] = []
    group: list[Slice] = []
    for one in slices:
        if one.cycles >= shortest:
            kept += _merged(group)
            kept.append(one)
            group = []
        else:
            group.append(one)
            if one.end - group[0].start >= shortest:
                kept += _merged(group)
                group = []
    kept += _merged(group)
    hidden = sum(s.details["slices"] for s in kept if s.kind == MERGED)
    return Track(name, kept, hidden)


def bounded_nested(name: str, slices: Sequence[Slice], most: int) -> Track:
    """Returns a track of at most `most` slices, the longest; others are part of outer ones.

    Args:
        name: of the track.
        slices: in order of their start, an outer one before those inside it.
        most: limit of its slices.
    """
    if len(slices) <= most:
        return Track(name, slices)
    lengths = sorted((s.cycles for s in slices), reverse=True)
    kept = [s for s in slices if s.cycles > lengths[most]]
    return Track(name, kept, len(slices) - len(kept))


def _merged(group: Sequence[Slice]) -> Iterable[Slice]:
    """Returns one slice instead of several short ones."""
    if len(group) <= 1:
        return group
    by_kind: dict[str, float] = {}
    for one in group:
        by_kind[one.kind] = by_kind.get(one.kind, 0.0) + one.cycles
    details = {
        "cycles": sum(by_kind.values()),
        "slices": len(group),
        "first": group[0].name,
        "last": group[-1].name,
        **{f"cycles of {kind}": cycles for kind, cycles in by_kind.items()},
    }
    start = group[0].start
    end = max(one.end for one in group)
    return [Slice(f"{len(group)} short slices", MERGED, start, end - start, details)]


# --- The process of the host ---

_NANOSECONDS = 1e9
_CLOCK = "wall time of the host since recording began; it says nothing of the chip"


def threads(host: HostActivity) -> dict[str, list[HostSpan]]:
    """Returns the spans of each thread of the host, by its name.

    Args:
        host: the recorded activity.
    """
    found = {COMPILE: host.of(COMPILE)}
    for ordinal in sorted({span.ordinal for span in host.of(LAUNCH, LOAD, TO_DEVICE, TO_HOST)}):
        device = f"/device:IPU:{ordinal}"
        found[f"launches, {device}"] = [s for s in host.of(LAUNCH) if s.ordinal == ordinal]
        moved = [s for s in host.of(LOAD, TO_DEVICE, TO_HOST) if s.ordinal == ordinal]
        found[f"loads and transfers, {device}"] = moved
    return found


def events(host: HostActivity | None, process: int) -> Iterator[Event]:
    """Yields the events of the host; none if nothing was recorded.

    Args:
        host: the recorded activity.
        process: id of the process that they are in.
    """
    if host is None:
        return
    yield about("process_name", process, 0, name="Host, measured")
    recorded = threads(host)
    for thread, (name, spans) in enumerate(recorded.items()):
        yield from _named(name, process, thread)
        for span in spans:
            yield _event(span, process, thread)
    for thread, traced in enumerate(host.threads or (), len(recorded)):
        yield from _named(f"thread {traced.name}", process, thread)
        for inner in traced.spans:
            yield _thread_event(inner, process, thread)


def about_host(host: HostActivity | None) -> dict[str, Any] | None:
    """Returns facts about the host's process: its clock, its start, and missing events.

    Args:
        host: the recorded activity.
    """
    if host is None:
        return None
    began = datetime.datetime.fromtimestamp(host.began).astimezone()
    not_recorded = [
        *NOT_RECORDED,
        *([OF_THREADS] if host.threads is None else []),
        *(["what came after the last event"] if host.full else []),
    ]
    return {
        "clock": _CLOCK,
        "began": began.isoformat(timespec="microseconds"),
        "seconds": host.seconds,
        "not recorded": not_recorded,
    }


def _named(name: str, process: int, thread: int) -> Iterator[Event]:
    """Yields the events for a thread's name and position."""
    yield about("thread_name", process, thread, name=name)
    yield about("thread_sort_index", process, thread, sort_index=thread)


def _thread_event(span: ThreadSpan, process: int, thread: int) -> Event:
    """Returns the event of a span of a thread."""
    begin, end = round(span.begin * _NANOSECONDS), round(span.end * _NANOSECONDS)
    return {
        "ph": "X",
        "name": span.name,
        "cat": "thread",
        "pid": process,
        "tid": thread,
        "ts": microseconds(begin),
        "dur": microseconds(max(end - begin, 0)),
        "args": {"label": "measured"},
    }


def _event(span: HostSpan, process: int, thread: int) -> Event:
    """Returns the event of a span of the host."""
    begin = round(span.begin * _NANOSECONDS)
    named = span.name if span.kind in (COMPILE, LAUNCH) else f"{span.kind}: {span.name}"
    event: Event = {
        "ph": "i",
        "s": "t",
        "name": named,
        "cat": span.kind,
        "pid": process,
        "tid": thread,
        "ts": microseconds(begin),
        "args": {"kind": span.kind, "label": "measured"},
    }
    if span.end is not None:
        length = max(round(span.end * _NANOSECONDS) - begin, 0)
        if span.is_mean:
            event["args"]["length"] = "mean of all launches of the program"
        del event["s"]
        event |= {"ph": "X", "dur": microseconds(length)}
    return event


# --- Use of tiles ---


class TileUse(NamedTuple):
    """Number and mean load of the tiles while the slowest of them computes. Modelled.

    Args:
        tiles: tiles that take part.
        mean: cycles of the mean of all compute tiles for each cycle of the slowest one, 0 to 1.
    """

    tiles: float
    mean: float


class TileUses:
    """The tiles that the ops, and the stages of a pipeline, use.

    An op whose cost has a partition uses the tiles of that, all for the same time. Another one is
    done where its largest tensor is, which is spread evenly over the tiles, and takes each tile as
    long as its share of that. Costs are made of the share of the fullest tile in the same way.

    Args:
        plan: memory and time of the program.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tiles = max(plan.settings.compute_tiles, 1)
        self._of_ops: dict[int, TileUse] = {}
        self._costs = {time.op: time.cost for time in plan.timeline.ops}
        self._of_stages = self._stages(plan.timeline.ops)

    def of(self, segment: Segment) -> TileUse:
        """Returns the use of tiles in a segment of computation.

        Args:
            segment: the stretch.
        """
        if segment.op is not None:
            return self._of_op(segment.op)
        if segment.stage is not None:
            key = segment.stage, segment.phase
            found = self._of_stages.get(key) or self._of_stages.get((segment.stage, ""))
            if found is not None:
                return found
        return TileUse(self._tiles, 1.0)

    def _of_op(self, index: int) -> TileUse:
        if index not in self._of_ops:
            op, cost = self._plan.workload.ops[index], self._costs.get(index)
            self._of_ops[index] = _use(op, cost, self._tiles)
        return self._of_ops[index]

    def _stages(self, times: tuple[OpTime, ...]) -> Mapping[tuple[int, str], TileUse]:
        """Returns the mean use of tiles in each stage and phase, weighted by compute cycles."""
        sums: dict[tuple[int, str], list[float]] = {}
        for time in times:
            op = self._plan.workload.ops[time.op]
            if op.stage is not None and time.cost.compute:
                weight, use = time.cost.compute * time.runs, self._of_op(time.op)
                total = sums.setdefault((op.stage, op.phase), [0.0, 0.0, 0.0])
                for at, value in enumerate((1.0, use.tiles, use.mean)):
                    total[at] += weight * value
        return {key: TileUse(t / weight, m / weight) for key, (weight, t, m) in sums.items()}


def _use(op: Op, cost: Cost | None, tiles: int) -> TileUse:
    """Returns the use of tiles while an op computes."""
    partition = None if cost is None else cost.partition
    if partition is not None:
        used = min(partition.tiles, tiles)
        return TileUse(used, used / tiles)
    whole = computed_type(op.spec)
    if not whole.elements:
        return TileUse(1, 1 / tiles)
    fullest = share(whole.elements, whole.element_size, tiles)
    return TileUse(-(-whole.elements // fullest), whole.elements / fullest / tiles)


# --- Nested name scopes ---

LAYER = "layer"


def nested(plan: Plan, segments: Sequence[Segment]) -> list[Slice]:
    """Returns the slices of name scopes of an IPU, by their start, outer ones first.

    A scope goes on as long as the IPU does nothing outside of it. In a pipeline it is a stage in
    one of its phases, with the mini-batch inside.

    Args:
        plan: of the program.
        segments: the work of the IPU, in order of the start.
    """
    found: list[_Scope] = []
    inside: list[_Scope] = []  # open scopes, from the outermost
    for segment in segments:
        path = _path(plan, segment)
        common = 0
        while common < min(len(path), len(inside)) and path[common] == inside[common].name:
            common += 1
        del inside[common:]
        for name in path[common:]:
            inside.append(_Scope(name, "/".join((*(s.name for s in inside), name)), segment.start))
            found.append(inside[-1])
        for scope in inside:
            scope.end = segment.start + segment.cycles
            scope.cycles += segment.cycles
    return [
        Slice(s.name, LAYER, s.start, s.end - s.start, {"scope": s.path, "cycles": s.cycles})
        for s in found
    ]


@dataclasses.dataclass
class _Scope:
    """A scope in the making.

    Attributes:
        name: Last part of its name.
        path: All of it.
        start: Its start in cycles.
        end: End of its segments so far.
        cycles: Cycles of its segments so far.
    """

    name: str
    path: str
    start: float
    end: float = 0.0
    cycles: float = 0.0


def _path(plan: Plan, segment: Segment) -> list[str]:
    """Returns the scopes of a segment from the outermost; none while the IPU is idle."""
    if segment.kind == IDLE:
        return []
    if segment.op is None:
        if segment.stage is None:
            return []
        batch = "" if segment.mini_batch is None else f"mini-batch {segment.mini_batch}"
        return [part for part in (f"{segment.name} {segment.phase or 'forward'}", batch) if part]
    op = plan.workload.ops[segment.op]
    path = op.name.split("/")[:-1]
    return path or [name for name in (group(op),) if name]


# --- Tracks of an IPU ---

SLOWEST = "slowest tile"
MEAN = "mean tile"
LAYERS = "layers"

#: Kind of a slice in which the mean tile waits for the slowest.
WAIT = "wait"


class Waits(NamedTuple):
    """Cycles of a launch that the tiles of an IPU compute and wait. Modelled.

    Args:
        mean_busy: of computation of the mean tile.
        wait: the mean tile waits for the slowest one.
        sync: all tiles synchronize.
    """

    mean_busy: float
    wait: float
    sync: float


class IpuTracks(NamedTuple):
    """The tracks of one IPU in a launch.

    Args:
        ipu: IPU within the replica.
        layers: name scopes, nested.
        slowest: slices of the slowest tile of each step.
        mean: slices of the mean tile.
        used: changes of the number of computing tiles: time in cycles, and the new number.
        waits: sums.
    """

    ipu: int
    layers: Track
    slowest: Track
    mean: Track
    used: Sequence[tuple[float, float]]
    waits: Waits


def tracks(plan: Plan, most: int = MOST_SLICES) -> list[IpuTracks]:
    """Returns the tracks of each IPU in a launch.

    Args:
        plan: memory and time of the program.
        most: slices that a track has at most.
    """
    by_ipu: dict[int, list[Segment]] = {ipu: [] for ipu in range(plan.workload.ipus)}
    for segment in plan.timeline.segments:
        by_ipu[segment.ipu].append(segment)
    uses = TileUses(plan)
    return [
        _tracks(plan, ipu, sorted(segments, key=lambda s: s.start), uses, most)
        for ipu, segments in by_ipu.items()
    ]


def _tracks(
    plan: Plan, ipu: int, segments: Sequence[Segment], uses: TileUses, most: int
) -> IpuTracks:
    """Returns the tracks of one IPU."""
    mean = [part for segment in segments for part in _of_mean_tile(segment, uses)]
    busy, wait, sync = (
        sum(part.cycles for part in mean if part.kind == kind) for kind in (COMPUTE, WAIT, SYNC)
    )
    return IpuTracks(
        ipu,
        bounded_nested(LAYERS, nested(plan, segments), most),
        bounded(SLOWEST, [_slice(plan, segment) for segment in segments], most),
        bounded(MEAN, mean, most),
        _used(segments, uses, most),
        Waits(busy, wait, sync),
    )


def _slice(plan: Plan, segment: Segment) -> Slice:
    """Returns the slice of the slowest tile for a segment."""
    details: dict[str, Any] = {"cycles": segment.cycles, "label": segment.label.value}
    if segment.op is not None:
        op = plan.workload.ops[segment.op]
        details.update({"type": op.type, "layer": group(op), "source": op.source, "runs": op.runs})
    if segment.stage is not None:
        details.update({"stage": segment.stage, "phase": segment.phase or "forward"})
    if segment.mini_batch is not None:
        details["mini_batch"] = segment.mini_batch
    name = segment.name or segment.kind
    return Slice(name, segment.kind, segment.start, segment.cycles, details)


def _of_mean_tile(segment: Segment, uses: TileUses) -> Iterator[Slice]:
    """Yields the slices of the mean tile: it computes for a part, and waits for the rest."""
    if segment.kind == IDLE:
        return
    name = segment.name or segment.kind
    if segment.kind != COMPUTE:
        exact = {"cycles": segment.cycles}
        yield Slice(name, segment.kind, segment.start, segment.cycles, exact)
        return
    use = uses.of(segment)
    busy = segment.cycles * use.mean
    tiles = {"tiles": round(use.tiles), "label": "modelled"}
    yield Slice(name, COMPUTE, segment.start, busy, {"cycles": busy, **tiles})
    wait = segment.cycles - busy
    if wait > 0:
        details = {"cycles": wait, "op": name, **tiles}
        yield Slice("wait for the slowest tile", WAIT, segment.start + busy, wait, details)


def _used(segments: Sequence[Segment], uses: TileUses, most: int) -> list[tuple[float, float]]:
    """Returns the changes of the number of computing tiles, thinned out if there are too many."""
    points: list[tuple[float, float]] = []
    for segment in segments:
        tiles = float(round(uses.of(segment).tiles)) if segment.kind == COMPUTE else 0.0
        if not points or points[-1][1] != tiles:
            points.append((segment.start, tiles))
    every = -(-len(points) // most)
    return points[::every]
