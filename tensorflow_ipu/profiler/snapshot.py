"""Numbers of a report that comparisons and budgets use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report


class Snapshot(NamedTuple):
    """The numbers of a report by name, in total and by layer.

    Args:
        totals: of the whole program: `cycles` of a launch, `worst tile bytes`, `memory bytes` (all
            tiles of all IPUs of a replica), `always live bytes`, `<category> bytes`.
        layers: of each layer: `cycles` of its ops and transfers on all IPUs of a replica, `variable
            bytes`, `flops`, `ops`.
    """

    totals: Mapping[str, float]
    layers: Mapping[str, Mapping[str, float]]


def of_report(report: Report) -> Snapshot:
    """Returns the numbers of a report, whole: cycles rounded, bytes exact.

    Args:
        report: the report.
    """
    plan = report.plan
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
        for row in report.layers()
    }
    return Snapshot(totals, layers)
