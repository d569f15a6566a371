"""Tests of operations, whose cycles add up to the cycles of the launch."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.costs import intervals
from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Copy
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.views.operations import BOUNDS
from tests.support.planner.workloads import Builder, chain, loop, pipeline, training_step, workloads

# --- What bounds ops whose answer is known, and their share of the roofline ---

TABLE, ROWS, WIDTH = 20_000, 8_000, 256


def rows_of(make: Builder, settings: Settings | None = None):
    workload = make.workload()
    report = Report.from_plan(plan(workload, settings or Settings(BOW)))
    return {row.type: row for row in report.operations()}


def matmul(rows: int, inner: int, columns: int, dtype: str = "float16"):
    make = Builder()
    a, b = make.variable("a", (rows, inner), dtype), make.variable("b", (inner, columns), dtype)
    flops = 2 * rows * inner * columns
    make.op("MatMul", [a, b], (rows, columns), dtype, flops=flops)
    return rows_of(make)["MatMul"]


def elementwise(op_type: str, elements: int, inputs: int = 2):
    make = Builder()
    operands = [make.variable(f"v{i}", (elements,)) for i in range(inputs)]
    make.op(op_type, operands, (elements,), flops=elements)
    return rows_of(make)[op_type]


def gather():
    make = Builder()
    table = make.variable("table", (TABLE, WIDTH))
    indices = make.variable("indices", (ROWS,), "int32")
    make.op("GatherV2", [table, indices], (ROWS, WIDTH))
    return rows_of(make)["GatherV2"]


def transfer(op_type: str):
    make = Builder()
    if op_type == "IpuInfeedDequeue":
        make.op(op_type, [], (1024, 1024))
        return rows_of(make)[op_type]
    if op_type == "streaming in":
        weight = make.variable("w", (1024, 1024), offloaded=True)
        make.op("Relu", [weight], (1024, 1024))
        return rows_of(make)[op_type]
    make.op("IpuCrossReplicaSum", [make.variable("w", (1024, 1024))], (1024, 1024))
    return rows_of(make, Settings(BOW, replicas=4))[op_type]


@pytest.mark.parametrize(
    ("row", "bound"),
    [
        (matmul(4096, 4096, 4096), "AMP"),
        (matmul(1, 8192, 8192), "load/store"),
        (elementwise("AddV2", 1 << 24), "load/store"),
        (elementwise("Relu", 1 << 24, 1), "load/store"),
        (elementwise("Tanh", 1 << 24, 1), "vector"),
        (elementwise("Sin", 1 << 22, 1), "vector"),
        (elementwise("AddV2", 4), "sync"),
        (elementwise("Transpose", 1 << 22, 1), "load/store"),
        (gather(), "exchange"),
        (transfer("IpuInfeedDequeue"), "host"),
        (transfer("streaming in"), "streaming"),
        (transfer("IpuCrossReplicaSum"), "link"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.type}-{value.bound}",
)
def test_ops_are_bound_by_longest_part(row, bound):
    assert row.bound == bound and bound in BOUNDS


def test_roofline_of_a_product_is_peak_of_chip():
    row = matmul(4096, 4096, 4096)
    # With float32 sums: 32 multiply-adds a cycle on each tile of Bow.
    peak = 2 * 32 * BOW.tiles * BOW.clock
    assert row.attainable == pytest.approx(peak)
    assert row.rate == pytest.approx(2 * 4096**3 / (row.cycles / BOW.clock))
    assert row.peak_share == pytest.approx(row.rate / peak) == pytest.approx(row.roofline)
    assert row.intensity == pytest.approx(4096 / 3)
    assert 0.5 < row.roofline < 1


def test_roofline_of_an_addition_is_memory_of_tiles():
    row = elementwise("AddV2", 1 << 24)
    # 8 bytes read at 16 a cycle, 4 written at 8 a cycle: half a cycle for an element on a tile.
    assert row.roofline == pytest.approx((1 << 24) / 2 / BOW.tiles / row.cycles)
    assert row.intensity == pytest.approx(1 / 12)
    assert row.attainable == pytest.approx(2 * BOW.tiles * BOW.clock)


def test_lookup_roofline_is_exchange_of_rows():
    row = gather()
    received = ROWS * WIDTH * 4 / BOW.exchange_rate / BOW.tiles
    assert row.roofline == pytest.approx(received / row.cycles)
    assert row.attainable is None and row.intensity is None


def test_share_of_transfers_is_that_of_their_bandwidth():
    infeed = transfer("IpuInfeedDequeue")
    assert infeed.num_bytes == 4 << 20
    seconds = infeed.cycles / BOW.clock
    assert infeed.roofline == pytest.approx((4 << 20) / BOW.host_bandwidth / seconds)
    # Of 4 replicas each sends three quarters of the sums' parts, and of the sums.
    summed = transfer("IpuCrossReplicaSum")
    seconds = summed.cycles / BOW.clock
    sent = 2 * (4 << 20) * 3 / 4
    assert summed.roofline == pytest.approx(sent / BOW.link_bandwidth_total / seconds)
    assert 0.9 < transfer("streaming in").roofline <= 1


def test_updates_of_rows_touch_only_these():
    make = Builder()
    table = make.variable("table", (TABLE, WIDTH))
    state = make.variable("state", (TABLE, WIDTH), role="optimizer state")
    rate = make.variable("rate", ())
    indices, rows = make.variable("i", (64,), "int32"), make.variable("g", (64, WIDTH))
    make.op("ResourceSparseApplyMomentum", [table, state, rate, rows, indices, rate])
    row = rows_of(make)["ResourceSparseApplyMomentum"]
    # The rows of the variable, of its state and of the gradient, of some thousand each.
    assert row.roofline < 5 * 64 * WIDTH * 4 / 16 / BOW.tiles / row.cycles


@pytest.mark.parametrize("elements", [1, 100, 10_000, 1_000_000])
def test_no_op_is_above_the_roof(elements):
    for row in (elementwise("AddV2", elements), elementwise("Sqrt", elements, 1)):
        assert 0 < row.roofline <= 1
        assert row.tiles == min(-(-elements * 4 // 128), BOW.tiles) or elements > 10_000


def test_tiles_and_partition_are_those_of_the_cost():
    row = matmul(4096, 4096, 4096)
    (made,) = plan(_product().workload(), Settings(MK2)).timeline.ops
    assert row.tiles > 0.8 * BOW.tiles
    assert "partials float32" in row.partition
    assert made.cost.partition.tiles <= MK2.tiles


def _product() -> Builder:
    make = Builder()
    a = make.variable("a", (64, 64), "float16")
    make.op("MatMul", [a, a], (64, 64), "float16")
    return make


# --- What takes cycles adds up to the cycles of the launch ---

FAST = settings(max_examples=15, derandomize=True, deadline=None)


SETTINGS = st.builds(
    Settings,
    replicas=st.sampled_from([1, 2, 4]),
    prefetch=st.booleans(),
    recompute=st.booleans(),
)


def cycles_of_ipu(report: Report, ipu: int) -> float:
    """Returns the cycles of work and of waiting of an IPU."""
    idle = sum(s.cycles for s in report.plan.timeline.segments if s.kind == "idle" and s.ipu == ipu)
    return idle + sum(row.cycles for row in report.operations() if ipu in (row.ipu, row.peer))


@given(workload=workloads(ipus=1), chosen=SETTINGS)
@FAST
def test_operations_of_an_ipu_add_up_to_launch(workload, chosen):
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


def test_what_is_waited_for_at_end_is_operation():
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


def test_range_is_that_of_measurements_of_the_kind():
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


def test_plan_without_maps_has_single_ops():
    make = Builder()
    weight, x = make.variable("w", (64,)), make.variable("x", (64,))
    y = make.op("Mul", [x, x], (64,), name="mul", phase="update")
    make.op("AssignAddVariableOp", [weight, y], name="assign", phase="update")
    made = plan(make.workload(), Settings())
    (time,) = made.timeline.ops
    timeline = dataclasses.replace(made.timeline, ops=(time._replace(op=0), time))
    report = Report.from_plan(dataclasses.replace(made, timeline=timeline))
    assert [(row.name, row.fused) for row in report.ops()] == [("mul", ()), ("assign", ())]
