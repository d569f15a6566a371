"""Programs whose ops carry their own costs, for tests of sums of times."""

from __future__ import annotations

from typing import Any

import pytest

from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule
from tensorflow_ipu.planner.workload import Workload
from tests.support.planner.workloads import Builder


def cost_of(spec: OpSpec, resources: Resources) -> Cost:
    """Cycles of compute, exchange and sync as an op's attributes say, and their label."""
    del resources
    attributes = spec.attributes
    return Cost(
        attributes.get("cycles", 0.0),
        attributes.get("exchange", 0.0),
        attributes.get("sync", 0.0),
        label=Label(attributes.get("label", "modelled")),
    )


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices ops by the costs that they carry."""
    monkeypatch.setattr(catalogue, "cost_of", cost_of)


def op(make: Builder, cycles: float, inputs: Any = (), op_type: str = "Work", **rest: Any) -> int:
    """Adds an op with a number of cycles; returns its result, one number."""
    attributes = {"cycles": float(cycles), **rest.pop("attributes", {})}
    return make.op(op_type, inputs, (), attributes=attributes, **rest)


def pipeline(
    forward: list[float],
    backward: list[float],
    update: list[float],
    count: int,
    schedule: PipelineSchedule = PipelineSchedule.Grouped,
    **description: Any,
) -> Workload:
    """A pipeline with a stage per IPU and one op per stage and phase."""
    stages = len(forward)
    make = Builder(stages)
    start = make.begin("While", trip_count=count)
    for stage in range(stages):
        op(make, forward[stage], ipu=stage, stage=stage, runs=count)
    for stage in reversed(range(stages if backward else 0)):
        op(make, backward[stage], ipu=stage, stage=stage, runs=count, phase="backward")
    for stage in range(stages if update else 0):
        op(make, update[stage], ipu=stage, stage=stage, phase="update")
    make.end(start)
    described = PipelineDescription(
        tuple(range(stages)), count, training=bool(backward), schedule=schedule, **description
    )
    return make.workload(pipeline=described)
