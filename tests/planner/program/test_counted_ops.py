"""Which ops are counted."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.planner.program import counted_ops
from tests.support.workloads import Builder


def nested():
    """A conditional whose second branch has another one and a loop."""
    make = Builder()
    outer = make.begin("Case")  # 0
    make.op("Work", branch=0)  # 1
    inner = make.begin("If", branch=1)  # 2
    make.op("Work", branch=0)  # 3
    make.op("Work", branch=1)  # 4
    make.end(inner)
    loop = make.begin("While", branch=1)  # 5
    make.op("Work", branch=1)  # 6
    make.end(loop)
    make.end(outer)
    make.op("Work")  # 7
    return make.workload()


@pytest.mark.parametrize(
    ("cycles", "counted"),
    [
        ([0, 9, 0, 1, 2, 0, 3, 4], [0, 1, 7]),
        ([0, 9, 0, 1, 8, 0, 3, 4], [0, 2, 4, 5, 6, 7]),
        ([0, 9, 0, 8, 7, 0, 3, 4], [0, 2, 3, 5, 6, 7]),
        ([0, 5, 0, 1, 2, 0, 3, 4], [0, 1, 7]),
    ],
    ids=["first", "inner second", "inner first", "equal"],
)
def test_the_dearest_branch_counts(cycles, counted):
    assert np.flatnonzero(counted_ops.taken(nested(), np.array(cycles))).tolist() == counted


def test_branches_without_numbers_all_count():
    make = Builder()
    branch = make.begin("If")
    make.op("Work")
    make.op("Work")
    make.end(branch)
    assert counted_ops.taken(make.workload(), np.ones(3)).all()


def test_the_smallest_region_around_ops_is_found():
    ops = nested().ops
    assert counted_ops.enclosing(ops, [1]) == (1, 7)
    assert counted_ops.enclosing(ops, [3, 4]) == (3, 5)
    assert counted_ops.enclosing(ops, [4, 6]) == (1, 7)
    assert counted_ops.enclosing(ops, [1, 7]) == (0, 8)


def test_what_a_function_has_is_there_once_for_each_ipu_that_calls_it():
    make = Builder()
    for ipu, outlined in ((0, "f"), (0, "f"), (1, "f"), (0, None), (0, "g")):
        attributes = {} if outlined is None else {"outlined": outlined}
        call = make.begin("PartitionedCall", ipu=ipu, attributes=attributes)
        make.op("Work", ipu=ipu)
        make.end(call)
    assert counted_ops.repeated(make.workload().ops) == {3}
