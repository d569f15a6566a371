"""`ThreadTracer`: spans of the threads that feed and launch programs, by TensorFlow's profiler."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from absl import logging
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tensorflow_ipu.profiler.host.activity import HostThread, ThreadSpan

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
