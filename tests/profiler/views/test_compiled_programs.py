"""Tests of reports of programs that were really compiled."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import real_programs


@pytest.mark.parametrize(("name", "replicas"), [("lstm", 1), ("attention", 2)])
def test_everything_adds_up(name, replicas):
    workload = real_programs.workload(name, 4, replicas)
    report = Report.from_plan(plan(workload, Settings(replicas=replicas)))
    assert all(report.view.details.exact)
    cycles = report.plan.timeline.cycles
    for total in (
        sum(row.cycles for row in report.operations()),
        report.layer_tree()[0].cycles,
        report.program_tree()[0].cycles,
        sum(span.length for span in report.view.spans()[0].spans),
    ):
        assert total == pytest.approx(cycles)
    (memory,) = report.plan.memory
    assert sum(report.tensors_on(memory.worst_tile).values()) == memory.worst_bytes
    (peak,) = [i for i, op in enumerate(memory.live_ops.tolist()) if op == memory.peak_op]
    at_peak = {t.num_bytes for t in report.tensors_at(peak) if t.category == "activations"}
    assert at_peak == {b.num_bytes for b in memory.at_peak if b.category == "activations"}


def test_recurrent_layer_is_a_loop_in_a_call():
    workload = real_programs.workload("lstm", 4, 1)
    report = Report.from_plan(plan(workload, Settings()))
    tree = report.program_tree()
    loops = [(node.depth, node.trips) for node in tree if node.kind == "loop"]
    # The loop over steps, in it the layer's loop over its 6 time steps and that of its gradient.
    assert loops == [(1, real_programs.STEPS), (3, 6), (3, 6)]
    products = [row for row in report.operations() if row.type == "MatMul"]
    assert {row.layer for row in products} == {"lstm", "dense"}
    assert {row.runs for row in products} == {6 * real_programs.STEPS, real_programs.STEPS}
    assert all("partials float32" in row.partition for row in products)


def test_gradients_of_replicas_are_summed_over_links():
    workload = real_programs.workload("attention", 4, 2)
    report = Report.from_plan(plan(workload, Settings(replicas=2)))
    sums = [row for row in report.operations() if row.type == "IpuCrossReplicaSum"]
    assert sums and {row.bound for row in sums} == {"link"}
    kinds = report.plan.timeline.by_kind
    assert sum(row.transfer for row in sums) == pytest.approx(kinds["collective"])
    layers = {node.path for node in report.layer_tree()}
    assert {"multi_head_attention", "multi_head_attention/query"} <= {
        path.replace("_1", "").replace("_2", "") for path in layers
    }
