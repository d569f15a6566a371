"""Tests of code and vertices of a program: equal ops share theirs."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import MK2
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder

PARTS = ("vertex state", "exchange code", "control code", "vertex code")


def layers(*widths):
    """Products of a batch with square matrices, one after the other."""
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], (64, widths[0]), name="in")
    for number, width in enumerate(widths):
        weight = make.variable(f"w_{number}", (width, width))
        x = make.op("MatMul", [x, weight], (64, width), name=f"layer_{number}/MatMul")
    return make.workload()


def sizes(workload, outlining=True):
    """Bytes per tile of each part."""
    (memory,) = Planner(workload).memory(Settings(chip=MK2, outlining=outlining))
    return {name: int(memory.category(name).tiles[0]) for name in PARTS}


@pytest.mark.parametrize("count", [2, 7])
def test_equal_layers_have_code_and_vertices_of_one(count):
    assert sizes(layers(*[256] * count)) == sizes(layers(256))


def test_without_outlining_each_layer_has_its_own():
    one, three = (sizes(layers(*[256] * count), outlining=False) for count in (1, 3))
    assert three["vertex state"] == 3 * one["vertex state"]
    assert three["control code"] > one["control code"]
    # The code of a vertex type is on a tile once in any case.
    assert three["vertex code"] == one["vertex code"]


def test_layers_of_other_shapes_share_vertex_types_only():
    one, both = sizes(layers(256)), sizes(layers(256, 512))
    assert both["vertex state"] > one["vertex state"]
    assert both["exchange code"] > one["exchange code"]
