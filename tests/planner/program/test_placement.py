"""Where ops, buffers and variables are, and where stages that move take them."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.planner.program import placed_workload
from tests.support.planner.workloads import Builder, pipeline, training_step


def test_without_stages_ops_stay_as_placed():
    workload = training_step()
    found = placed_workload.place(workload).placement
    assert found.ipus == 1
    assert not found.ops.any() and not found.buffers.any() and not found.variables.any()


def test_the_host_is_no_ipu():
    make = Builder()
    make.op("Tile", [make.input("x", (8,))], (8,), ipu=None)
    found = placed_workload.place(make.workload()).placement
    assert found.ops.tolist() == [-1]
    assert found.buffers.tolist() == [0, -1]


def test_unused_ipus_are_counted():
    assert placed_workload.place(dataclasses.replace(training_step(), ipus=4)).placement.ipus == 4


def test_stages_take_their_ops_and_variables_along():
    workload = pipeline(3)
    found = placed_workload.place(workload, (2, 0, 5)).placement
    assert found.ipus == 6
    for index, op in enumerate(workload.ops):
        if op.stage is not None:
            assert found.ops[index] == (2, 0, 5)[op.stage]
            for operand in op.outputs:
                assert found.buffers[operand.buffer] == found.ops[index]
    for variable, ipu in zip(workload.variables, found.variables.tolist()):
        assert ipu == (2, 0, 5)[variable.ipu]


def test_parallel_stages_stay_where_they_are():
    workload = pipeline(2)
    parallel = dataclasses.replace(workload.pipeline, device_mapping=((0, 1), 1))
    found = placed_workload.place(dataclasses.replace(workload, pipeline=parallel)).placement
    assert found.ops.tolist() == placed_workload.place(workload).placement.ops.tolist()
