"""Tables of a plan by layer."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler import comparison
from tensorflow_ipu.profiler.breakdown import layers_of_variables
from tensorflow_ipu.profiler.export import text_report
from tensorflow_ipu.profiler.report import Report
from tests.support.planner.workloads import Builder, pipeline


def test_variable_is_in_layer_of_its_use():
    make = Builder()
    state = make.variable("m/dense/kernel", (4, 4), role="optimizer state")
    update = make.begin("If", [state], name="update", phase="update")
    make.op("AssignAddVariableOp", [state, make.input("x", (4, 4))], name="add")
    make.end(update)
    workload = make.workload()
    # The branch in which all variables are updated has a layer of its own.
    layers = {"update": "train/counter", "add": "dense"}
    ops = tuple(dataclasses.replace(op, layer=layers[op.name]) for op in workload.ops)
    assert layers_of_variables(dataclasses.replace(workload, ops=ops)) == {0: "dense"}


@pytest.mark.parametrize(("width", "label"), [(2, Label.ASSUMED), (4096, Label.MODELLED)])
def test_layer_has_label_of_most_cycles(width, label):
    make = Builder()
    x = make.constant("x", (width, width))
    y = make.op("MatMul", [x, x], (width, width), name="product")
    make.op("NoSuchOp", [make.constant("z", (1 << 20,)), y], (1 << 20,), name="unknown")
    workload = make.workload()
    ops = tuple(dataclasses.replace(op, layer="dense") for op in workload.ops)
    plan = planning.plan(dataclasses.replace(workload, ops=ops), Settings())
    assert {time.cost.label for time in plan.timeline.ops} == {Label.ASSUMED, Label.MODELLED}
    (row,) = [row for row in Report.from_plan(plan).layers() if row.layer == "dense"]
    assert row.label == label.value


@pytest.mark.parametrize("offloaded", [False, True])
def test_layers_have_all_cycles_of_operations(offloaded):
    workload = pipeline(2, count=8)
    variables = tuple(
        v._replace(offloaded=offloaded and v.role == "accumulator") for v in workload.variables
    )
    report = Report.from_plan(
        planning.plan(dataclasses.replace(workload, variables=variables), Settings())
    )
    total = sum(row.cycles for row in report.operations())
    streamed = sum(row.cycles for row in report.operations() if row.type.startswith("streaming"))
    assert (streamed > 0) == offloaded
    rows, nodes = report.layers(), report.layer_tree()
    assert sum(row.cycles for row in rows) == pytest.approx(total) == nodes[0].cycles
    numbers = comparison.of_report(report).layers
    assert {row.layer: round(row.cycles) for row in rows} == {
        name: layer["cycles"] for name, layer in numbers.items()
    }
    # Two IPUs work at the same time: the text tells their sum from the time of the launch.
    launch = report.plan.timeline.cycles
    note = f"2 IPUs of a replica: {total:,.0f} in all, beside {launch:,.0f} of a launch"
    assert total > launch and text_report.text(report).count(note) == 2
