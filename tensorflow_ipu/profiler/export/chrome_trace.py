"""Exports a report as a trace for Chrome and Perfetto.

One process for each IPU of a replica: a track of what it does, in microseconds of its clock, and a
counter of its memory. Further processes hold the transfers with the host and with streaming memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorflow_ipu.planner.op_groups import group
from tensorflow_ipu.planner.plan import IpuMemory, Segment, Timeline, Transfer

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

_MICROSECONDS = 1e6
_WORK, _ITEMS = 0, 1  # threads of the process of an IPU
_COUNTER_POINTS = 2000


def trace(report: Report, launches: int = 1) -> dict[str, Any]:
    """Returns a report as trace events.

    Args:
        report: the report.
        launches: how many launches to show, one after the other; all are alike.

    Returns:
        Data for JSON.
    """
    timeline = report.plan.timeline
    events = list(_metadata(report))
    for launch in range(launches):
        start = launch * timeline.seconds * _MICROSECONDS
        for segment in timeline.segments:
            events.append(_slice(segment, timeline, start, report))
        for memory in report.plan.memory:
            events += _counter(memory, timeline, start)
        events += _transfers(report, launch)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "program": report.name,
            "cycles": timeline.cycles,
            "clock": timeline.clock,
            "label": timeline.label.value,
            "made_by": "tensorflow_ipu: a model of the chip, not a measurement",
        },
    }


def to_json(report: Report, launches: int = 1) -> str:
    """Returns a report as the text of a trace file; arguments as of `trace`."""
    return json.dumps(trace(report, launches), separators=(",", ":"))


def io_process(report: Report) -> int:
    """Returns the id of the process that has the transfers: the one after those of the IPUs."""
    return report.workload.ipus


def _metadata(report: Report) -> Iterator[dict[str, Any]]:
    """Names of processes and threads."""
    ipus = report.workload.ipus
    for ipu in range(ipus):
        yield _name("process_name", ipu, 0, f"IPU {ipu} (each replica)")
        yield _name("thread_name", ipu, _WORK, "work")
    yield _name("process_name", io_process(report), 0, "Host and memory I/O")
    for thread, (kind, ipu) in enumerate(_transfer_tracks(report)):
        yield _name("thread_name", io_process(report), thread, f"{kind}, IPU {ipu}")


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    """The event that names a process or thread."""
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(segment: Segment, timeline: Timeline, start: float, report: Report) -> dict[str, Any]:
    """The event of a segment."""
    scale = _MICROSECONDS / timeline.clock
    details: dict[str, Any] = {"cycles": segment.cycles, "label": segment.label.value}
    if segment.op is not None:
        op = report.workload.ops[segment.op]
        details.update({"type": op.type, "layer": group(op), "source": op.source, "runs": op.runs})
    if segment.stage is not None:
        details.update({"stage": segment.stage, "phase": segment.phase or "forward"})
    if segment.mini_batch is not None:
        details["mini_batch"] = segment.mini_batch
    return {
        "ph": "X",
        "name": segment.name or segment.kind,
        "cat": segment.kind,
        "pid": segment.ipu,
        "tid": _WORK,
        "ts": start + segment.start * scale,
        "dur": segment.cycles * scale,
        "args": details,
    }


def live_times(memory: IpuMemory, timeline: Timeline) -> np.ndarray:
    """Returns when each point of an IPU's liveness curve is, in cycles from the start of a launch.

    Args:
        memory: of the IPU.
        timeline: of the same program.

    Returns:
        Where the op of a point starts on the IPU; for ops that take no time, where the one before
        does. Pipelines run an op for each mini-batch: its points are at the first of them, or, if
        segments are whole stages, evenly over the launch.
    """
    starts: dict[int, float] = {}
    for segment in timeline.segments:
        if segment.ipu == memory.ipu and segment.op is not None:
            starts.setdefault(segment.op, segment.start)
    points = len(memory.live_ops)
    if not starts:
        return np.linspace(0.0, timeline.cycles, points)
    times = np.array([starts.get(int(op), -1.0) for op in memory.live_ops])
    return np.maximum.accumulate(np.maximum(times, 0.0))


def _counter(memory: IpuMemory, timeline: Timeline, start: float) -> Iterator[dict[str, Any]]:
    """The memory of an IPU over a launch, thinned out to what can be seen."""
    times = live_times(memory, timeline) * (_MICROSECONDS / timeline.clock)
    always = int(memory.always_live)
    for index in thinned(memory.live_bytes, _COUNTER_POINTS):
        yield {
            "ph": "C",
            "name": "memory",
            "pid": memory.ipu,
            "tid": _ITEMS,
            "ts": start + float(times[index]),
            "args": {"always live": always, "not always live": int(memory.live_bytes[index])},
        }


def thinned(values: np.ndarray, most: int) -> np.ndarray:
    """Returns indices of at most about `most` points that keep the largest of each stretch.

    Args:
        values: a curve.
        most: points wanted.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most + 1).astype(int)
    return np.array([a + int(np.argmax(values[a:b])) for a, b in zip(edges[:-1], edges[1:])])


def _transfer_tracks(report: Report) -> list[tuple[str, int]]:
    """Kinds of transfers with their IPUs, a track for each."""
    return list(dict.fromkeys((t.kind, t.ipu) for t in report.plan.timeline.transfers))


def _transfers(report: Report, launch: int) -> Iterator[dict[str, Any]]:
    """The transfers of each kind back to back, as if each had the launch to itself."""
    timeline = report.plan.timeline
    tracks = {track: index for index, track in enumerate(_transfer_tracks(report))}
    sums = dict.fromkeys(tracks, 0.0)
    for transfer in timeline.transfers:
        sums[transfer.kind, transfer.ipu] += transfer.cycles * transfer.runs
    # What takes longer than a launch keeps the next launch's transfers waiting.
    at = {track: launch * max(timeline.cycles, cycles) for track, cycles in sums.items()}
    scale = _MICROSECONDS / timeline.clock
    for transfer in timeline.transfers:
        track = (transfer.kind, transfer.ipu)
        yield _transfer_event(transfer, io_process(report), tracks[track], at[track], scale)
        at[track] += transfer.cycles * transfer.runs


def _transfer_event(
    transfer: Transfer, process: int, thread: int, at: float, scale: float
) -> dict[str, Any]:
    """The event of all runs of a transfer."""
    return {
        "ph": "X",
        "name": transfer.name,
        "cat": transfer.kind,
        "pid": process,
        "tid": thread,
        "ts": at * scale,
        "dur": transfer.cycles * transfer.runs * scale,
        "args": {
            "bytes_each": transfer.num_bytes,
            "runs": transfer.runs,
            "overlapped": transfer.overlapped,
            "label": transfer.label.value,
        },
    }
