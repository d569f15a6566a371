"""Sums over a timeline: cycles by op type, layer, stage and phase; flops and how many of the peak.

Cycles of ops are those of all their runs on the IPU where they run, with transfers that are ops,
such as collectives. They add up to less than the time of the launch where an IPU waits, and to more
where several IPUs work at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.labels import median_label
from tensorflow_ipu.planner.loops import UPDATE
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.resources import CONVOLUTION, family
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.throughput import items_per_second
from tensorflow_ipu.planner.workload import Op

_Key = TypeVar("_Key", bound=Hashable)


class Total(NamedTuple):
    """A sum over some ops.

    Args:
        cycles: of all their runs in one launch.
        ops: number of ops.
        flops: floating-point operations of all their runs, those of ops with a formula.
        label: of the parts that make up most of the cycles.
    """

    cycles: float
    ops: int
    flops: int
    label: Label


class Rates(NamedTuple):
    """How fast a launch is.

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


def by_type(plan: Plan) -> dict[str, Total]:
    """Returns totals by op type, most cycles first."""
    return _totals(plan, lambda op: op.type)


def by_layer(plan: Plan) -> dict[str, Total]:
    """Returns totals by layer, most cycles first; ops in no layer have the empty name."""
    return _totals(plan, lambda op: op.layer)


def by_stage(plan: Plan) -> dict[tuple[int | None, str], Total]:
    """Returns totals by pipeline stage and phase, most cycles first.

    The forward pass has an empty phase. Recomputation is not in them. An update that names no stage
    counts for the first one on its IPU.
    """
    pipeline = plan.workload.pipeline
    first: dict[int | None, int] = {}
    for stage, ipus in enumerate(pipeline.ipus_of_stages if pipeline is not None else ()):
        for ipu in ipus:
            first.setdefault(ipu, stage)

    def key(op: Op) -> tuple[int | None, str]:
        if op.stage is None and op.phase == UPDATE:
            return first.get(op.ipu), op.phase
        return op.stage, op.phase

    return _totals(plan, key)


def rates(plan: Plan) -> Rates:
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


def _totals(plan: Plan, key: Callable[[Op], _Key]) -> dict[_Key, Total]:
    """Totals by a key of ops, most cycles first."""
    cycles: dict[_Key, dict[Label, float]] = {}
    counts: dict[_Key, tuple[int, int]] = {}
    for time in plan.timeline.ops:
        op = plan.workload.ops[time.op]
        group = key(op)
        labels = cycles.setdefault(group, {})
        labels[time.cost.label] = labels.get(time.cost.label, 0.0) + time.cycles
        number, flops = counts.get(group, (0, 0))
        counts[group] = number + 1, flops + (op.flops or 0) * time.runs
    totals = {
        group: Total(sum(labels.values()), *counts[group], median_label(labels))
        for group, labels in cycles.items()
    }
    return dict(sorted(totals.items(), key=lambda entry: -entry[1].cycles))
