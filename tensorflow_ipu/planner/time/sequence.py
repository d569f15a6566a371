"""Times of items one after the other: programs, or parts, without a pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Segment
from tensorflow_ipu.planner.time.items import IDLE, Item, in_order
from tensorflow_ipu.planner.workload import Workload


@dataclasses.dataclass
class Track:
    """The items scheduled so far, with their times.

    Attributes:
        segments: Of all IPUs, in order of their start for each IPU.
        end: Cycles at which the last one ends.
    """

    segments: list[Segment]
    end: float


def schedule(workload: Workload, items: Sequence[Item], start: float = 0.0) -> Track:
    """Schedules each item on the timeline of its IPU.

    List scheduling in the order of the program: an item starts when its IPU is free and the
    producers of its operands have ended. A copy needs both its IPUs. The iterations of a loop are
    taken together: an op takes the cycles of all its runs, so that IPUs which take turns in each
    iteration take turns once.

    Args:
        workload: the program.
        items: ops and transfers with their cycles.
        start: earliest start of the first item, in cycles.
    """
    free: dict[int, float] = {}
    ready: dict[int, float] = {}
    segments: list[Segment] = []
    for item in in_order(items):
        ipus = (item.ipu,) if item.peer is None else (item.ipu, item.peer)
        uses, makes = _buffers(workload, item)
        end = max(
            max(free.get(ipu, start) for ipu in ipus),
            max((ready.get(buffer, start) for buffer in uses), default=start),
        )
        for kind, cycles in item.parts:
            length = cycles * item.runs
            segments += [_segment(item, ipu, kind, end, length) for ipu in ipus]
            end += length
        free.update(dict.fromkeys(ipus, end))
        ready.update(dict.fromkeys(makes, end))
    return Track(segments, max(free.values(), default=start))


def with_gaps(
    segments: Sequence[Segment], ipus: Sequence[int], begin: float, end: float
) -> list[Segment]:
    """Returns segments with idle ones in the gaps of an IPU.

    Args:
        segments: in order of their start for each IPU.
        ipus: all IPUs.
        begin: start of the time to fill.
        end: end of the time to fill.
    """
    # Sums of floats that should be equal differ by less than this.
    tolerance = 1e-9 * max(end, 1.0)
    at = dict.fromkeys(ipus, begin)
    filled = []
    for segment in segments:
        before = at.get(segment.ipu, begin)
        if segment.start - before > tolerance:
            filled.append(_idle(segment.ipu, before, segment.start))
        filled.append(segment)
        at[segment.ipu] = segment.start + segment.cycles
    filled += [_idle(ipu, until, end) for ipu, until in at.items() if end - until > tolerance]
    return filled


def _idle(ipu: int, begin: float, end: float) -> Segment:
    return Segment(ipu, IDLE, "", begin, end - begin, None, None, "", None, Label.MODELLED)


def _segment(item: Item, ipu: int, kind: str, start: float, cycles: float) -> Segment:
    return Segment(
        ipu, kind, item.name, start, cycles, item.op, item.stage, item.phase, None, item.cost.label
    )


def _buffers(workload: Workload, item: Item) -> tuple[list[int], list[int]]:
    """Returns the buffers that an item reads and writes; a copy has one buffer for both."""
    if item.op is None:
        same = [] if item.buffer is None else [item.buffer]
        return same, same
    op = workload.ops[item.op]
    return (
        [operand.buffer for operand in op.inputs if operand.buffer is not None],
        [operand.buffer for operand in op.outputs if operand.buffer is not None],
    )
