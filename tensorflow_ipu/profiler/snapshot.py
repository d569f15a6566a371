"""The numbers of a plan that comparisons and budgets look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.workload import VARIABLE, Workload

# Layer of what belongs to none.
NO_LAYER = "(no layer)"


class Snapshot(NamedTuple):
    """Numbers by name.

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
    return Snapshot(totals, _layers(plan))


def _layers(plan: Plan) -> dict[str, dict[str, float]]:
    """The numbers of each layer, in program order."""
    workload = plan.workload
    layers: dict[str, dict[str, float]] = {}

    def add(layer: str, metric: str, number: float) -> None:
        numbers = layers.setdefault(
            layer or NO_LAYER, {"cycles": 0, "variable bytes": 0, "flops": 0, "ops": 0}
        )
        numbers[metric] += number

    for op in workload.ops:
        add(op.layer, "ops", 1)
        add(op.layer, "flops", (op.flops or 0) * op.runs)
    for time in plan.timeline.ops:
        add(workload.ops[time.op].layer, "cycles", time.cycles)
    for variable, layer in layers_of_variables(workload).items():
        add(layer, "variable bytes", workload.variables[variable].share)
    for numbers in layers.values():
        numbers["cycles"] = round(numbers["cycles"])
    return layers


def layers_of_variables(workload: Workload) -> dict[int, str]:
    """Returns the layer of each variable: that of the first op which uses it and has one.

    Args:
        workload: a program.

    Returns:
        Names of layers by index of the variable, empty for variables without a layer.
    """
    found = dict.fromkeys(range(len(workload.variables)), "")
    for op in workload.ops:
        for operand in (*op.inputs, *op.outputs):
            if operand.buffer is None or not op.layer:
                continue
            buffer = workload.buffers[operand.buffer]
            if buffer.kind == VARIABLE and buffer.variable is not None:
                found[buffer.variable] = found[buffer.variable] or op.layer
    return found
