"""Which ops are counted."""

from __future__ import annotations

import numpy as np
import pytest

from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.program.structure import wholes
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.stages import stage_split
from tests.support.planner import real_programs
from tests.support.planner.workloads import Builder


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
    assert np.flatnonzero(structure.taken(nested(), np.array(cycles))).tolist() == counted


def test_branches_without_numbers_all_count():
    make = Builder()
    branch = make.begin("If")
    make.op("Work")
    make.op("Work")
    make.end(branch)
    assert structure.taken(make.workload(), np.ones(3)).all()


def test_the_smallest_region_around_ops_is_found():
    ops = nested().ops
    assert structure.enclosing(ops, [1]) == (1, 7)
    assert structure.enclosing(ops, [3, 4]) == (3, 5)
    assert structure.enclosing(ops, [4, 6]) == (1, 7)
    assert structure.enclosing(ops, [1, 7]) == (0, 8)


def test_function_contents_exist_once_per_calling_ipu():
    make = Builder()
    for ipu, outlined in ((0, "f"), (0, "f"), (1, "f"), (0, None), (0, "g")):
        attributes = {} if outlined is None else {"outlined": outlined}
        call = make.begin("PartitionedCall", ipu=ipu, attributes=attributes)
        make.op("Work", ipu=ipu)
        make.end(call)
    assert structure.repeated(make.workload().ops) == {3}


# --- Tests of which layers are parts of another ---

_ATTENTION = {f"att/{part}": True for part in ("query", "key", "value", "output")}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        # Attention computes between its projections.
        ({"in": True, **_ATTENTION, "att": False, "out": True}, dict.fromkeys(_ATTENTION, "att")),
        # A scope without ops of its own is no layer.
        ({"in": True, **_ATTENTION, "out": True}, {}),
        # What has all layers is the model.
        ({"net/a": True, "net/b": True, "net": False}, {}),
        # What has most of many is the trunk of it.
        ({**{f"net/{i}": True for i in range(9)}, "net": False, "out": True}, {}),
        # The outermost layer counts, names that only begin alike do not.
        (
            {"a": True, "a/b": False, "a/b/c": True, "ab": True, "d": True},
            {"a/b": "a", "a/b/c": "a"},
        ),
        ({}, {}),
    ],
)
def test_parts_belong_to_the_layer_around_them(layers, expected):
    assert wholes(layers) == expected


def test_attention_is_in_one_stage():
    """Keras sets the stage of a layer by its call, so none can begin inside of attention."""
    found = stage_split.split(real_programs.workload("attention", 4), Settings(), 3)
    names = [name for stage in found.stages for name in stage.layers]
    assert "multi_head_attention" in names
    assert not any("/" in name for name in names)
