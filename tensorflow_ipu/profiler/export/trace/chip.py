"""The tracks of an IPU: its layers, its slowest tile, its mean tile, and their waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tensorflow_ipu.planner.op_groups import group
from tensorflow_ipu.planner.plan import Plan, Segment
from tensorflow_ipu.planner.time.items import COMPUTE, IDLE, SYNC
from tensorflow_ipu.profiler.export.trace.scopes import nested
from tensorflow_ipu.profiler.export.trace.slices import (
    MOST_SLICES,
    Slice,
    Track,
    bounded,
    bounded_nested,
)
from tensorflow_ipu.profiler.export.trace.tile_use import TileUses

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
