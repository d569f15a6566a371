"""Tests of the tree of layers: the sums of a scope are the sums of its content."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.profiler.report import Report
from tests.support.planner.workloads import Builder, pipeline, pipelines, training_step, workloads

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


# --- Tests of the tree of executed steps: loops, branches, stages, transfers, in order ---

FAST = settings(max_examples=15, derandomize=True, deadline=None)


def report_of(make: Builder, chosen: Settings | None = None) -> Report:
    return Report.from_plan(plan(make.workload(), chosen or Settings()))


def shown(report: Report) -> list[tuple[int, str, str]]:
    return [(node.depth, node.kind, node.name) for node in report.program_tree()]


def test_loops_calls_and_branches_enclose_contents():
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], (64, 64), name="feed")
    outer = make.begin("While", [x], name="loop", trip_count=3)
    call = make.begin("PartitionedCall", [x], name="call", runs=3)
    make.op("Relu", [x], (64, 64), name="inner", runs=3)
    make.end(call)
    branch = make.begin("If", [x], name="if", runs=3)
    y = make.op("Tanh", [x], (64, 64), name="then", runs=3)
    make.op("Relu", [x], (64, 64), name="else", runs=3, branch=1)
    make.end(branch)
    make.end(outer)
    make.op("IpuOutfeedEnqueue", [y], name="out")
    report = report_of(make, Settings(prefetch=False))
    # Of the branches the dearest is counted, and the other takes no time.
    assert shown(report) == [
        (0, "program", "test"),
        (1, "host in", "feed"),
        (1, "loop", "loop"),
        (2, "call", "call"),
        (3, "op", "inner"),
        (2, "conditional", "if"),
        (3, "branch", "branch 0"),
        (4, "op", "then"),
        (1, "host out", "out"),
    ]
    assert [node.trips for node in report.program_tree() if node.kind == "loop"] == [3]


def test_transfers_are_where_they_are_made():
    make = Builder()
    x = make.input("x", (1 << 14,))
    weight = make.variable("w", (1 << 14,), offloaded=True)
    make.op("Relu", [x], (1 << 14,), name="before")
    make.op("AssignAddVariableOp", [weight, x], name="update", phase="update")
    make.op("IpuCrossReplicaSum", [x], (1 << 14,), name="sum")
    report = report_of(make, Settings(replicas=2))
    assert shown(report)[1:] == [
        (1, "host in", "x"),
        (1, "op", "before"),
        (1, "streaming in", "w"),
        (1, "op", "update"),
        (1, "streaming out", "w"),
        (1, "collective", "sum"),
    ]


def test_a_pipeline_has_its_stages_by_phase():
    tree = Report.from_plan(plan(pipeline(2, count=8), Settings())).program_tree()
    stages = [node.name for node in tree if node.kind == "stage"]
    assert len(set(stages)) == len(stages)  # whatever stands between the ops of a stage
    assert stages[:4] == [
        "stage0, forward", "stage1, forward", "stage1, backward", "stage0, backward",
    ]  # fmt: skip
    assert any("update" in name for name in stages)
    assert {node.runs for node in tree if node.kind == "stage" and "ward" in node.name} == {8}


@given(workload=st.one_of(workloads(), pipelines()), recompute=st.booleans())
@FAST
def test_each_operation_is_executed_once(workload, recompute):
    report = Report.from_plan(plan(workload, Settings(recompute=recompute)))
    tree, rows = report.program_tree(), report.operations()
    assert sorted(n.row for n in tree if n.row is not None) == list(range(len(rows)))
    assert tree[0].cycles == pytest.approx(sum(row.cycles for row in rows))
    for position, node in enumerate(tree):
        assert position < node.end <= len(tree)
        inner = [n for n in tree[position + 1 : node.end] if n.depth == node.depth + 1]
        if node.row is None:
            assert node.cycles == pytest.approx(sum(n.cycles for n in inner))
            assert inner or not position
        else:
            assert node.end == position + 1 and node.cycles == rows[node.row].cycles
