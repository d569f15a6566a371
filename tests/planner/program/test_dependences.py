"""Tests of ops with side effects, which keep their order."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner.program.dependences import effect, graph
from tensorflow_ipu.planner.program.placed_workload import place
from tensorflow_ipu.util import op_names
from tests.support.planner.workloads import Builder


@pytest.mark.parametrize("op_type", sorted(op_names.COLLECTIVES))
def test_collectives_stay_in_order(op_type):
    make = Builder()
    for name in ("first", "second"):
        make.op(op_type, [make.input(f"{name} value", (4,))], (4,), name=name)
    workload = make.workload()
    (region,) = graph(workload, place(workload).accesses).regions
    assert [list(before) for before in region.before] == [[], [0]]


def test_plain_ops_have_no_effect():
    make = Builder()
    make.op("Add", [make.input("x", (4,))], (4,))
    assert effect(make.workload().ops[0]) == ""
