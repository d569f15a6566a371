"""Batch norms over the replicas of a group, in plans."""

from __future__ import annotations

import pytest
from measured.models import distributed_norms

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder

CHANNELS = 48


def program():
    """A loop with a norm and its gradient, and an op after it."""
    make = Builder()
    scale = make.variable("scale", (CHANNELS,))
    x = make.input("x", (4, 8, 8, CHANNELS))
    start = make.begin("While", [x], trip_count=5)
    y = make.op("FusedBatchNormV3", [x, scale], (4, 8, 8, CHANNELS), name="norm", runs=5)
    make.op("FusedBatchNormGradV3", [y, x, scale], (4, 8, 8, CHANNELS), name="grad", runs=5)
    make.end(start)
    make.op("Max", [x], (), name="after")
    return make.workload()


def test_each_norm_and_each_gradient_gathers_after_it():
    workload = distributed_norms.distributed(program(), 2)
    names = [op.name for op in workload.ops]
    gathered = [f"{norm}/statistics_of_group" for norm in ("norm", "grad")]
    assert names == ["While_0", "norm", gathered[0], "grad", gathered[1], "after"]
    assert [op.end for op in workload.ops] == [5, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_it_takes_the_time_of_two_small_collectives(replicas):
    settings = Settings(replicas=replicas, chip=BOW)
    before, after = (
        Planner(workload).timeline(settings)
        for workload in (program(), distributed_norms.distributed(program(), 2))
    )
    # Two float32 values of each channel from both replicas, in both passes of five steps.
    one = collectives.all_gather(2 * 2 * 4 * CHANNELS, min(replicas, 2), 1, BOW).cycles
    assert after.cycles - before.cycles == pytest.approx(10 * one)
    found = [one for one in after.transfers if distributed_norms.is_of_norm(one)]
    assert len(found) == (2 if replicas > 1 else 0)
