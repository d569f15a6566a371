"""The names under which reports add up ops."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.planner import op_groups
from tensorflow_ipu.planner.plan import LiveBuffer
from tensorflow_ipu.planner.workload import Op
from tests.support.planner import plans


def _op(op_type: str = "Mul", layer: str = "", source: str = "") -> Op:
    return Op("op", op_type, layer, 0, (), (), {}, 1, source=source)


@pytest.mark.parametrize(
    "op, group",
    [
        (_op(layer="dense", source="train.py:12 (step)"), "dense"),
        (_op(source="train.py:12 (step)"), "step (train.py)"),
        (_op(source="my file (2).py:12 (<lambda>)"), "<lambda> (my file (2).py)"),
        (_op("IpuInfeedDequeue", source="train.py:12 (step)"), "infeed"),
        (_op("IpuOutfeedEnqueue"), "outfeed"),
        (_op(), ""),
    ],
)
def test_an_op_is_grouped_by_layer_or_function(op: Op, group: str) -> None:
    assert op_groups.group(op) == group


def test_groups_of_what_is_live() -> None:
    plan = plans.plan()
    memory = plan.memory[0]
    live = (
        *memory.at_peak,
        LiveBuffer(None, "temporaries of gradients/dense/MatMul", "temporaries", 1, ""),
        LiveBuffer(None, "stack", "stack", 1, ""),
    )
    # The kernel is the dense layer's, which is the first to use it; the peak is at the gradient.
    found = op_groups.groups_at_peak(plan.workload, memory, live)
    assert found == ("dense", "dense", "dense", "")
    nowhere = dataclasses.replace(memory, peak_op=None)
    assert op_groups.groups_at_peak(plan.workload, nowhere, live)[2] == ""
