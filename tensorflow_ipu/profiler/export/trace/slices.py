"""`Slice` and `Track`: named stretches of time, and limits of their number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# --- Trace event format ---

#: An event, as data for JSON.
Event = dict[str, Any]


def about(what: str, process: int, thread: int, **args: Any) -> Event:
    """Returns the metadata event of a process or thread.

    Args:
        what: type of the fact, such as `thread_name`.
        process: id of the process.
        thread: id of the thread.
        **args: the fact.
    """
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def microseconds(nanoseconds: int) -> float:
    """Returns a time in microseconds that keeps its nanoseconds if a reader truncates.

    Args:
        nanoseconds: the time.
    """
    found = nanoseconds / 1000
    return found if int(found * 1000) == nanoseconds else math.nextafter(found, math.inf)


# --- Slices and tracks ---

#: Kind of a slice that stands for several short ones.
MERGED = "merged"


#: Slices of a track that are shown at most, unless a caller says otherwise.
MOST_SLICES = 20_000


class Slice(NamedTuple):
    """A stretch of time.

    Args:
        name: name of the work.
        kind: kind of segment, such as `compute`.
        start: start in cycles from the start of a launch.
        cycles: length.
        details: further facts as data for JSON.
    """

    name: str
    kind: str
    start: float
    cycles: float
    details: Mapping[str, Any]

    @property
    def end(self) -> float:
        """When it ends."""
        return self.start + self.cycles


class Track(NamedTuple):
    """Slices that are shown in a row.

    Args:
        name: name of the row.
        slices: in order of their start, an outer one before those inside it.
        hidden: number of further slices that are not shown on their own.
    """

    name: str
    slices: Sequence[Slice]
    hidden: int = 0


def bounded(name: str, slices: Sequence[Slice], most: int) -> Track:
    """Returns a track of at most `most` slices: short ones are merged with their neighbors.

    A merged slice has the cycles of each kind in its details, so sums are unchanged.

    Args:
        name: of the track.
        slices: in order of their start, none inside another.
        most: limit of its slices, at least 4.
    """
    if len(slices) <= most:
        return Track(name, slices)
    # Of slices and full groups that are this long there are at most a third of `most` each, and of
    # other groups at most one more than of slices.
    shortest = 3 * (max(s.end for s in slices) - slices[0].start) / (most - 1)
    kept: list[Slice] = []
    group: list[Slice] = []
    for one in slices:
        if one.cycles >= shortest:
            kept += _merged(group)
            kept.append(one)
            group = []
        else:
            group.append(one)
            if one.end - group[0].start >= shortest:
                kept += _merged(group)
                group = []
    kept += _merged(group)
    hidden = sum(s.details["slices"] for s in kept if s.kind == MERGED)
    return Track(name, kept, hidden)


def bounded_nested(name: str, slices: Sequence[Slice], most: int) -> Track:
    """Returns a track of at most `most` slices, the longest; others are part of outer ones.

    Args:
        name: of the track.
        slices: in order of their start, an outer one before those inside it.
        most: limit of its slices.
    """
    if len(slices) <= most:
        return Track(name, slices)
    lengths = sorted((s.cycles for s in slices), reverse=True)
    kept = [s for s in slices if s.cycles > lengths[most]]
    return Track(name, kept, len(slices) - len(kept))


def _merged(group: Sequence[Slice]) -> Iterable[Slice]:
    """Returns one slice instead of several short ones."""
    if len(group) <= 1:
        return group
    by_kind: dict[str, float] = {}
    for one in group:
        by_kind[one.kind] = by_kind.get(one.kind, 0.0) + one.cycles
    details = {
        "cycles": sum(by_kind.values()),
        "slices": len(group),
        "first": group[0].name,
        "last": group[-1].name,
        **{f"cycles of {kind}": cycles for kind, cycles in by_kind.items()},
    }
    start = group[0].start
    end = max(one.end for one in group)
    return [Slice(f"{len(group)} short slices", MERGED, start, end - start, details)]
