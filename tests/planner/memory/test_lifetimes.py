"""The order of a program is chosen by the memory that it takes in that order."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner.memory import lifetimes
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.schedule import PipelineDescription
from tests.support.workloads import Builder, training_step

BACK = {"ipu": 0, "stage": 0, "phase": "backward"}
TENSOR = 4 * 64 * 64


def layers(count):
    """A stage of dense layers whose weights' gradients the program makes after all others."""
    make = Builder(2)
    shape = (64, 64)
    sums = [make.variable(f"sum_{i}", shape, role="accumulator") for i in range(count)]
    start = make.begin("While", trip_count=8)
    x = make.op("IpuInfeedDequeue", [], shape, name="x", ipu=0, stage=0)
    inputs = []
    for number in range(count):
        inputs.append(x)
        x = make.op("MatMul", [x], shape, name=f"layer_{number}", ipu=0, stage=0)
    g = make.op("MatMul", [x], shape, name="loss", ipu=1, stage=1)
    gradients = []
    for number in reversed(range(count)):
        gradients.append((number, g))
        if number:
            g = make.op("MatMul", [g], shape, name=f"gradient_{number}", **BACK)
    for number, g in gradients:
        made = make.op("MatMul", [inputs[number], g], shape, name=f"weight_{number}", **BACK)
        make.op("AssignAddVariableOp", [sums[number], made], name=f"add_{number}", **BACK)
    update = make.begin("If", sums, phase="update")
    for number in range(count):
        make.op("Max", [sums[number]], (), name=f"update_{number}", conditional=True)
    make.end(update)
    make.end(start)
    return make.workload(pipeline=PipelineDescription((0, 1), 8))


@pytest.mark.parametrize("ordering", ["POST_ORDER", "CHOOSE_BEST"])
def test_gradients_of_weights_come_as_soon_as_they_can(ordering):
    workload = layers(6)
    found = Planner(workload).memory(Settings(recompute=True, ordering=ordering))[0]
    names = [workload.ops[op].name for op in found.live_ops.tolist()]
    for number in range(1, 6):
        assert names.index(f"add_{number}") < names.index(f"gradient_{number}")


def test_recomputation_takes_part_in_the_choice():
    placed = placed_workload.place(layers(6))
    found = lifetimes.find(placed, "CHOOSE_BEST")
    for recompute in (False, True):
        chosen = lifetimes.best(found, recompute)
        assert chosen.peak(recompute) == min(each.peak(recompute) for each in found)
    # A pipeline's stash counts, and that of what can be made again is smaller.
    assert lifetimes.best(found, True).peak(True) < lifetimes.best(found, False).peak(False)


def test_the_peak_is_that_of_the_plan():
    placed = placed_workload.place(training_step(layers=4))
    chosen = lifetimes.best(lifetimes.find(placed, "CHOOSE_BEST"), False)
    (memory,) = Planner(placed.workload).memory(Settings())
    temporaries = memory.live_bytes.max() - chosen.peak(False)
    # The plan's curve has the temporary memory of the ops besides.
    assert 0 <= temporaries < memory.live_bytes.max()


def test_orders_are_found_once_for_all_settings(monkeypatch):
    planner, found = Planner(layers(2)), []
    whole = lifetimes.find
    monkeypatch.setattr(lifetimes, "find", lambda *a: found.append(a) or whole(*a))
    for recompute in (False, True, False):
        planner.memory(Settings(recompute=recompute))
    assert len(found) == 1
