"""Tables of a plan by layer."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.profiler.breakdown import layers_of_variables
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
