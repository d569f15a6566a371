"""Tests of resources of ops: tiles, memory and types."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.program.resources import ResourceTable
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Op
from tests.support.planner.workloads import Builder

SETTINGS = Settings(
    BOW,
    replicas=8,
    io_tiles=64,
    convolution_proportion=0.1,
    matmul_proportion=0.2,
    slice_proportion=0.3,
    convolution_partials="float16",
    stage_options={
        (1, "forward"): {"availableMemoryProportion": "0.45", "partialsType": "half"},
        (1, "backward"): {"availableMemoryProportion": "0.55"},
    },
)


def an_op(op_type, stage=None, phase=""):
    return Op("op", op_type, "", 0, (), (), {}, 1, stage=stage, phase=phase)


@pytest.mark.parametrize(
    ("op_type", "proportion", "partials"),
    [
        ("Conv2D", 0.1, "float16"),
        ("Conv2DBackpropFilter", 0.1, "float16"),
        ("DepthwiseConv2dNative", 0.1, "float16"),
        ("MatMul", 0.2, "float32"),
        ("BatchMatMulV2", 0.2, "float32"),
        ("Relu", 0.2, "float32"),
        ("ResourceGather", 0.3, "float32"),
        ("ScatterNd", 0.3, "float32"),
        ("UnsortedSegmentSum", 0.3, "float32"),
    ],
)
def test_options_apply_to_the_ops_of_their_library(op_type, proportion, partials):
    found = ResourceTable(SETTINGS).of(an_op(op_type))
    assert (found.memory_proportion, found.partials) == (proportion, partials)
    assert (found.chip, found.tiles, found.replicas) == (BOW, 1472 - 64, 8)


@pytest.mark.parametrize(
    ("stage", "phase", "expected"),
    [
        (0, "", (0.2, "float32")),
        (1, "", (0.45, "float16")),
        (1, "backward", (0.55, "float32")),
        (1, "update", (0.2, "float32")),
    ],
)
def test_options_of_stages_override_those_of_the_program(stage, phase, expected):
    found = ResourceTable(SETTINGS).of(an_op("MatMul", stage, phase))
    assert (found.memory_proportion, found.partials) == expected


@pytest.mark.parametrize(("op_type", "proportion"), [("Conv2D", 0.1), ("MatMul", 0.7)])
def test_options_of_one_library_leave_the_others(op_type, proportion):
    settings = SETTINGS.replace(
        stage_options={(0, "forward"): {"matmuls.availableMemoryProportion": "0.7"}}
    )
    assert ResourceTable(settings).of(an_op(op_type, 0)).memory_proportion == proportion


@pytest.mark.parametrize("fault", [ValueError, IndexError, ZeroDivisionError])
def test_fault_of_a_cost_rule_names_the_op(monkeypatch, fault):
    def cost_of(spec, resources):
        raise fault("no such thing")

    monkeypatch.setattr(catalogue, "cost_of", cost_of)
    make = Builder()
    make.op("MatMul", [make.input("x", (4, 4))], (4, 4), name="dense/MatMul", source="train.py:12")
    message = rf"'dense/MatMul' \(MatMul, train.py:12\).*{fault.__name__}: no such thing"
    with pytest.raises(RuntimeError, match=message):
        planning.plan(make.workload(), SETTINGS)
