"""Planning takes work in proportion to the ops of a program, counted in calls of functions."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.edits import batch, workload_edits
from tests.support.planner.layered_workloads import dense

FEW, MANY = 50, 200

WORK = {
    "plan": lambda workload: planning.plan(workload, Settings()),
    "plan with recomputation": lambda workload: planning.plan(workload, Settings(recompute=True)),
    "structure": structure.structure,
    "replicas": workload_edits.with_replica_sums,
    "batch": lambda workload: batch.with_batch(workload, 64),
    "accumulation": lambda workload: workload_edits.with_accumulation_count(
        workload, structure.structure(workload), 4, 128
    ),
}


def _calls(work, layers):
    workload = dense([32] * layers, batch=16)
    work(workload)  # prices that are kept
    profile = cProfile.Profile()
    profile.runcall(work, workload)
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize("name", sorted(WORK))
def test_work_grows_with_the_ops_and_no_faster(name):
    assert _calls(WORK[name], MANY) <= 1.1 * MANY / FEW * _calls(WORK[name], FEW)
