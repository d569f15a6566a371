"""Details of a Plan: its ops in groups, and the summands of its numbers by op and tensor."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.memory.details import TEMPORARIES, MemoryDetails, PlacedResident
from tensorflow_ipu.planner.memory.residents import Resident
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.time.items import Item
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from tensorflow_ipu.planner.plan import IpuMemory, LiveBuffer


_FEEDS = {op_names.INFEED: "infeed", op_names.OUTFEED: "outfeed"}
_SOURCE = re.compile(r"(?P<file>.*):\d+ \((?P<function>.*)\)")


def group(op: Op) -> str:
    """Returns the name of the group that an op is in.

    Args:
        op: the op.

    Returns:
        Its layer; for an op in no layer `infeed`, `outfeed` or the function it was made in, as in
        `step (train.py)`; empty if nothing is known of it.
    """
    if op.layer:
        return op.layer
    found = _SOURCE.fullmatch(op.source)
    function = f"{found['function']} ({found['file']})" if found else ""
    return _FEEDS.get(op.type, function)


def groups_of_buffers(workload: Workload) -> dict[int, str]:
    """Returns the group of each buffer: its producer's, else its first user's.

    Args:
        workload: a program.

    Returns:
        Names by index of the buffer, without buffers that are in no group.
    """
    made: dict[int, str] = {}
    used: dict[int, str] = {}
    for index, op in enumerate(workload.ops):
        if op.end > index + 1:
            continue  # the ops inside say more
        name = group(op)
        for operands, found in ((op.outputs, made), (op.inputs, used)):
            for operand in operands:
                if operand.buffer is not None and name:
                    found.setdefault(operand.buffer, name)
    return {**used, **made}


def groups_at_peak(
    workload: Workload, memory: IpuMemory, live: Sequence[LiveBuffer]
) -> tuple[str, ...]:
    """Returns the group of each of some buffers that are live at the peak of an IPU.

    Args:
        workload: the program.
        memory: of the IPU.
        live: the buffers.

    Returns:
        Names, in the same order; empty for buffers of no op.
    """
    of_buffers = groups_of_buffers(workload)
    of_peak = "" if memory.peak_op is None else group(workload.ops[memory.peak_op])
    return tuple(
        (of_peak if item.category == TEMPORARIES else "")
        if item.buffer is None
        else of_buffers.get(item.buffer, "")
        for item in live
    )


# --- Summands of the numbers of a Plan ---

# Numbers of a cost that memory and time rest on.
_NUMBERS = ("compute", "exchange", "sync", "temporary", "vertex_state", "exchange_code")


@dataclasses.dataclass(frozen=True)
class Details:
    """The ops, transfers and tensors that the memory and time of a Plan are sums of.

    Attributes:
        items: Ops and transfers of a launch, in the order of the program.
        order: Indices of the ops in the order in which they are executed, int32.
        costs: Cost of one run of each op, with the partition that was chosen for it.
        maps: Elementwise ops that are computed as one, by the last of them, which has their cost.
        memory: Of each IPU, tensor by tensor.
        exact: For each IPU, whether `memory` adds up to the memory of the plan. It does not if the
            plan was saved by a version with another memory model.
    """

    items: tuple[Item, ...]
    order: np.ndarray
    costs: tuple[Cost, ...]
    maps: Mapping[int, tuple[int, ...]]
    memory: tuple[MemoryDetails, ...]
    exact: tuple[bool, ...]

    __repr__ = shows(
        lambda self: {
            "items": len(self.items),
            "ops": len(self.order),
            "memory": list(self.memory),
            "exact": all(self.exact),
        }
    )


def details(plan: Plan) -> Details:
    """Returns the summands of a plan, from its program and settings.

    Costs and sizes of code come from the plan, also if an earlier version saved it. Other values
    are planned again.

    Args:
        plan: memory and time of a program.
    """
    planner = Planner(plan.workload)
    found = planner.maps(plan.settings)
    costs = _costs(plan, found)
    items, order, memory = planner.details(plan.settings, costs)
    memory = tuple(_with_code(*pair) for pair in zip(memory, plan.memory))
    exact = tuple(_adds_up(*pair) for pair in zip(memory, plan.memory))
    timed = {time.op for time in plan.timeline.ops}
    maps = {
        last: members
        for last, members in found.ops.items()
        if last in timed and timed.isdisjoint(members[:-1])
    }
    return Details(items, order, costs, maps, memory, exact)


def _costs(plan: Plan, maps: FusedMaps) -> tuple[Cost, ...]:
    """Returns the costs of the ops: the plan's where they differ from the rules'."""
    ops = plan.workload.ops
    found = list(costs_of(plan.workload, plan.settings, maps))
    for time in plan.timeline.ops:
        op = ops[time.op]
        if op.ipu is None or op.type in op_names.TRANSFERS:
            continue  # its cost is the transfer's
        if any(getattr(found[time.op], n) != getattr(time.cost, n) for n in _NUMBERS):
            found[time.op] = time.cost
    return tuple(found)


def _with_code(detail: MemoryDetails, memory: IpuMemory) -> MemoryDetails:
    """Returns an IPU's memory with the code, stacks and gaps of its plan."""
    tensors = [placed for placed in detail.residents if not placed.is_code]
    known = {placed.resident.category for placed in tensors}
    code = [
        PlacedResident(Resident(c.name, c.name, c.total, c.label), c.tiles)
        for c in memory.categories
        if c.always_live and c.name not in known
    ]
    return dataclasses.replace(detail, residents=(*tensors, *code))


def _adds_up(detail: MemoryDetails, memory: IpuMemory) -> bool:
    """Returns whether the details of an IPU sum to its plan's live and resident bytes."""
    if not np.array_equal(detail.steps, memory.live_ops):
        return False
    change = np.zeros(len(detail.steps) + 1, np.int64)
    for stretch in detail.stretches:
        change[stretch.birth] += stretch.num_bytes
        change[stretch.death + 1] -= stretch.num_bytes
    curve = np.cumsum(change[:-1]) + detail.temporaries * detail.temporary_tiles
    always = sum(placed.resident.num_bytes for placed in detail.residents)
    return np.array_equal(curve, memory.live_bytes) and always == memory.always_live
