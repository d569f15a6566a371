"""Numbers of a Plan that comparisons and budgets use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler import breakdown


class Snapshot(NamedTuple):
    """The numbers of a report by name, in total and by layer.

    Args:
        totals: of the whole program: `cycles` of a launch, `worst tile bytes`, `memory bytes` (all
            tiles of all IPUs of a replica), `always live bytes`, `<category> bytes`.
        layers: of each layer: `cycles`, `variable bytes`, `flops`, `ops`.
    """

    totals: Mapping[str, float]
    layers: Mapping[str, Mapping[str, float]]


def of_plan(plan: Plan) -> Snapshot:
    """Returns the numbers of a plan, whole: cycles rounded, bytes exact.

    Args:
        plan: memory and time of a program.
    """
    totals: dict[str, float] = {
        "cycles": round(plan.timeline.cycles),
        "worst tile bytes": plan.fullest.worst_bytes,
        "memory bytes": sum(ipu.total for ipu in plan.memory),
        "always live bytes": sum(ipu.always_live for ipu in plan.memory),
    }
    for ipu in plan.memory:
        for category in ipu.categories:
            name = f"{category.name} bytes"
            totals[name] = totals.get(name, 0) + category.total
    layers = {
        row.layer: {
            "cycles": round(row.cycles),
            "variable bytes": row.variable_bytes,
            "flops": row.flops,
            "ops": row.ops,
        }
        for row in breakdown.layer_rows(plan)
    }
    return Snapshot(totals, layers)
