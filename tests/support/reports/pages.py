"""Programs with layers, loops and tensors, for tests of the pages of reports."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tests.support.planner.workloads import Builder

#: Markup that does something if it becomes part of a page.
HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror=window.hurt=2>\u2028'\"&<!--"


def report(layers: int = 3, width: int = 64, scope: str = "encoder", tiles: int = 64) -> Report:
    """Returns the report of dense layers in a loop of four iterations, with nested name scopes.

    Args:
        layers: number of layers, of which each has two ops with cycles and one name scope.
        width: of the layers.
        scope: the name scope around them.
        tiles: of the chip.
    """
    return Report.from_plan(plan(layers, width, scope, tiles), {"engine": {"option": HOSTILE}})


def plan(layers: int = 3, width: int = 64, scope: str = "encoder", tiles: int = 64) -> Plan:
    """Returns the plan of which `report` returns the report; the same arguments."""
    make = Builder()
    x = make.input("x", (16, width))
    weights = [make.variable(f"{scope}/dense{i}/kernel", (width, width)) for i in range(layers)]
    loop = make.begin("While", [x], alias=x, name="repeat/while", trip_count=4)
    value = x
    for i, weight in enumerate(weights):
        name = f"{scope}/dense{i}"
        value = make.op("MatMul", [value, weight], (16, width), name=f"{name}/MatMul", runs=4)
        value = make.op("Relu", [value], (16, width), name=f"{name}/Relu", runs=4)
    make.end(loop)
    make.op("Neg", [value], (16, width), name="loss/Neg")
    workload = make.workload(batch=16)
    ops = tuple(dataclasses.replace(op, layer=op.name.rpartition("/")[0]) for op in workload.ops)
    settings = Settings(chips.get("mk2").with_tiles(tiles))
    return planning.plan(dataclasses.replace(workload, ops=ops), settings)
