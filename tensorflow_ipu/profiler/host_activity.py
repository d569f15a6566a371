"""`HostActivity`: the host's spans of work with their times. Measured, unlike the chip's."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tensorflow_ipu.util.short_repr import shows

COMPILE = "compile"
LAUNCH = "launch"
LOAD = "load"
TO_DEVICE = "host to device"
TO_HOST = "device to host"

#: Events that are never recorded, with threads or without them.
NOT_RECORDED = (
    "when a launch without results ends: it is as long as the mean of all launches of its program",
)
#: Events that are recorded only with threads.
OF_THREADS = "what the threads of feeds do: profile(..., host_threads=True) records it"


class HostSpan(NamedTuple):
    """A span of work of the host.

    Args:
        kind: `compile`, `launch`, `load`, `host to device` or `device to host`.
        name: of the program.
        ordinal: TensorFlow device `/device:IPU:<ordinal>`.
        begin: when it began, in seconds since recording began.
        end: when it ended; None for a moment, or where only the beginning is known.
        is_mean: whether the end is not measured, but follows from the mean of all launches.
    """

    kind: str
    name: str
    ordinal: int
    begin: float
    end: float | None = None
    is_mean: bool = False


class ThreadSpan(NamedTuple):
    """A span of a thread. A span that begins inside another ends there, too.

    Args:
        name: name of the work.
        begin: start in seconds since recording began.
        end: end in seconds since recording began.
    """

    name: str
    begin: float
    end: float


class HostThread(NamedTuple):
    """A thread of the process.

    Args:
        name: its name.
        spans: its spans, by start.
    """

    name: str
    spans: tuple[ThreadSpan, ...]


@dataclasses.dataclass(frozen=True)
class HostActivity:
    """The host's work for all programs in a stretch of time.

    Attributes:
        began: Start of recording, in seconds since the epoch.
        seconds: Length of the recording in seconds.
        spans: Spans by start.
        full: Whether recording ended early, at the limit of events.
        threads: Spans of the threads that feed and launch programs; None if they were not recorded.
    """

    began: float
    seconds: float
    spans: tuple[HostSpan, ...]
    full: bool = False
    threads: tuple[HostThread, ...] | None = None

    __repr__ = shows(
        lambda self: {
            "seconds": float(f"{self.seconds:.4g}"),
            "spans": len(self.spans),
            "full": self.full or None,
            "threads": None if self.threads is None else len(self.threads),
        }
    )

    def of(self, *kinds: str) -> list[HostSpan]:
        """Returns the spans of some kinds.

        Args:
            *kinds: the kinds.
        """
        return [span for span in self.spans if span.kind in kinds]
