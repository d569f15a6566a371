"""Gradients that stages of a pipeline add to an accumulator by themselves."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import partial_gradients
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder

SHAPE = (512, 256)
BYTES = 4 * 512 * 256


def tied(change="", parts=2, kind="AddN"):
    """A variable of the first and of later stages, all on one IPU, whose gradients are added up."""
    make = Builder(1)
    role = "weight" if change == "weight" else "accumulator"
    accumulator = make.variable("sum", SHAPE, role=role)
    start = make.begin("While", trip_count=8)
    x = make.op("IpuInfeedDequeue", [], (8, 8), name="x", stage=0)
    gradients = []
    for stage in range(parts - 1, -1, -1):
        at = {"stage": 0 if change == "one stage" else stage, "phase": "backward"}
        shape = (512, 1) if change == "spread" and stage else SHAPE
        made = make.op("MatMul", [x], shape, name=f"gradient_{stage}", **at)
        if stage:
            make.op("Identity", [made], alias=made, name=f"passed_{stage}", **at)
        if stage and change == "read":
            make.op("Max", [made], (), name="largest", **at)
        gradients.append(made)
    back = {"stage": 0, "phase": "backward"}
    total = make.op(kind, gradients, SHAPE, name="total", stage=None, phase="backward")
    if change == "norm":
        make.op("Max", [total], (), name="norm", **back)
    make.op("AssignAddVariableOp", [accumulator, total], name="accumulate", **back)
    make.end(start)
    pipeline = None if change == "no pipeline" else PipelineDescription((0,) * parts, 8)
    return make.workload(pipeline=pipeline)


def names(workload):
    """The parts that are found, with the ops that make them."""
    return [
        (workload.buffers[part.buffer].name, workload.ops[part.maker].name)
        for part in partial_gradients.find(workload)
    ]


@pytest.mark.parametrize("kind", ["AddN", "AddV2"])
def test_each_stage_adds_its_own_gradient(kind):
    # That of the last one to come, which accumulates, is there then anyway.
    assert names(tied(kind=kind)) == [("gradient_1", "gradient_1")]


def test_any_number_of_stages():
    assert [name for name, _ in names(tied(parts=4))] == [f"gradient_{s}" for s in (3, 2, 1)]


@pytest.mark.parametrize("change", ["no pipeline", "weight", "one stage", "read", "norm", "spread"])
def test_gradients_that_have_to_wait(change):
    assert names(tied(change)) == []


def test_such_a_gradient_does_not_wait_for_others(monkeypatch):
    workload = tied(parts=3)

    def waiting():
        (found,) = Planner(workload).memory(Settings(ordering="POST_ORDER"))
        at = [workload.ops[op].name for op in found.live_ops.tolist()].index("gradient_0")
        return found.live_bytes[at]

    alone = waiting()
    monkeypatch.setattr(partial_gradients, "find", lambda workload: ())
    assert waiting() - alone == 2 * BYTES
