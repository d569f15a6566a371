"""Trace of a report for Chrome and Perfetto.

One process for each IPU of a replica, in nanoseconds of its clock, has nested layers, the slices of
its slowest tile and of its mean tile, and counters of its memory and of the tiles that compute.
Another process holds the transfers with the host and with streaming memory. All of these are
modelled. The host's activity was measured, and has a process and a clock of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tensorflow_ipu.planner.plan import IpuMemory, Timeline, Transfer
from tensorflow_ipu.profiler.export import trace_tracks
from tensorflow_ipu.profiler.export.trace_tracks import (
    MOST_SLICES,
    Event,
    IpuTracks,
    Slice,
    Track,
    about,
    bounded,
    microseconds,
)
from tensorflow_ipu.profiler.host_activity import HostActivity
from tensorflow_ipu.profiler.report_data import ReportData

_NANOSECONDS = 1e9
# Threads of the process of an IPU. They are shown in the order of `_SHOWN`.
_SLOWEST, _ITEMS, _LAYERS, _MEAN = range(4)
_SHOWN = (_LAYERS, _SLOWEST, _MEAN)
_COUNTER_POINTS = 2000


def trace(
    report: ReportData,
    launches: int = 1,
    most_slices: int = MOST_SLICES,
    host: HostActivity | None = None,
) -> Event:
    """Returns a report as trace events.

    Args:
        report: the report.
        launches: number of launches to show, one after the other; all are alike.
        most_slices: limit of slices of a track, at least 4 for each launch; short ones are merged
            with their neighbors.
        host: activity of the host, if it was recorded.

    Returns:
        Data for JSON.
    """
    timeline = report.plan.timeline
    most = max(most_slices // launches, 4)
    tracks = trace_tracks.tracks(report.plan, most)
    transfers = _transfer_tracks(report.plan.timeline, launches, most_slices)
    events = list(_metadata(report, transfers))
    for launch in range(launches):
        start = launch * _ns(timeline.cycles, timeline)
        for ipu in tracks:
            events += _ipu_events(ipu, timeline, start)
        for memory in report.plan.memory:
            events += _memory_counter(memory, timeline, start, min(_COUNTER_POINTS, most))
    for thread, track in enumerate(transfers):
        events += _slices(track, io_process(report), thread, timeline, 0)
    events += trace_tracks.events(host, io_process(report) + 1)
    hidden = sum(t.hidden for ipu in tracks for t in (ipu.layers, ipu.slowest, ipu.mean))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "program": report.name,
            "cycles": timeline.cycles,
            "clock": timeline.clock,
            "label": timeline.label.value,
            "made_by": "tensorflow_ipu: a model of the chip, not a measurement",
            "short_slices_merged": hidden + sum(track.hidden for track in transfers),
            "ipus": [{"ipu": ipu.ipu, **ipu.waits._asdict()} for ipu in tracks],
            "host": trace_tracks.about_host(host),
        },
    }


def to_json(
    report: ReportData,
    launches: int = 1,
    most_slices: int = MOST_SLICES,
    host: HostActivity | None = None,
) -> str:
    """Returns a report as the text of a trace file; arguments as of `trace`."""
    return json.dumps(trace(report, launches, most_slices, host), separators=(",", ":"))


def io_process(report: ReportData) -> int:
    """Returns the id of the process with the transfers, one past the last IPU's."""
    return report.workload.ipus


def _metadata(report: ReportData, transfers: list[Track]) -> Iterator[Event]:
    """Yields the names of processes and threads, and the order in which threads are shown."""
    names = {_LAYERS: trace_tracks.LAYERS, _SLOWEST: trace_tracks.SLOWEST, _MEAN: trace_tracks.MEAN}
    for ipu in range(report.workload.ipus):
        yield about("process_name", ipu, 0, name=f"IPU {ipu} (each replica), modelled")
        for place, thread in enumerate(_SHOWN):
            yield about("thread_name", ipu, thread, name=names[thread])
            yield about("thread_sort_index", ipu, thread, sort_index=place)
    process = io_process(report)
    yield about("process_name", process, 0, name="Host and memory I/O, modelled")
    for thread, track in enumerate(transfers):
        yield about("thread_name", process, thread, name=track.name)


def _ns(cycles: float, timeline: Timeline) -> int:
    """Returns a time in whole nanoseconds, rounded so that adjacent slices stay adjacent."""
    return round(round(cycles * _NANOSECONDS / timeline.clock, 3))


def _ipu_events(ipu: IpuTracks, timeline: Timeline, start: int) -> Iterator[Event]:
    """Yields the events of an IPU in a launch."""
    for thread, track in ((_LAYERS, ipu.layers), (_SLOWEST, ipu.slowest), (_MEAN, ipu.mean)):
        yield from _slices(track, ipu.ipu, thread, timeline, start)
    for cycles, tiles in ipu.used:
        args = {"tiles": tiles}
        yield _count("tiles that compute", ipu.ipu, start + _ns(cycles, timeline), args)


def _slices(
    track: Track, process: int, thread: int, timeline: Timeline, start: int
) -> Iterator[Event]:
    """Yields the events of a track."""
    for one in track.slices:
        begin, end = _ns(one.start, timeline), _ns(one.end, timeline)
        yield {
            "ph": "X",
            "name": one.name,
            "cat": one.kind,
            "pid": process,
            "tid": thread,
            "ts": microseconds(start + begin),
            "dur": microseconds(end - begin),
            "args": one.details,
        }


def _count(name: str, process: int, at: int, args: dict[str, Any]) -> Event:
    """Returns the event of a counter."""
    return {
        "ph": "C",
        "name": name,
        "pid": process,
        "tid": _ITEMS,
        "ts": microseconds(at),
        "args": args,
    }


def live_times(memory: IpuMemory, timeline: Timeline) -> np.ndarray:
    """Returns the time of each point of an IPU's liveness curve, in cycles from the launch.

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


def _memory_counter(
    memory: IpuMemory, timeline: Timeline, start: int, most: int
) -> Iterator[Event]:
    """Yields the memory of an IPU over a launch, thinned out to the visible points."""
    times = live_times(memory, timeline)
    always = int(memory.always_live)
    for index in thinned(memory.live_bytes, most):
        args = {"always live": always, "not always live": int(memory.live_bytes[index])}
        yield _count("memory", memory.ipu, start + _ns(float(times[index]), timeline), args)


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


def _transfer_tracks(timeline: Timeline, launches: int, most: int) -> list[Track]:
    """Returns the transfers of each kind and IPU back to back, without other work."""
    by_track: dict[tuple[str, int], list[Transfer]] = {}
    for transfer in timeline.transfers:
        by_track.setdefault((transfer.kind, transfer.ipu), []).append(transfer)
    found = []
    for (kind, ipu), transfers in by_track.items():
        needed = sum(transfer.cycles * transfer.runs for transfer in transfers)
        # A transfer longer than a launch delays the next launch's transfers.
        every = max(timeline.cycles, needed)
        slices = [one for launch in range(launches) for one in _in_a_row(transfers, launch * every)]
        found.append(bounded(f"{kind}, IPU {ipu}", slices, most))
    return found


def _in_a_row(transfers: list[Transfer], start: float) -> Iterator[Slice]:
    """Yields all runs of each transfer, one transfer after the other."""
    for transfer in transfers:
        cycles = transfer.cycles * transfer.runs
        details = {
            "bytes_each": transfer.num_bytes,
            "runs": transfer.runs,
            "overlapped": transfer.overlapped,
            "label": transfer.label.value,
            "cycles": cycles,
        }
        yield Slice(transfer.name, transfer.kind, start, cycles, details)
        start += cycles
