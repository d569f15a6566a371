"""The most important facts of a report, for text, pages and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.planner.details import groups_at_peak
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.time.throughput import range_per_second
from tensorflow_ipu.profiler.breakdown import tensors_at_peak

if TYPE_CHECKING:
    from tensorflow_ipu.tuning.advice.remedies import Remedy

_LARGEST = 10
_HOST_KINDS = ("host in", "host out")


def insights(plan: Plan, remedies: Sequence[Remedy] = ()) -> dict[str, Any]:
    """Returns the findings about a plan, as data for JSON.

    Args:
        plan: memory and time of a program.
        remedies: changes that save memory.

    Returns:
        By name: whether it fits, its fullest tile, largest variables and tensors, bubble share,
        whether the host bounds it, its rates, and the labels of its cycles.
    """
    fullest, timeline, found = plan.fullest, plan.timeline, throughput.of_plan(plan)
    return {
        "fits": bool(plan.fits),
        "worst_ipu": fullest.ipu,
        "worst_tile": fullest.worst_tile,
        "worst_bytes": fullest.worst_bytes,
        "capacity": int(fullest.capacity),
        "memory_share": _share(fullest.worst_bytes, fullest.capacity),
        "largest_variables": _largest_variables(plan),
        "largest_tensors_at_peak": _largest_tensors(plan),
        "bubble_share": timeline.bubble_share,
        "io_bound": io_bound(plan),
        "host_cycles": host_cycles(plan),
        "items_per_second": found.items_per_second,
        "range_per_second": None
        if found.items_per_second is None
        else list(range_per_second(plan)),
        "flops_per_second": found.flops_per_second,
        "utilisation": found.utilisation,
        "share_by_label": {
            label.value: _share(cycles, timeline.cycles)
            for label, cycles in timeline.by_label.items()
        },
        "remedies": [
            {
                "name": remedy.name,
                "instruction": remedy.instruction,
                "saving": int(remedy.saving),
                "worst_bytes": int(remedy.worst),
                "fits": bool(remedy.fits),
                "cycles_ratio": remedy.cycles_ratio,
                "ratio_range": None if remedy.ratio_range is None else list(remedy.ratio_range),
                "label": remedy.label.value,
            }
            for remedy in remedies
        ],
    }


def remedies_of(plan: Plan) -> tuple[Remedy, ...]:
    """Returns changes that make a plan fit, if it does not.

    Args:
        plan: memory and time of a program.
    """
    if plan.fits:
        return ()
    from tensorflow_ipu.tuning.advice import remedies

    return remedies.remedies(plan)


def remedy_text(remedy: Mapping[str, Any]) -> str:
    """Returns a remedy in one line.

    Args:
        remedy: an entry of `remedies` in `insights`.
    """
    effect = "then it fits" if remedy["fits"] else "which is not enough"
    saving = f"{remedy['saving']:,} B less on the fullest tile ({remedy['label']})"
    instruction = " ".join(str(remedy["instruction"]).split())
    return f"{remedy['name']}: {saving}, {effect}. {instruction}"


def host_cycles(plan: Plan) -> float:
    """Returns the cycles of transfers with the host, on the IPU that has most.

    Args:
        plan: memory and time of a program.
    """
    sums: dict[int, float] = {}
    for transfer in plan.timeline.transfers:
        if transfer.kind in _HOST_KINDS:
            sums[transfer.ipu] = sums.get(transfer.ipu, 0.0) + transfer.cycles * transfer.runs
    return float(max(sums.values(), default=0.0))


def io_bound(plan: Plan) -> bool:
    """Returns whether transfers with the host take longer than the other work of the IPU.

    Args:
        plan: memory and time of a program.
    """
    waiting = plan.timeline.by_kind
    work = plan.timeline.cycles - waiting.get("host", 0.0) - waiting.get("idle", 0.0)
    # What the host sends to a machine is waited for, and is in no transfer of an IPU.
    return max(host_cycles(plan), waiting.get("host", 0.0)) > work


def _largest_variables(plan: Plan) -> list[dict[str, Any]]:
    """Returns the variables that take most of a replica's memory."""
    variables = [v for v in plan.workload.variables if not v.offloaded]
    variables.sort(key=lambda variable: -variable.share)
    return [
        {
            "name": variable.name,
            "bytes": variable.share,
            "role": variable.role,
            "ipu": variable.ipu,
            "dtype": variable.dtype,
            "shape": list(variable.shape),
        }
        for variable in variables[:_LARGEST]
    ]


def _largest_tensors(plan: Plan) -> list[dict[str, Any]]:
    """Returns the largest tensors at the peak of the fullest IPU."""
    largest = tensors_at_peak(plan.fullest)[:_LARGEST]
    groups = groups_at_peak(plan.workload, plan.fullest, largest)
    return [
        {
            "name": live.name,
            "bytes": int(live.num_bytes),
            "category": live.category,
            "layer": layer,
            "source": live.source,
        }
        for live, layer in zip(largest, groups)
    ]


def _share(part: float, whole: float) -> float:
    """Returns a part divided by a whole, 0 for a whole of 0."""
    return float(part) / float(whole) if whole else 0.0
