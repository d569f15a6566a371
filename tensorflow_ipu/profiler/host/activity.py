"""`HostActivity`: what the host did, and when. Measured, unlike all that is said of the chip."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tensorflow_ipu.configs.short_repr import shows

COMPILE = "compile"
LAUNCH = "launch"
LOAD = "load"
TO_DEVICE = "host to device"
TO_HOST = "device to host"

#: What nobody records, with threads or without them.
NOT_RECORDED = (
    "when a launch without results ends: it is as long as the mean of all launches of its program",
)
#: What is recorded only with threads.
OF_THREADS = "what the threads of feeds do: profile(..., host_threads=True) records it"


class HostSpan(NamedTuple):
    """Something that the host did.

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
    """Something that a thread did. One that begins inside another ends there, too.

    Args:
        name: what it did.
        begin: when it began, in seconds since recording began.
        end: when it ended.
    """

    name: str
    begin: float
    end: float


class HostThread(NamedTuple):
    """A thread of the process.

    Args:
        name: its name.
        spans: what it did, in order of the beginning.
    """

    name: str
    spans: tuple[ThreadSpan, ...]


@dataclasses.dataclass(frozen=True)
class HostActivity:
    """What the host did for all programs of a stretch of time.

    Attributes:
        began: When recording began, in seconds since the epoch.
        seconds: How long it went on.
        spans: What was done, in order of the beginning.
        full: Whether recording ended early, because there was too much.
        threads: What threads did that feed and launch programs; None if that was not recorded.
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
        """Returns what was done of some kinds.

        Args:
            *kinds: the kinds.
        """
        return [span for span in self.spans if span.kind in kinds]
