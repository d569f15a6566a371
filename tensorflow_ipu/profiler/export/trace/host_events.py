"""The process of the host in a trace: compilations, launches, loads and transfers, measured."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from tensorflow_ipu.profiler.export.trace.slices import Event, microseconds
from tensorflow_ipu.profiler.export.trace.slices import about as _about
from tensorflow_ipu.profiler.host.activity import (
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
    yield _about("process_name", process, 0, name="Host, measured")
    recorded = threads(host)
    for thread, (name, spans) in enumerate(recorded.items()):
        yield from _named(name, process, thread)
        for span in spans:
            yield _event(span, process, thread)
    for thread, traced in enumerate(host.threads or (), len(recorded)):
        yield from _named(f"thread {traced.name}", process, thread)
        for inner in traced.spans:
            yield _thread_event(inner, process, thread)


def about(host: HostActivity | None) -> dict[str, Any] | None:
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
    yield _about("thread_name", process, thread, name=name)
    yield _about("thread_sort_index", process, thread, sort_index=thread)


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
