"""How fast a launch is."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import rates
from tests.support.priced_workloads import op, prices  # noqa: F401
from tests.support.workloads import Builder

pytestmark = pytest.mark.usefixtures("prices")


def planned(workload, **changes):
    settings = Settings(BOW, **changes)
    return Plan(workload, settings, (), Planner(workload).timeline(settings))


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
    found = rates.of_plan(plan)
    # 1850 cycles are 1 us.
    assert found.flops == 10**8
    assert found.flops_per_second == pytest.approx(1e14)
    assert found.utilisation == pytest.approx(1e14 / peak, rel=0.01)
    assert found.items_per_second == pytest.approx(4 * 2 / 1e-6)


def test_no_batch_no_throughput():
    make = Builder()
    op(make, 10)
    found = rates.of_plan(planned(make.workload()))
    assert found.items_per_second is None and found.utilisation == 0.0


def test_an_empty_program_has_no_rates():
    found = rates.of_plan(planned(Builder().workload()))
    assert (found.flops, found.flops_per_second, found.utilisation) == (0, 0.0, 0.0)
