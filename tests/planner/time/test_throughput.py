"""How fast a launch is."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tests.support.planner.priced_workloads import op, prices  # noqa: F401
from tests.support.planner.workloads import Builder


def planned(workload, **changes):
    settings = Settings(BOW, **changes)
    return Plan(workload, settings, (), Planner(workload).timeline(settings))


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(
    ("dtype", "partials", "peak"),
    [
        ("float16", "float16", 350e12),
        ("float16", "float32", 175e12),
        ("float32", "float32", 87.2e12),
    ],
)
def test_utilization_is_the_share_of_the_published_peak(dtype, partials, peak):
    make = Builder()
    a = make.constant("a", (4, 4))
    workload_input = make.buffer("x", (4, 4), dtype)
    op(make, 1850, [workload_input, a], op_type="MatMul", flops=10**8)
    plan = planned(make.workload(batch=4), matmul_partials=partials, replicas=2)
    found = throughput.of_plan(plan)
    # 1850 cycles are 1 us.
    assert found.flops == 10**8
    assert found.flops_per_second == pytest.approx(1e14)
    assert found.utilisation == pytest.approx(1e14 / peak, rel=0.01)
    assert found.items_per_second == pytest.approx(4 * 2 / 1e-6)


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(
    ("op_type", "dtypes", "attributes", "peak"),
    [
        # The first operand is the shape of the result.
        ("Conv2DBackpropInput", ("int32", "float16", "float16"), {}, 175e12),
        ("Conv2D", ("float16", "float16"), {"partials": "float16"}, 350e12),
        ("Float8MatMul", ("uint8", "uint8"), {}, 700e12),
        ("MatMul", ("bfloat16", "bfloat16"), {}, 87.2e12),
    ],
)
def test_peak_equals_that_of_types_that_are_multiplied(op_type, dtypes, attributes, peak):
    make = Builder()
    inputs = [make.buffer(f"x{i}", (4, 4), dtype) for i, dtype in enumerate(dtypes)]
    op(make, 1850, inputs, op_type=op_type, flops=10**8, attributes=attributes)
    found = throughput.of_plan(planned(make.workload()))
    assert found.utilisation == pytest.approx(1e14 / peak, rel=0.01)


@pytest.mark.usefixtures("prices")
def test_no_batch_no_throughput():
    make = Builder()
    op(make, 10)
    found = throughput.of_plan(planned(make.workload()))
    assert found.items_per_second is None and found.utilisation == 0.0


def test_an_empty_program_has_no_rates():
    found = throughput.of_plan(planned(Builder().workload()))
    assert (found.flops, found.flops_per_second, found.utilisation) == (0, 0.0, 0.0)


def test_mapped_ops_count_though_last_has_cost():
    make = Builder()
    x = make.variable("x", (64,))
    y = make.op("Mul", [x, x], (64,), phase="update", flops=64)
    make.op("AssignAddVariableOp", [x, y], phase="update", flops=64)
    workload = make.workload()
    planned = planning.plan(workload, Settings(BOW))
    assert [time.op for time in planned.timeline.ops] == [1]
    assert throughput.of_plan(planned).flops == 128
