"""Tables of a plan by layer."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.breakdown import layer_rows, layers_of_variables
from tests.support.workloads import Builder


def test_a_variable_is_in_the_layer_of_what_uses_it_itself():
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
def test_a_layer_has_the_label_of_what_takes_most_of_its_cycles(width, label):
    make = Builder()
    x = make.input("x", (width, width))
    y = make.op("MatMul", [x, x], (width, width), name="product")
    make.op("NoSuchOp", [make.input("z", (256,)), y], (256,), name="unknown")
    workload = make.workload()
    ops = tuple(dataclasses.replace(op, layer="dense") for op in workload.ops)
    plan = planning.plan(dataclasses.replace(workload, ops=ops), Settings())
    assert {time.cost.label for time in plan.timeline.ops} == {Label.ASSUMED, Label.MODELLED}
    (row,) = [row for row in layer_rows(plan) if row.layer == "dense"]
    assert row.label == label.value
