"""Rates of a launch: FLOP/s, share of the peak, elements per second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tensorflow_ipu import op_names
from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip import amp
from tensorflow_ipu.costs.contractions.contraction import arithmetic
from tensorflow_ipu.costs.contractions.float8 import FLOAT8
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rules.elementwise import is_float
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.resources import ResourceTable
from tensorflow_ipu.planner.time.throughput import items_per_second
from tensorflow_ipu.planner.workload import Op, Workload


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
