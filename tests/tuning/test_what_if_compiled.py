"""Outcomes of other settings of really compiled programs, against compiling with the change."""

from __future__ import annotations

import pytest

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.tuning.stages import stage_split
from tests.support.planner import real_programs
from tests.support.planner.workloads import chain

BATCH = 8


def _one(workload, **changes):
    (found,) = what_if.outcomes(workload, Settings(), {k: [v] for k, v in changes.items()})
    assert not found.error
    return found


def _agree(found, compiled, replicas=1):
    """Cycles within 5 %, memory within 2 %."""
    plan = planning.plan(compiled, Settings(replicas=replicas))
    assert found.cycles == pytest.approx(plan.timeline.cycles, rel=0.05)
    assert found.worst == pytest.approx(plan.fullest.worst_bytes, rel=0.02)


@pytest.mark.parametrize("name", ["residual", "lstm", "encoder"])
@pytest.mark.parametrize("change", [{"replicas": 2}, {"batch": 16}, {"count": 4}])
def test_what_if_equals_program_that_is_really_compiled(name, change):
    alone = real_programs.workload(name, BATCH)
    batch = change.get("batch", BATCH)
    replicas, count = change.get("replicas", 1), change.get("count", 1)
    compiled = real_programs.workload(name, batch, replicas, count)
    _agree(_one(alone, **change), compiled, replicas)


@pytest.mark.parametrize("name", ["residual", "encoder"])
def test_stages_equal_the_pipeline_that_is_really_compiled(name):
    """The program is cut, then built again with the stages that come of it."""
    alone = real_programs.workload(name, BATCH)
    split = stage_split.split(alone, Settings(), 2, count=8)
    cut = tuple(stage.layers for stage in split.stages)
    compiled = real_programs.workload(name, BATCH, 1, split.count, cut)
    found = _one(alone, stages=2, count=8)
    _agree(found, compiled)
    bubble = planning.plan(compiled, Settings()).timeline.bubble_share
    assert found.bubble_share == split.bubble_share == pytest.approx(bubble, abs=0.02)


def test_more_mini_batches_of_a_program_that_accumulates():
    alone = real_programs.workload("residual", BATCH)
    accumulating = real_programs.workload("residual", BATCH, count=4)
    one, two = _one(alone, count=8), _one(accumulating, count=8)
    assert one.cycles == pytest.approx(two.cycles, rel=0.02)
    assert one.worst == pytest.approx(two.worst, rel=0.02)


def test_a_program_that_does_not_train_accumulates_nothing():
    (found,) = what_if.outcomes(chain(), Settings(), {"count": [2]})
    assert "has no gradients and updates" in found.error
