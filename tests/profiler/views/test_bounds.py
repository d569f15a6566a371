"""What bounds ops whose answer is known, and their share of the roofline."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW, MK2
from tensorflow_ipu.planner.planning import plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.views.bounds import BOUNDS
from tests.support.planner.workloads import Builder

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
def test_ops_are_bound_by_what_takes_most_of_their_time(row, bound):
    assert row.bound == bound and bound in BOUNDS


def test_the_roofline_of_a_product_is_the_peak_of_the_chip():
    row = matmul(4096, 4096, 4096)
    # With float32 sums: 32 multiply-adds a cycle on each tile of Bow.
    peak = 2 * 32 * BOW.tiles * BOW.clock
    assert row.attainable == pytest.approx(peak)
    assert row.rate == pytest.approx(2 * 4096**3 / (row.cycles / BOW.clock))
    assert row.peak_share == pytest.approx(row.rate / peak) == pytest.approx(row.roofline)
    assert row.intensity == pytest.approx(4096 / 3)
    assert 0.5 < row.roofline < 1


def test_the_roofline_of_an_addition_is_the_memory_of_the_tiles():
    row = elementwise("AddV2", 1 << 24)
    # 8 bytes read at 16 a cycle, 4 written at 8 a cycle: half a cycle for an element on a tile.
    assert row.roofline == pytest.approx((1 << 24) / 2 / BOW.tiles / row.cycles)
    assert row.intensity == pytest.approx(1 / 12)
    assert row.attainable == pytest.approx(2 * BOW.tiles * BOW.clock)


def test_the_roofline_of_a_lookup_is_the_exchange_of_the_rows_it_reads():
    row = gather()
    received = ROWS * WIDTH * 4 / BOW.exchange_rate / BOW.tiles
    assert row.roofline == pytest.approx(received / row.cycles)
    assert row.attainable is None and row.intensity is None


def test_the_share_of_transfers_is_that_of_their_bandwidth():
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
