"""`idle_share`: the share of its IPUs' time that a pipeline does not use, its bubble."""

from __future__ import annotations

from collections.abc import Sequence


def idle_share(busy: Sequence[float], total: float) -> float:
    """Returns the idle share of the time of some IPUs, 0 to 1; 0 of no time.

    The one definition of a bubble: in plans with cycles, in tables of schedules with steps.

    Args:
        busy: busy time of each IPU.
        total: total time of all IPUs, in the same unit.
    """
    return 1 - sum(busy) / (total * len(busy)) if total and busy else 0.0
