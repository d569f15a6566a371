"""Tests of the tree of layers: the sums of a scope are the sums of its content."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler.report import Report
from tests.support.planner.workloads import training_step

LAYERS = {"0": "encoder/block/first", "1": "encoder/block/second", "2": "head"}


def nested() -> Workload:
    """A training step whose layers are in scopes."""
    workload = training_step()

    def layer(name: str) -> str:
        found = re.search(r"(?:dense|update)(\d)", name)
        return LAYERS[found.group(1)] if found else ""

    ops = tuple(dataclasses.replace(op, layer=layer(op.name)) for op in workload.ops)
    return dataclasses.replace(workload, ops=ops)


@pytest.fixture(scope="module")
def report() -> Report:
    return Report.from_plan(plan(nested(), Settings()))


def test_layers_are_in_their_scopes(report):
    tree = report.layer_tree()
    # What is in no layer stands under the function that made it.
    assert [(node.path, node.depth) for node in tree] == [
        ("", 0), ("encoder", 1), ("encoder/block", 2), ("encoder/block/first", 3),
        ("encoder/block/second", 3), ("head", 1), ("step (model.py)", 1),
    ]  # fmt: skip
    assert [node.parent for node in tree] == [None, 0, 1, 2, 2, 0, 0]
    assert [node.end for node in tree] == [7, 5, 5, 4, 5, 6, 7]


def test_layers_add_up(report):
    tree = report.layer_tree()
    for position, node in enumerate(tree):
        inner = [tree[i] for i in range(position + 1, node.end) if tree[i].parent == position]
        own = [row for row in report.operations() if row.layer == node.path]
        assert node.own_cycles == pytest.approx(sum(row.cycles for row in own))
        for name in ("cycles", "compute", "exchange", "sync", "transfer"):
            total = sum(getattr(part, name) for part in (*inner, *own))
            assert getattr(node, name) == pytest.approx(total)
        assert node.forward + node.backward + node.update == pytest.approx(node.cycles)
        assert node.temporary == max((part.temporary for part in (*inner, *own)), default=0)


def test_the_root_is_the_whole_program(report):
    root, workload = report.layer_tree()[0], report.workload
    assert root.cycles == pytest.approx(report.plan.timeline.cycles)
    assert root.share == pytest.approx(1)
    assert root.ops == len(workload.ops)
    assert root.variable_bytes == sum(variable.share for variable in workload.variables)


def test_layers_have_cycles_of_table_of_layers(report):
    nodes = {node.path: node for node in report.layer_tree()}
    for row in report.layers():
        node = nodes[row.layer]
        assert node.own_cycles == pytest.approx(row.cycles)
        assert node.variable_bytes == row.variable_bytes
        assert node.activation_bytes == row.activation_bytes


def test_scopes_may_begin_with_a_slash():
    workload = nested()
    ops = tuple(dataclasses.replace(op, layer=f"/{op.layer}") for op in workload.ops)
    made = plan(dataclasses.replace(workload, ops=ops), Settings())
    paths = [node.path for node in Report.from_plan(made).layer_tree()]
    assert "encoder/block/first" in paths and "head" in paths
