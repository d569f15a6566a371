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

#: What nobody records.
NOT_RECORDED = (
    "when the threads of infeeds and outfeeds read and write",
    "when a launch ends that has no results",
)


class HostSpan(NamedTuple):
    """Something that the host did.

    Args:
        kind: `compile`, `launch`, `load`, `host to device` or `device to host`.
        name: of the program.
        ordinal: TensorFlow device `/device:IPU:<ordinal>`.
        begin: when it began, in seconds since recording began.
        end: when it ended; None for a moment, or where only the beginning is known.
    """

    kind: str
    name: str
    ordinal: int
    begin: float
    end: float | None = None


@dataclasses.dataclass(frozen=True)
class HostActivity:
    """What the host did for all programs of a stretch of time.

    Attributes:
        began: When recording began, in seconds since the epoch.
        seconds: How long it went on.
        spans: What was done, in order of the beginning.
        full: Whether recording ended early, because there was too much.
    """

    began: float
    seconds: float
    spans: tuple[HostSpan, ...]
    full: bool = False

    __repr__ = shows(
        lambda self: {
            "seconds": float(f"{self.seconds:.4g}"),
            "spans": len(self.spans),
            "full": self.full or None,
        }
    )

    def of(self, *kinds: str) -> list[HostSpan]:
        """Returns what was done of some kinds.

        Args:
            *kinds: the kinds.
        """
        return [span for span in self.spans if span.kind in kinds]
