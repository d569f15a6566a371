"""Ops and transfers of a launch with their cycles, and their times one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Segment
from tensorflow_ipu.planner.program.structure import is_container
from tensorflow_ipu.planner.workload import Op, Workload

# --- Ops and transfers of a launch with their cycles, before the timeline places them ---

# Kinds of segments.
COMPUTE = "compute"


EXCHANGE = "exchange"


SYNC = "sync"


LINK = "link"


COLLECTIVE = "collective"


HOST = "host"


STREAMING = "streaming"


IDLE = "idle"


# The order in an op: tiles wait for each other, exchange data, compute.
CHIP_KINDS = (SYNC, EXCHANGE, COMPUTE)


class Item(NamedTuple):
    """An op or transfer that keeps an IPU busy.

    Args:
        name: of the op or transfer.
        kind: kind of segment; empty for an op, whose cost is divided by kind.
        ipu: IPU within the replica.
        cost: of one run.
        runs: in one launch.
        position: of the op that it is or belongs to; -1 at the start of the program.
        after: order among items of a position: -1 before the op, 0 the op, 1 after it.
        op: index of the op, None if it is not one op.
        stage: pipeline stage, None outside of pipelines.
        phase: phase of the pipeline stage.
        peer: IPU that a copy goes to.
        buffer: buffer that a copy copies.
    """

    name: str
    kind: str
    ipu: int
    cost: Cost
    runs: int
    position: int
    after: int = 0
    op: int | None = None
    stage: int | None = None
    phase: str = ""
    peer: int | None = None
    buffer: int | None = None

    @property
    def cycles(self) -> float:
        """Cycles of all runs."""
        return self.cost.cycles * self.runs

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Kinds with the cycles of one run, in the order in which they come."""
        cost = self.cost
        if self.kind:
            return ((self.kind, cost.cycles),)
        cycles = (cost.sync, cost.exchange, cost.compute)
        return tuple((kind, n) for kind, n in zip(CHIP_KINDS, cycles) if n)


def labeled(cost: Cost, label: Label) -> Cost:
    """Returns a cost that is no more certain than a label.

    Args:
        cost: the cost.
        label: of other factors of the time, such as the number of runs.
    """
    both = worst((cost.label, label))
    if both is cost.label:
        return cost
    return Cost(
        cost.compute,
        cost.exchange,
        cost.sync,
        cost.temporary,
        cost.codelets,
        cost.vertex_state,
        cost.exchange_code,
        both,
        cost.partition,
    )


def op_items(workload: Workload, costs: Sequence[Cost], elsewhere: frozenset[str]) -> list[Item]:
    """Returns the items of all ops that compute.

    Args:
        workload: the program.
        costs: cost of each op.
        elsewhere: types of ops that are transfers.
    """
    made = []
    for index, (op, cost) in enumerate(zip(workload.ops, costs)):
        if not op.runs or op.ipu is None or op.type in elsewhere or is_container(index, op):
            continue
        if cost.cycles:
            made.append(op_item(index, op, labeled(cost, op.label)))
    return made


def op_item(index: int, op: Op, cost: Cost, kind: str = "") -> Item:
    """Returns the item of an op.

    Args:
        index: of the op.
        op: the op.
        cost: of one run.
        kind: kind of segment, empty for computing ops.
    """
    ipu = op.ipu or 0
    return Item(op.name, kind, ipu, cost, op.runs, index, 0, index, op.stage, op.phase)


def in_order(items: Sequence[Item]) -> list[Item]:
    """Returns items in the order of the program."""
    return sorted(items, key=lambda item: (item.position, item.after))


# --- Times of items one after the other: programs, or parts, without a pipeline ---


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
