"""Spans of a timeline: ops and transfers one after the other, under the layers they are in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorflow_ipu.planner.plan import Plan, Segment
from tensorflow_ipu.planner.time.items import CHIP_KINDS, IDLE
from tensorflow_ipu.profiler.views.operations import Operation
from tensorflow_ipu.profiler.views.trees import OP, LayerNode, path, positions

#: Most spans of all IPUs: shorter spans are merged, up to a share of the launch, until there are no
#: more.
MOST_SPANS = 20_000
# The first share of a launch below which spans are merged: less than a pixel of any screen.
_PIXEL = 1 / 16_384


class Span(NamedTuple):
    """An op, a transfer, a phase of a pipeline's stage, or a wait of an IPU.

    Args:
        start: cycles from the start of the launch.
        length: cycles.
        kind: `op`, or the kind of its segment if it is another; empty for several, merged.
        name: of the op, stage or transfer; the number of merged ones.
        row: position of its operation, None if it is not one.
        layer: position of its layer, None if it is in none.
        stage: pipeline stage, None outside of pipelines.
        mini_batch: of the pipeline, None outside.
        phase: phase of the pipeline stage.
        sync: cycles of it that tiles wait for each other, which come first.
        exchange: cycles of it that tiles exchange data, which come next.
        compute: cycles of it that tiles compute.
    """

    start: float
    length: float
    kind: str
    name: str
    row: int | None
    layer: int | None
    stage: int | None
    mini_batch: int | None
    phase: str
    sync: float
    exchange: float
    compute: float


class LayerSpan(NamedTuple):
    """A stretch of time in which an IPU works for a layer.

    Args:
        start: cycles from the start of the launch.
        length: cycles.
        depth: layers around it, from 1 for the outermost.
        layer: position of the layer.
    """

    start: float
    length: float
    depth: int
    layer: int


@dataclasses.dataclass(frozen=True)
class IpuSpans:
    """The spans of an IPU in a launch.

    Attributes:
        ipu: IPU within the replica.
        spans: Its spans, in order.
        layers: The layers of these spans, in order; outer ones before inner ones.
        merged: Number of spans that became parts of others.
    """

    ipu: int
    spans: tuple[Span, ...]
    layers: tuple[LayerSpan, ...]
    merged: int


def spans(
    plan: Plan, operations: Sequence[Operation], layers: Sequence[LayerNode], most: int = MOST_SPANS
) -> tuple[IpuSpans, ...]:
    """Returns the spans of each IPU in a launch, from the plan's timeline.

    Args:
        plan: memory and time of a program.
        operations: its operations with their cycles.
        layers: its layers.
        most: limit of spans; beyond it, neighbors too short to be visible are merged.
    """
    index = _Index(operations, layers)
    by_ipu: dict[int, list[Segment]] = {memory.ipu: [] for memory in plan.memory}
    for segment in plan.timeline.segments:
        by_ipu.setdefault(segment.ipu, []).append(segment)
    made = {ipu: _joined(segments, index) for ipu, segments in by_ipu.items()}
    shortest = _shortest(made.values(), plan.timeline.cycles, most)
    found = []
    for ipu, whole in made.items():
        kept = _merged(whole, shortest)
        nested = _layers(whole, layers, shortest)
        found.append(IpuSpans(ipu, tuple(kept), tuple(nested), len(whole) - len(kept)))
    return tuple(found)


class _Index:
    """The operation and the layer of segments."""

    def __init__(self, operations: Sequence[Operation], layers: Sequence[LayerNode]) -> None:
        self._of_op: dict[int, int] = {}
        self._of_name: dict[tuple[str, int], int] = {}
        for position, row in enumerate(operations):
            if row.op is not None:
                self._of_op.setdefault(row.op, position)
            else:
                self._of_name.setdefault((row.name, row.ipu), position)
                if row.peer is not None:
                    self._of_name.setdefault((row.name, row.peer), position)
        places = positions(layers)
        self.layers = [places.get(path(row.layer)) for row in operations]

    def row(self, segment: Segment) -> int | None:
        """Returns the position of the operation of a segment."""
        if segment.op is not None:
            return self._of_op.get(segment.op)
        return self._of_name.get((segment.name, segment.ipu))


def _joined(segments: Iterable[Segment], index: _Index) -> list[Span]:
    """Returns a span for each op, with its parts, and for each other segment."""
    found: list[Span] = []
    last: int | None = None  # the op of the last span, if more parts may come
    for segment in sorted(segments, key=lambda s: s.start):
        part = segment.kind if segment.op is not None and segment.kind in CHIP_KINDS else ""
        if part and segment.op == last:
            span = found[-1]
            cycles = getattr(span, part) + segment.cycles
            length = segment.start + segment.cycles - span.start
            found[-1] = span._replace(length=length, **{part: cycles})
            continue
        row = index.row(segment)
        numbers = {kind: segment.cycles if kind == part else 0.0 for kind in CHIP_KINDS}
        found.append(
            Span(
                segment.start,
                segment.cycles,
                OP if part else segment.kind,
                segment.name,
                row,
                None if row is None else index.layers[row],
                segment.stage,
                segment.mini_batch,
                segment.phase,
                **numbers,
            )
        )
        last = segment.op if part else None
    return found


def _shortest(made: Iterable[Sequence[Span]], total: float, most: int) -> float:
    """Returns the length below which spans are merged, 0 if there are few enough."""
    lists = list(made)
    if sum(map(len, lists)) <= most:
        return 0.0
    shortest = total * _PIXEL
    # Once spans as long as the launch are merged, one is left of each IPU.
    while sum(len(_merged(each, shortest)) for each in lists) > most and shortest <= total:
        shortest *= 2
    return shortest


def _merged(whole: Sequence[Span], shortest: float) -> list[Span]:
    """Returns spans with neighbors merged that are together shorter than a limit."""
    if not shortest:
        return list(whole)
    found: list[Span] = []
    counts: list[int] = []
    for span in whole:
        if found and span.length < shortest and found[-1].length < shortest:
            before = found[-1]
            counts[-1] += 1
            found[-1] = Span(
                before.start, span.start + span.length - before.start, "",
                f"{counts[-1]} operations", None,
                before.layer if before.layer == span.layer else None, before.stage, None, "",
                before.sync + span.sync, before.exchange + span.exchange,
                before.compute + span.compute,
            )  # fmt: skip
        else:
            found.append(span)
            counts.append(1)
    return found


def _layers(whole: Sequence[Span], layers: Sequence[LayerNode], shortest: float) -> list[LayerSpan]:
    """Returns the layers of spans, outer ones too; neighbors in one layer are together."""
    found: list[LayerSpan] = []
    open_: list[tuple[int, float]] = []  # layers that go on, with their starts
    end = 0.0

    def close(depth: int) -> None:
        while len(open_) > depth:
            layer, start = open_.pop()
            if end - start >= shortest:
                found.append(LayerSpan(start, end - start, len(open_) + 1, layer))

    for span in whole:
        if span.kind == IDLE:
            continue
        scopes = _path(span.layer, layers)
        same = 0
        while same < min(len(scopes), len(open_)) and open_[same][0] == scopes[same]:
            same += 1
        close(same)
        open_ += [(layer, span.start) for layer in scopes[same:]]
        end = span.start + span.length
    close(0)
    return sorted(found, key=lambda each: (each.start, each.depth))


def _path(layer: int | None, layers: Sequence[LayerNode]) -> list[int]:
    """Returns a layer and its outer layers, the outermost first, without the program."""
    found: list[int] = []
    while layer:
        found.append(layer)
        layer = layers[layer].parent
    return found[::-1]
