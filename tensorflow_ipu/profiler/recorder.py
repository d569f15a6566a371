"""`Recorder`: records compilations and the engine's events between start and stop."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import tensorflow as tf
from absl import logging
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.profiler.host_activity import (
    COMPILE,
    LAUNCH,
    LOAD,
    TO_DEVICE,
    TO_HOST,
    HostActivity,
    HostSpan,
    HostThread,
    ThreadSpan,
)
from tensorflow_ipu.runtime import events, native

# --- Threads, by TensorFlow's profiler ---

# Names that the engine gives its threads.
_FEEDS = "ipu_infeed"

# Spans of ops of the device on other threads. Ops that programs are made of are left out, as they
# are the simulation's.
_OP = re.compile(r"(?:EagerLocalExecute: |:)(Ipu\w+)$")
_LEVEL = 2  # the level of datasets' spans
_PICOSECONDS = 1e12
_NANOSECONDS = 1e9


class ThreadTracer:
    """Trace by TensorFlow's profiler, from its construction until `stop`.

    A process has one profiler. If it runs already there is a warning, and nothing is traced.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tensorflow_ipu_threads_")
        self._began = time.time()
        options = tf.profiler.experimental.ProfilerOptions(_LEVEL, 0, 0)
        try:
            tf.profiler.experimental.start(self._folder.name, options)
            self._running = True
        except tf.errors.OpError as error:
            self._running = False
            logging.warning("The threads of the host are not traced: %s", error.message)

    def stop(self, most: int) -> tuple[float, tuple[HostThread, ...]]:
        """Ends tracing.

        Args:
            most: limit of returned spans.

        Returns:
            Start of tracing, in seconds since the epoch, and the threads with their spans.
        """
        found: list[HostThread] = []
        try:
            if self._running:
                tf.profiler.experimental.stop()
                for path in Path(self._folder.name).rglob("*.xplane.pb"):
                    space = xplane_pb2.XSpace.FromString(path.read_bytes())
                    found += _threads(space, most)
        except tf.errors.OpError as error:
            logging.warning("The threads of the host are not shown: %s", error.message)
        finally:
            self._folder.cleanup()
        return self._began, tuple(found)


def _threads(space: xplane_pb2.XSpace, most: int) -> Iterator[HostThread]:
    """Yields the threads that work for programs, with at most `most` spans in all."""
    left = most
    for plane in space.planes:
        for line in plane.lines:
            spans = sorted(_spans(plane, line), key=lambda span: (span.begin, -span.end))[:left]
            left -= len(spans)
            if spans:
                yield HostThread(line.name.split("/")[0], tuple(spans))


def _spans(plane: xplane_pb2.XPlane, line: xplane_pb2.XLine) -> Iterator[ThreadSpan]:
    """Yields the spans of a thread: all of a feed's thread, and ops of the device on others."""
    is_feed = line.name.startswith(_FEEDS)
    start = line.timestamp_ns / _NANOSECONDS
    for event in line.events:
        name = plane.event_metadata[event.metadata_id].name
        op = _OP.search(name)
        if is_feed or op:
            begin = start + event.offset_ps / _PICOSECONDS
            end = begin + event.duration_ps / _PICOSECONDS
            yield ThreadSpan(op[1] if op else name, begin, end)


# --- Recorder ---

#: Most events that are kept; later ones are not recorded.
MOST_EVENTS = 30_000

# How often the engine's events are taken over, in seconds: it keeps them until then.
_PERIOD = 1.0

_KINDS: Mapping[int, str] = {
    IpuTraceEvent.HOST_TO_DEVICE_TRANSFER: TO_DEVICE,
    IpuTraceEvent.DEVICE_TO_HOST_TRANSFER: TO_HOST,
    IpuTraceEvent.LOAD_ENGINE: LOAD,
    IpuTraceEvent.EXECUTE: LAUNCH,
}


class Recorder:
    """Recording of the host's activity, from its construction until `stop`.

    The engine keeps its events until they are read. A thread does that from time to time, and ends
    recording at a limit, so that a long training does not fill the memory.

    Args:
        store: the store of events.
        most: limit of events, and of spans of threads.
        threads: whether threads are traced, which slows programs.
        statistics: returns the launches of a program and their seconds, by its identifier.
    """

    def __init__(
        self,
        store: events.EventStore = events.STORE,
        most: int = MOST_EVENTS,
        threads: bool = False,
        statistics: Callable[[str], tuple[int, float]] = native.statistics,
    ) -> None:
        self._statistics = statistics
        self._store, self._most = store, most
        self._tracer = ThreadTracer() if threads else None
        self._began = time.time()
        self._compiled: list[tuple[str, int, float, float]] = []
        self._events: list[tuple[native.EngineEvent, str]] = []
        self._full = False
        self._stopping = threading.Event()
        store.observe(self)
        self._thread = threading.Thread(target=self._poll, name="ipu host events", daemon=True)
        self._thread.start()

    def compiled(self, name: str, ordinal: int, began: float, ended: float) -> None:
        """Records a compilation; see `events.Observer`."""
        self._compiled.append((name, ordinal, began, ended))

    def happened(self, event: native.EngineEvent, name: str) -> None:
        """Records an event of the engine; see `events.Observer`."""
        if len(self._events) < self._most:
            self._events.append((event, name))
        else:
            self._full = True

    def stop(self) -> HostActivity:
        """Ends recording, and returns the activity."""
        self._stopping.set()
        self._thread.join()
        self._store.forget(self)
        threads = None if self._tracer is None else self._tracer.stop(self._most)
        # A compilation in which recording began has begun before.
        earliest = self._began if threads is None else min(self._began, threads[0])
        began = min([earliest, *(begin for _, _, begin, _ in self._compiled)])
        compiled = [
            HostSpan(COMPILE, name, ordinal, begin - began, end - began)
            for name, ordinal, begin, end in self._compiled
        ]
        spans = sorted([*compiled, *self._spans(began)], key=lambda span: span.begin)
        traced = None if threads is None else _shifted(threads[1], threads[0] - began)
        return HostActivity(began, time.time() - began, tuple(spans), self._full, traced)

    def take_over(self) -> None:
        """Reads the engine's events; ends recording at the limit."""
        self._store.collect()
        if self._full:
            self._store.forget(self)

    def _spans(self, began: float) -> list[HostSpan]:
        """Returns launches as spans, and other events as moments."""
        found: list[HostSpan] = []
        # By device, the program of the last launch, and where that is in `found`.
        running: dict[int, tuple[str, int]] = {}
        for event, name in self._events:
            at = max(event.timestamp - began, 0.0)
            kind = _KINDS[event.type]
            if kind == TO_HOST and not event.variables:
                # The results of a launch come when it ends.
                executable, last = running.pop(event.ordinal, ("", 0))
                if executable == event.executable:
                    found[last] = found[last]._replace(end=at)
            if kind == LAUNCH:
                self._end_by_mean(found, running.get(event.ordinal), at)
                running[event.ordinal] = event.executable, len(found)
            found.append(HostSpan(kind, name, event.ordinal, at))
        for last_launch in running.values():
            self._end_by_mean(found, last_launch, float("inf"))
        return found

    def _end_by_mean(
        self, found: list[HostSpan], launch: tuple[str, int] | None, latest: float
    ) -> None:
        """Ends a launch without an end event, before the next one begins."""
        if launch is None:
            return
        executable, index = launch
        launches, seconds = self._statistics(executable)
        if launches:
            end = min(found[index].begin + seconds / launches, latest)
            found[index] = found[index]._replace(end=end, is_mean=True)

    def _poll(self) -> None:
        """Reads events periodically until recording stops: the body of the thread."""
        while not self._stopping.wait(_PERIOD):
            self.take_over()


def _shifted(threads: Sequence[HostThread], seconds: float) -> tuple[HostThread, ...]:
    """Returns threads with times relative to an earlier start."""
    return tuple(
        HostThread(
            thread.name,
            tuple(ThreadSpan(s.name, s.begin + seconds, s.end + seconds) for s in thread.spans),
        )
        for thread in threads
    )
