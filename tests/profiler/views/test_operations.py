"""What takes cycles adds up to the cycles of the launch."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.costs import intervals
from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Copy
from tensorflow_ipu.profiler.report import Report
from tests.support.planner.workloads import Builder, chain, loop, pipeline, training_step, workloads

FAST = settings(max_examples=15, derandomize=True, deadline=None)
SETTINGS = st.builds(
    Settings,
    replicas=st.sampled_from([1, 2, 4]),
    prefetch=st.booleans(),
    recompute=st.booleans(),
)


def cycles_of_ipu(report: Report, ipu: int) -> float:
    """What an IPU does, and what it waits for others."""
    idle = sum(s.cycles for s in report.plan.timeline.segments if s.kind == "idle" and s.ipu == ipu)
    return idle + sum(row.cycles for row in report.operations() if ipu in (row.ipu, row.peer))


@given(workload=workloads(ipus=1), chosen=SETTINGS)
@FAST
def test_operations_of_an_ipu_add_up_to_the_launch(workload, chosen):
    report = Report.from_plan(plan(workload, chosen))
    assert cycles_of_ipu(report, 0) == pytest.approx(report.plan.timeline.cycles)
    shares = sum(row.share for row in report.operations())
    assert shares == pytest.approx(1) or not report.operations()


@given(workload=workloads(), chosen=SETTINGS)
@FAST
def test_each_operation_is_the_sum_of_its_parts(workload, chosen):
    report = Report.from_plan(plan(workload, chosen))
    timeline = report.plan.timeline
    rows = report.operations()
    assert [row.cycles for row in rows] == sorted((row.cycles for row in rows), reverse=True)
    for row in rows:
        parts = row.compute + row.exchange + row.sync + row.transfer
        assert parts == pytest.approx(row.cycles)
        assert row.roofline is None or 0 <= row.roofline <= 1
    of_ops = sorted((row.op, row.cycles) for row in report.ops())
    assert of_ops == sorted((time.op, time.cycles) for time in timeline.ops)


def test_what_is_waited_for_at_the_end_is_an_operation():
    make = Builder()
    start = make.begin("While", trip_count=100)
    make.op("IpuInfeedDequeue", [], (1 << 20,), name="infeed", runs=100)
    make.end(start)
    report = Report.from_plan(plan(make.workload(), Settings()))
    rows = {row.name: row for row in report.operations()}
    assert set(rows) == {"infeed", "wait for host in"}
    assert rows["wait for host in"].bound == rows["infeed"].bound == "host"
    assert cycles_of_ipu(report, 0) == pytest.approx(report.plan.timeline.cycles)


def test_a_copy_keeps_both_ipus_busy():
    make = Builder(2)
    x = make.input("x", (1 << 16,))
    y = make.op("Relu", [x], (1 << 16,), name="y")
    make.op("Relu", [y], (1 << 16,), name="z", ipu=1)
    workload = dataclasses.replace(make.workload(), copies=(Copy("y:0", 0, 1, 4 << 16, 1),))
    report = Report.from_plan(plan(workload, Settings()))
    (link,) = [row for row in report.operations() if row.type == "link"]
    assert (link.ipu, link.peer, link.bound, link.num_bytes) == (0, 1, "link", 4 << 16)
    assert 0 < link.roofline < 1
    for ipu in (0, 1):
        assert cycles_of_ipu(report, ipu) == pytest.approx(report.plan.timeline.cycles)


def test_variables_off_the_chip_come_and_go():
    make = Builder()
    weight = make.variable("w", (1 << 16,), offloaded=True)
    make.op("AssignAddVariableOp", [weight, make.input("x", (1 << 16,))], phase="update")
    report = Report.from_plan(plan(make.workload(), Settings()))
    rows = {row.type: row for row in report.operations()}
    assert {"streaming in", "streaming out", "host in"} <= set(rows)
    assert rows["streaming in"].name == rows["streaming out"].name == "w"
    assert rows["streaming in"].place < rows["AssignAddVariableOp"].place
    assert rows["streaming out"].place > rows["AssignAddVariableOp"].place


def test_a_pipeline_counts_each_mini_batch():
    workload = pipeline(2, count=8)
    report = Report.from_plan(plan(workload, Settings()))
    products = [row for row in report.ops() if row.type == "MatMul"]
    assert {row.runs for row in products} == {8}
    assert {row.stage for row in products} == {0, 1}


@pytest.mark.parametrize("make", [chain, loop, training_step])
def test_a_saved_report_has_the_same_operations(make, tmp_path):
    report = Report.from_plan(plan(make(), Settings()))
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path).operations() == report.operations()


def test_the_range_is_that_of_measurements_of_the_kind():
    report = Report.from_plan(plan(training_step(), Settings()))
    row = next(row for row in report.ops() if row.type == "MatMul")
    assert row.range == intervals.of_op("MatMul").of_time(row.cycles)


def test_ops_of_a_map_are_one_operation():
    make = Builder()
    elements = 1 << 22
    weight = make.variable("w", (elements,))
    gradient = make.variable("g", (elements,))
    common = {"phase": "update", "flops": elements}
    scaled = make.op("Mul", [gradient, gradient], (elements,), name="mul", **common)
    moved = make.op("Sub", [scaled, gradient], (elements,), name="sub", **common)
    make.op("AssignAddVariableOp", [weight, moved], name="assign", **common)
    report = Report.from_plan(plan(make.workload(), Settings()))
    (row,) = report.ops()
    assert row.name == "assign" and row.fused == (0, 1)
    assert row.flops == 3 * elements
    # Gradient and variable are read once, and the variable is written: 8 and 4 bytes an element.
    assert row.intensity == pytest.approx(3 / 12)
    assert row.bound in ("vector", "load/store")
    assert "AssignAddVariableOp (map of 3)" in str(report)


def test_a_plan_from_before_maps_has_its_ops_one_by_one():
    make = Builder()
    weight, x = make.variable("w", (64,)), make.variable("x", (64,))
    y = make.op("Mul", [x, x], (64,), name="mul", phase="update")
    make.op("AssignAddVariableOp", [weight, y], name="assign", phase="update")
    made = plan(make.workload(), Settings())
    (time,) = made.timeline.ops
    timeline = dataclasses.replace(made.timeline, ops=(time._replace(op=0), time))
    report = Report.from_plan(dataclasses.replace(made, timeline=timeline))
    assert [(row.name, row.fused) for row in report.ops()] == [("mul", ()), ("assign", ())]
