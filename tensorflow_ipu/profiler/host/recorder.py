"""`Recorder`: notes compilations and the engine's events while it is asked to."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.profiler.host.activity import (
    COMPILE,
    LAUNCH,
    LOAD,
    TO_DEVICE,
    TO_HOST,
    HostActivity,
    HostSpan,
)
from tensorflow_ipu.runtime import events

if TYPE_CHECKING:
    from tensorflow_ipu.runtime import native

#: Events that are kept; what comes after them is not recorded.
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
    """Records from the moment it is made until `stop`.

    The engine keeps its events until they are read. A thread does that from time to time, and ends
    recording when there are too many, so that a long training does not fill the memory.

    Args:
        store: who knows the events.
        most: how many events are kept.
    """

    def __init__(self, store: events.EventStore = events.STORE, most: int = MOST_EVENTS) -> None:
        self._store, self._most = store, most
        self._began = time.time()
        self._compiled: list[tuple[str, int, float, float]] = []
        self._events: list[tuple[native.EngineEvent, str]] = []
        self._full = False
        self._stopping = threading.Event()
        store.observe(self)
        self._thread = threading.Thread(target=self._poll, name="ipu host events", daemon=True)
        self._thread.start()

    def compiled(self, name: str, ordinal: int, began: float, ended: float) -> None:
        """Notes a compilation; see `events.Observer`."""
        self._compiled.append((name, ordinal, began, ended))

    def happened(self, event: native.EngineEvent, name: str) -> None:
        """Notes an event of the engine; see `events.Observer`."""
        if len(self._events) < self._most:
            self._events.append((event, name))
        else:
            self._full = True

    def stop(self) -> HostActivity:
        """Ends recording, and returns what was recorded."""
        self._stopping.set()
        self._thread.join()
        self._store.forget(self)
        # A compilation in which recording began has begun before.
        began = min([self._began, *(begin for _, _, begin, _ in self._compiled)])
        compiled = [
            HostSpan(COMPILE, name, ordinal, begin - began, end - began)
            for name, ordinal, begin, end in self._compiled
        ]
        spans = sorted([*compiled, *_spans(self._events, began)], key=lambda span: span.begin)
        return HostActivity(began, time.time() - began, tuple(spans), self._full)

    def take_over(self) -> None:
        """Reads what the engine has noted; ends recording if that is too much."""
        self._store.collect()
        if self._full:
            self._store.forget(self)

    def _poll(self) -> None:
        """What the thread does."""
        while not self._stopping.wait(_PERIOD):
            self.take_over()


def _spans(recorded: Sequence[tuple[native.EngineEvent, str]], began: float) -> list[HostSpan]:
    """Launches with their ends, and everything else as moments."""
    found: list[HostSpan] = []
    # By device, the program of the last launch, and where that is in `found`.
    running: dict[int, tuple[str, int]] = {}
    for event, name in recorded:
        at = max(event.timestamp - began, 0.0)
        kind = _KINDS[event.type]
        if kind == TO_HOST and not event.variables:
            # The results of a launch come when it ends.
            executable, last = running.pop(event.ordinal, ("", 0))
            if executable == event.executable:
                found[last] = found[last]._replace(end=at)
        if kind == LAUNCH:
            running[event.ordinal] = event.executable, len(found)
        found.append(HostSpan(kind, name, event.ordinal, at))
    return found
