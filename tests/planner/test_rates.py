"""Sums over timelines."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner import timeline, totals
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tests.planner.priced import op, pipeline, prices  # noqa: F401
from tests.workloads import Builder

pytestmark = pytest.mark.usefixtures("prices")


def planned(workload, **changes):
    settings = Settings(BOW, **changes)
    return Plan(workload, settings, (), timeline.plan(workload, settings))


def test_by_type_and_layer():
    make = Builder()
    op(make, 10, op_type="A", flops=7, runs=2)
    op(make, 30, op_type="B", attributes={"label": "assumed"})
    op(make, 1, op_type="A")
    plan = planned(make.workload())
    assert totals.by_type(plan) == {
        "B": totals.Total(30, 1, 0, Label.ASSUMED),
        "A": totals.Total(21, 2, 14, Label.MODELLED),
    }
    assert list(totals.by_type(plan)) == ["B", "A"]
    assert totals.by_layer(plan) == {"": totals.Total(51, 3, 14, Label.ASSUMED)}


def test_by_stage():
    plan = planned(pipeline([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], 4))
    found = {key: total.cycles for key, total in totals.by_stage(plan).items()}
    assert found == {
        (0, ""): 4, (1, ""): 8, (0, "backward"): 12, (1, "backward"): 16,
        (0, "update"): 5, (1, "update"): 6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "partials", "peak"),
    [
        ("float16", "float16", 350e12),
        ("float16", "float32", 175e12),
        ("float32", "float32", 87.2e12),
    ],
)
def test_utilisation_is_the_share_of_the_published_peak(dtype, partials, peak):
    make = Builder()
    a = make.constant("a", (4, 4))
    workload_input = make.buffer("x", (4, 4), dtype)
    op(make, 1850, [workload_input, a], op_type="MatMul", flops=10**8)
    plan = planned(make.workload(batch=4), matmul_partials=partials, replicas=2)
    found = totals.rates(plan)
    # 1850 cycles are 1 us.
    assert found.flops == 10**8
    assert found.flops_per_second == pytest.approx(1e14)
    assert found.utilisation == pytest.approx(1e14 / peak, rel=0.01)
    assert found.items_per_second == pytest.approx(4 * 2 / 1e-6)


def test_no_batch_no_throughput():
    make = Builder()
    op(make, 10)
    found = totals.rates(planned(make.workload()))
    assert found.items_per_second is None and found.utilisation == 0.0


def test_an_empty_program_has_no_rates():
    found = totals.rates(planned(Builder().workload()))
    assert (found.flops, found.flops_per_second, found.utilisation) == (0, 0.0, 0.0)
