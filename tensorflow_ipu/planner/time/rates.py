"""Rates of a launch: FLOP/s, share of the peak, elements per second."""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.resources import CONVOLUTION, family
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time.throughput import items_per_second
from tensorflow_ipu.planner.workload import Op


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
    """Returns how fast a launch is.

    Args:
        plan: of the program.
    """
    timeline, ops = plan.timeline, plan.workload.ops
    flops, ideal = 0, 0.0
    for time in timeline.ops:
        op = ops[time.op]
        done = (op.flops or 0) * time.runs
        flops += done
        ideal += done / peak_flops(op, plan.settings)
    seconds = timeline.seconds
    return Rates(
        flops,
        flops / seconds if seconds else 0.0,
        ideal / plan.workload.ipus / seconds if seconds else 0.0,
        items_per_second(plan) if plan.workload.batch else None,
        timeline.label,
    )


def peak_flops(op: Op, settings: Settings) -> float:
    """Returns the peak rate of one IPU for the type of an op, in operations per second.

    Args:
        op: the op. The type of its first operand counts, and for float16 that of the sums.
        settings: what the program is planned for.
    """
    chip: Chip = settings.chip
    of_convolution = family(op.type) == CONVOLUTION
    partials = settings.convolution_partials if of_convolution else settings.matmul_partials
    half = any(operand.dtype == "float16" for operand in op.inputs[:1])
    if not half:
        return chip.peak_flops(chip.float_macs_per_cycle)
    by_partials = chip.half_macs_per_cycle if partials == "float16" else chip.mixed_macs_per_cycle
    return chip.peak_flops(by_partials)
