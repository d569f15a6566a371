"""Plots of the HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorflow_ipu.planner.plan import IpuMemory, Segment
from tensorflow_ipu.profiler import breakdown
from tensorflow_ipu.profiler.export import svg
from tensorflow_ipu.profiler.export.chrome_trace import thinned
from tensorflow_ipu.text import human_bytes, human_count

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

_COLUMNS = 400
_POINTS = 600
_TYPES, _LAYERS, _TRANSFERS = 15, 25, 15
_SERIES = len(svg.COLORS)
_ROW = 30
# Colors of the timeline. A pipeline's work is told by its phase.
WORK = ("forward", "backward", "recompute", "update", "exchange", "sync", "other IPUs", "host")
_PLACES = {
    "exchange": "exchange",
    "sync": "sync",
    "link": "other IPUs",
    "collective": "other IPUs",
    "host": "host",
    "streaming": "host",
}


def bytes_text(value: float) -> str:
    """Returns bytes for people."""
    return human_bytes(round(value))


def count_text(value: float) -> str:
    """Returns a count for people."""
    return human_count(round(value))


def memory_per_tile(memory: IpuMemory) -> str:
    """Returns what is on the tiles of an IPU, by category.

    Where there are more tiles than columns, a column shows the fullest of its tiles.

    Args:
        memory: of the IPU.
    """
    shown = thinned(memory.peak, _COLUMNS)
    always = sorted((c for c in memory.categories if c.always_live), key=lambda c: -c.total)
    other = sorted((c for c in memory.categories if not c.always_live), key=lambda c: -c.total)
    # What changes over the program is on top. There are only so many colors.
    room = max(1, _SERIES - len(other) - 1)
    kept = [*always[:room], *other] if len(always) > room else [*always, *other]
    names = [_with_life(category.name, category.always_live) for category in kept]
    layers = [category.tiles[shown].tolist() for category in kept]
    if len(always) > room:
        rest = sum(category.tiles[shown] for category in always[room:])
        names.insert(room, f"{len(always) - room} others")
        layers.insert(room, rest.tolist())
    title = f"Bytes on each tile of IPU {memory.ipu} at its peak"
    drawing = svg.areas(layers, memory.capacity, (title, "tile"), len(memory.peak), bytes_text)
    return svg.legend(names) + drawing


def liveness(memory: IpuMemory) -> str:
    """Returns what is live on an IPU over the program.

    Args:
        memory: of the IPU.
    """
    points = thinned(memory.live_bytes, _POINTS)
    always = [float(memory.always_live)] * len(points)
    other = memory.live_bytes[points].astype(float).tolist()
    title = f"Bytes live on IPU {memory.ipu} over the program"
    drawing = svg.areas(
        [always, other], None, (title, "op, in program order"), len(memory.live_bytes), bytes_text
    )
    return svg.legend(("always live", "not always live")) + drawing


def op_types(report: Report) -> str:
    """Returns the cycles of a launch by type of op.

    Args:
        report: the report.
    """
    names = ("compute", "exchange", "sync")
    rows = [
        (row.type, (row.compute, row.exchange, row.sync))
        for row in breakdown.type_rows(report.ops())[:_TYPES]
    ]
    return svg.legend(names) + svg.bars(rows, names, "Cycles by type of op", count_text)


def layers(report: Report) -> str:
    """Returns the cycles of a launch by layer.

    Args:
        report: the report.
    """
    names = ("forward", "backward", "update")
    found = sorted(report.layers(), key=lambda row: -row.cycles)[:_LAYERS]
    rows = [
        (row.layer, (row.forward_cycles, row.backward_cycles, row.update_cycles))
        for row in found
        if row.cycles
    ]
    return svg.legend(names) + svg.bars(rows, names, "Cycles by layer", count_text)


def host_io(report: Report) -> str:
    """Returns the bytes of transfers in a launch.

    Args:
        report: the report.
    """
    names = ("waited for", "while the IPU computes")
    transfers = report.plan.timeline.transfers
    largest = sorted(transfers, key=lambda t: -t.num_bytes * t.runs)[:_TRANSFERS]
    rows = []
    for transfer in largest:
        total = float(transfer.num_bytes * transfer.runs)
        parts = (0.0, total) if transfer.overlapped else (total, 0.0)
        rows.append((f"{transfer.name} ({transfer.kind}, IPU {transfer.ipu})", parts))
    return svg.legend(names) + svg.bars(rows, names, "Bytes moved in a launch", bytes_text)


def timeline(report: Report) -> str:
    """Returns what each IPU does over a launch.

    Args:
        report: the report.
    """
    total, ipus = report.plan.timeline.cycles, report.workload.ipus
    by_ipu: dict[int, list[Segment]] = {ipu: [] for ipu in range(ipus)}
    for segment in report.plan.timeline.segments:
        by_ipu.setdefault(segment.ipu, []).append(segment)
    parts = []
    for row, (ipu, segments) in enumerate(sorted(by_ipu.items())):
        y = svg.TOP + row * _ROW
        parts.append(svg.label(svg.LEFT - 8, y + 16, f"IPU {ipu}", "end"))
        parts += _track(segments, total, y)
    bottom = svg.TOP + len(by_ipu) * _ROW
    parts += _clock(total, bottom)
    drawing = svg.frame(bottom + svg.BOTTOM, "".join(parts), "What each IPU does in a launch")
    return svg.legend(WORK) + drawing


def kind_of_work(segment: Segment) -> str | None:
    """Returns what a segment is drawn as; None for idle time.

    Args:
        segment: of a timeline.
    """
    if segment.kind == "idle":
        return None
    if segment.kind in _PLACES:
        return _PLACES[segment.kind]
    return segment.phase if segment.phase in WORK else "forward"


def _with_life(name: str, always: bool) -> str:
    """Name of a category."""
    return name if always else f"{name} (not always live)"


def _track(segments: Sequence[Segment], total: float, y: float) -> list[str]:
    """The segments of an IPU: what is narrower than a column joins those beside it."""
    columns = svg.PLOT
    share = np.zeros((len(WORK), columns))
    for segment in segments:
        work = kind_of_work(segment)
        if work is not None and total:
            _add(share[WORK.index(work)], segment.start / total, segment.cycles / total)
    busy = share.sum(axis=0)
    most = np.where(busy >= 0.5, share.argmax(axis=0), -1)
    edges = [0, *(np.flatnonzero(np.diff(most)) + 1).tolist(), columns]
    drawn = []
    for start, end in zip(edges[:-1], edges[1:]):
        if most[start] >= 0:
            name = WORK[most[start]]
            text = f"{name}: cycles {total * start / columns:,.0f} to {total * end / columns:,.0f}"
            fill = svg.color(int(most[start]))
            drawn.append(svg.rectangle(svg.LEFT + start, y, end - start, _ROW - 8, fill, text))
    return drawn


def _add(row: np.ndarray, start: float, length: float) -> None:
    """Adds a stretch of the launch to the columns that it covers, in parts of a column."""
    columns = len(row)
    begin, end = start * columns, min((start + length) * columns, float(columns))
    first, last = int(begin), min(int(end), columns - 1)
    if first >= columns:
        return
    if first == last:
        row[first] += end - begin
        return
    row[first] += first + 1 - begin
    row[first + 1 : last] += 1
    row[last] += end - last


def _clock(total: float, bottom: float) -> list[str]:
    """Cycles below the timeline."""
    marks = [mark for mark in svg.ticks(total) if mark <= total]
    numbers = [
        svg.label(
            svg.LEFT + svg.PLOT * (mark / total if total else 0),
            bottom + 12,
            count_text(mark),
            "middle",
        )
        for mark in marks
    ]
    return [*numbers, svg.label(svg.LEFT + svg.PLOT / 2, bottom + 32, "cycles", "middle")]
