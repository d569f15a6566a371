"""Throughput of a launch: elements of data per second, FLOP/s, and the share of the peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs import intervals
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.contractions.contraction import arithmetic
from tensorflow_ipu.costs.contractions.float8 import FLOAT8
from tensorflow_ipu.costs.intervals import Interval
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import is_float
from tensorflow_ipu.planner.plan import Plan, Timeline
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.resources import ResourceTable
from tensorflow_ipu.planner.program.structure import mini_batches
from tensorflow_ipu.planner.workload import Op, Workload
from tensorflow_ipu.util import op_names

# --- Throughput of a launch: elements of data, per second, and cycles for each ---


def items_per_launch(workload: Workload) -> int:
    """Returns the elements of data that one replica processes in one launch.

    Args:
        workload: the program. Where its batch size is not known a mini-batch counts as one.
    """
    return (workload.batch or 1) * mini_batches(workload)


def reserved_ipus(ipus: int) -> int:
    """Returns the number of IPUs that a replica occupies: devices have a power of two.

    Args:
        ipus: those that it uses.
    """
    return 1 << (max(1, ipus) - 1).bit_length()


def items_per_second(plan: Plan) -> float:
    """Returns the elements of data that all replicas process in a second.

    Args:
        plan: of the program.
    """
    if not plan.timeline.cycles:
        return 0.0
    items = items_per_launch(plan.workload) * plan.settings.replicas
    return items / plan.timeline.seconds


def interval(plan: Plan) -> Interval:
    """Returns where the measured time of a program lies around its planned time.

    Args:
        plan: of the program.
    """
    return interval_of(plan.workload, plan.timeline)


def interval_of(workload: Workload, timeline: Timeline) -> Interval:
    """Returns the interval of a program by its ops and by the transfers that it waits for.

    Args:
        workload: the program.
        timeline: of one launch.
    """
    return intervals.of_program(parts_of(workload, timeline))


def parts_of(workload: Workload, timeline: Timeline) -> tuple[tuple[Interval, float], ...]:
    """Returns the interval and the cycles of each op and of each transfer that is waited for.

    Ops of one type that take the same time count as one: their errors are the same.

    Args:
        workload: the program.
        timeline: of one launch.
    """
    parts: dict[tuple[str, float], float] = {}
    for time in timeline.ops:
        key = workload.ops[time.op].type, time.cost.cycles
        parts[key] = parts.get(key, 0.0) + time.cycles
    for transfer in timeline.transfers:
        if not transfer.overlapped:
            key = transfer.kind, transfer.cycles
            parts[key] = parts.get(key, 0.0) + transfer.cycles * transfer.runs
    return tuple((intervals.of_op(kind), cycles) for (kind, _), cycles in parts.items())


def range_per_second(plan: Plan) -> tuple[float, float]:
    """Returns the range of `items_per_second` in which eight of ten measurements lie.

    Args:
        plan: of the program.
    """
    return interval(plan).of_rate(items_per_second(plan))


def cycles_per_item(plan: Plan) -> float:
    """Returns cycles of all IPUs of a replica for one element of data.

    A waiting IPU counts too, so this is the cost of a changed program in hardware time.

    Args:
        plan: of the program.
    """
    occupied = reserved_ipus(plan.workload.ipus)
    return plan.timeline.cycles * occupied / items_per_launch(plan.workload)


# Part of the worst tile's bytes that may be assumed before the whole counts as assumed.
_ASSUMED_SHARE = 0.1


def memory_label(plan: Plan) -> Label:
    """Returns the label of the worst tile's bytes, for a program made by changes.

    It was not compiled, so it is `modelled` at best, and `assumed` if much of it is.

    Args:
        plan: of the program.
    """
    fullest = plan.fullest
    assumed = sum(
        int(category.tiles[fullest.worst_tile])
        for category in fullest.categories
        if category.label is Label.ASSUMED
    )
    much = assumed > _ASSUMED_SHARE * fullest.worst_bytes
    return Label.ASSUMED if much else Label.MODELLED


# --- Rates of a launch: FLOP/s, share of the peak, elements per second ---


class Rates(NamedTuple):
    """FLOP/s, utilization and throughput of a launch.

    Args:
        flops: floating-point operations of one replica in one launch, of ops with a formula.
        flops_per_second: of one replica.
        utilisation: share of the time in which the matrix units of the replica's IPUs, at their
            peak for the types of the ops, would do the same; 0 to 1.
        items_per_second: elements of data that all replicas work through; None if the batch size
            is not known.
        label: how far the rates can be trusted, as far as the time is concerned.
    """

    flops: int
    flops_per_second: float
    utilisation: float
    items_per_second: float | None
    label: Label


def of_plan(plan: Plan) -> Rates:
    """Returns the rates of a launch.

    Args:
        plan: of the program.
    """
    timeline, ops = plan.timeline, plan.workload.ops
    resources, chip = ResourceTable(plan.settings), plan.settings.chip
    flops, ideal = 0, 0.0
    timed = {time.op: time.runs for time in timeline.ops}
    for index, runs in (*timed.items(), *_fused(plan.workload, timed)):
        op = ops[index]
        done = (op.flops or 0) * runs
        flops += done
        if done:
            ideal += done / peak_flops(op, resources.of(op).partials, chip)
    seconds = timeline.seconds
    return Rates(
        flops,
        flops / seconds if seconds else 0.0,
        ideal / plan.workload.ipus / seconds if seconds else 0.0,
        items_per_second(plan) if plan.workload.batch else None,
        timeline.label,
    )


def _fused(workload: Workload, timed: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yields the ops of fused groups whose cost the group's last op has, with their runs."""
    ops = enumerate(workload.ops)
    if not any(op.flops and op.ipu is not None and index not in timed for index, op in ops):
        return
    for last, members in fused_maps.find(workload).ops.items():
        if last in timed:
            yield from ((index, timed[last]) for index in members if index not in timed)


def peak_flops(op: Op, partials: str, chip: Chip) -> float:
    """Returns the peak rate of one IPU for the types of an op, in operations per second.

    Multiply-adds of the matrix units, two operations each.

    Args:
        op: the op. The type of its first operand that is not of integers counts.
        partials: type of the sums of float16 products.
        chip: the chip.
    """
    dtype = next((o.dtype for o in op.inputs if is_float(o.dtype)), "float32")
    if op.type in (op_names.FLOAT8_MATMUL, op_names.FLOAT8_CONVOLUTION):
        dtype = FLOAT8
    types = arithmetic(dtype, partials, chip) or ("float32", "float32")
    return chip.peak_flops(amp.unit(chip, *types).macs)
