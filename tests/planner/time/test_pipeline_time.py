"""The time of pipelines, against the lengths of their schedules."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip.exchange import link_cycles, sync_cycles
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.schedule import PipelineDescription, PipelineSchedule, RecomputationMode
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import pipeline_time
from tensorflow_ipu.planner.workload import Copy
from tests.support.planner import workloads
from tests.support.planner.priced_workloads import op, pipeline, prices  # noqa: F401
from tests.support.planner.workloads import Builder

needs_prices = pytest.mark.usefixtures("prices")
SETTINGS = Settings(BOW)


@needs_prices
@pytest.mark.parametrize(("stages", "count"), [(2, 4), (4, 8), (4, 64), (5, 2040)])
def test_grouped_takes_count_and_twice_stages_minus_one(stages, count):
    workload = pipeline([100.0] * stages, [200.0] * stages, [1000.0] * stages, count)
    made = Planner(workload).timeline(SETTINGS)
    sync = sync_cycles(stages, BOW)
    # In each of the G + 2S - 1 steps all IPUs go forward and then all go backward. The first S have
    # no backward and the last S no forward passes, so G + S - 1 have either.
    steps = count + 2 * stages - 1 - stages
    assert made.cycles == pytest.approx(steps * (300 + 2 * sync) + 1000)
    busy = count * (300 + 2 * sync) + 1000
    assert made.by_kind["idle"] == pytest.approx(made.cycles - busy)


@needs_prices
def test_sequential_has_no_overlap():
    workload = pipeline([100.0] * 4, [200.0] * 4, [50.0] * 4, 10, PipelineSchedule.Sequential)
    made = Planner(workload).timeline(SETTINGS)
    assert made.cycles == pytest.approx(10 * 4 * (300 + 2 * sync_cycles(4, BOW)) + 50)


@needs_prices
def test_an_inference_pipeline_fills_once():
    workload = pipeline([100.0, 70.0, 40.0], [], [], 30)
    made = Planner(workload).timeline(SETTINGS)
    # 30 mini-batches through 3 stages: 32 steps as long as the slowest stage that works in them.
    sync = sync_cycles(3, BOW)
    assert made.cycles == pytest.approx(30 * 100 + 70 + 40 + 32 * sync)


@needs_prices
def test_one_ipu_pays_no_waiting():
    workload = pipeline([100.0, 50.0], [200.0, 100.0], [10.0, 20.0], 4, PipelineSchedule.Sequential)
    made = Planner(workload).timeline(SETTINGS.replace(stage_devices=(0, 0)))
    assert made.cycles == pytest.approx(4 * 450 + 30)
    assert made.by_kind == {"compute": pytest.approx(1830)}


@needs_prices
@pytest.mark.parametrize("mode", [None, *RecomputationMode])
def test_recomputation_costs_forward_pass_except_last_stage(mode):
    workload = pipeline(
        [100.0] * 2, [200.0] * 2, [], 4, PipelineSchedule.Grouped, recomputation=mode
    )
    made = Planner(workload).timeline(SETTINGS)
    sync = sync_cycles(2, BOW)
    steps = 5
    # Stage 0 is slower by 100 wherever it goes backward; stage 1 alone does so in the first.
    again = 0 if mode is None else 100 * 4
    assert made.cycles == pytest.approx(steps * (300 + 2 * sync) + again)


@needs_prices
def test_settings_can_ask_for_recomputation():
    workload = pipeline([100.0] * 2, [200.0] * 2, [], 4)
    asked = Planner(workload).timeline(SETTINGS.replace(recompute=True))
    assert asked.cycles - Planner(workload).timeline(SETTINGS).cycles == pytest.approx(400)


@needs_prices
def test_repeated_executions_add_up():
    once = pipeline([100.0] * 2, [200.0] * 2, [7.0] * 2, 4)
    workload = dataclasses.replace(
        once,
        pipeline=dataclasses.replace(once.pipeline, repeat_count=3),
        ops=tuple(dataclasses.replace(o, runs=3 * o.runs) for o in once.ops),
    )
    made = Planner(workload).timeline(SETTINGS)
    assert made.cycles == pytest.approx(3 * Planner(once).timeline(SETTINGS).cycles)
    assert made.schedule.total * 3 == pytest.approx(made.cycles)
    assert {time.runs for time in made.ops} == {12, 3}


@needs_prices
def test_a_changed_count_changes_the_runs():
    workload = pipeline([100.0] * 2, [200.0] * 2, [7.0] * 2, 4)
    changed = dataclasses.replace(
        workload, pipeline=dataclasses.replace(workload.pipeline, count=16)
    )
    made = Planner(changed).timeline(SETTINGS)
    sync = sync_cycles(2, BOW)
    assert made.cycles == pytest.approx(17 * (300 + 2 * sync) + 7)
    assert {time.runs for time in made.ops} == {16, 1}


@needs_prices
def test_updates_counted_in_each_mini_batch_run_once():
    workload = pipeline([100.0] * 2, [200.0] * 2, [7.0] * 2, 4)
    per_batch = dataclasses.replace(
        workload, ops=tuple(dataclasses.replace(o, runs=4) for o in workload.ops)
    )
    assert (
        Planner(per_batch).timeline(SETTINGS).cycles == Planner(workload).timeline(SETTINGS).cycles
    )


@needs_prices
def test_updates_need_no_stage_and_counters_cost_nothing():
    make = Builder(2)
    start = make.begin("While", trip_count=12)
    op(make, 1, name="counter", runs=12)
    for stage in range(2):
        op(make, 100, stage=stage, ipu=stage, runs=12)
    for stage in (1, 0):
        op(make, 200, stage=stage, ipu=stage, runs=12, phase="backward")
    op(make, 1, name="is last", runs=12, phase="update")
    branch = make.begin("If", runs=12, phase="update")
    op(make, 50, ipu=0, runs=3, phase="update")
    op(make, 70, ipu=1, runs=3, phase="update")
    make.end(branch)
    make.end(start)
    workload = make.workload(pipeline=PipelineDescription((0, 1), 4, repeat_count=3))
    made = Planner(workload).timeline(SETTINGS)
    assert made.cycles == pytest.approx(3 * (5 * (300 + 2 * sync_cycles(2, BOW)) + 70))
    assert [time.runs for time in made.ops] == [12, 12, 12, 12, 3, 3]


@needs_prices
def test_inner_loops_count_with_all_their_iterations():
    make = Builder(1)
    start = make.begin("While", trip_count=6)
    op(make, 10, stage=0, runs=6)
    inner = make.begin("While", trip_count=5, runs=6, stage=0)
    op(make, 3, stage=0, runs=30)
    make.end(inner)
    op(make, 4, stage=1, runs=6)
    make.end(start)
    described = PipelineDescription((0, 0), 6, False, PipelineSchedule.Sequential)
    made = Planner(make.workload(pipeline=described)).timeline(SETTINGS)
    assert made.cycles == pytest.approx(6 * (10 + 15 + 4))


@needs_prices
def test_what_is_outside_comes_before_and_after():
    make = Builder(2)
    op(make, 1000)
    start = make.begin("While", trip_count=4)
    op(make, 10, stage=0, ipu=0, runs=4)
    op(make, 10, stage=1, ipu=1, runs=4)
    make.end(start)
    op(make, 500, ipu=1)
    workload = make.workload(pipeline=PipelineDescription((0, 1), 4, training=False))
    made = Planner(workload).timeline(SETTINGS)
    assert made.cycles == pytest.approx(1500 + 5 * (10 + sync_cycles(2, BOW)))
    assert made.segments[-1].ipu in (0, 1)
    assert min(s.start for s in made.segments if s.stage is not None) == 1000


@needs_prices
def test_copies_are_part_of_the_stage_that_sends():
    workload = pipeline([100.0] * 2, [], [], 4)
    copied = dataclasses.replace(workload, copies=(Copy("Work_1", 0, 1, 1 << 20, 4, 0, ""),))
    made = Planner(copied).timeline(SETTINGS)
    sync = sync_cycles(2, BOW)
    link = link_cycles(1 << 20, BOW, BOW.pair_links) + sync
    assert made.cycles == pytest.approx(4 * (100 + sync + link) + 100 + sync)
    assert made.by_kind["link"] == pytest.approx(4 * link)


def test_moved_stages_copy_what_they_hand_on():
    workload = workloads.pipeline(4)
    spread = Planner(workload).timeline(Settings(stage_devices=(0, 1, 2, 0)))
    together = Planner(workload).timeline(Settings(stage_devices=(0, 0, 0, 0)))
    links = [t for t in spread.transfers if t.kind == "link"]
    # An activation and a gradient at each of three borders.
    assert sorted((t.ipu, t.num_bytes) for t in links) == [
        (0, 32 * 128 * 4), (0, 32 * 128 * 4), (1, 32 * 128 * 4),
        (1, 32 * 128 * 4), (2, 32 * 128 * 4), (2, 32 * 128 * 4),
    ]  # fmt: skip
    assert not [t for t in together.transfers if t.kind == "link"]
    assert together.cycles > spread.cycles
    assert {time.ipu for time in spread.ops} == {0, 1, 2}


@needs_prices
def test_updates_move_with_their_variables():
    make = Builder(2)
    weights = [make.variable(f"w{ipu}", (), ipu=ipu) for ipu in range(2)]
    for stage in range(2):
        op(make, 10, [weights[stage]], stage=stage, ipu=stage)
    for stage in range(2):
        op(make, 10, [weights[stage]], stage=stage, ipu=stage, phase="backward")
    for ipu in range(2):
        op(make, 5, [weights[ipu]], ipu=ipu, phase="update")
    workload = make.workload(
        pipeline=PipelineDescription((0, 1), 1, schedule=PipelineSchedule.Sequential)
    )
    made = Planner(workload).timeline(SETTINGS.replace(stage_devices=(1, 0)))
    assert [(time.op, time.ipu) for time in made.ops if time.op >= 4] == [(4, 1), (5, 0)]


def test_moves_must_name_each_stage():
    with pytest.raises(ValueError, match="one IPU for each pipeline stage"):
        Planner(workloads.pipeline(4)).timeline(Settings(stage_devices=(0, 1)))


@needs_prices
def test_parallel_stages_run_at_once():
    make = Builder(3)
    start = make.begin("While", trip_count=4)
    op(make, 10, stage=0, ipu=0, runs=4)
    op(make, 30, stage=1, ipu=1, runs=4)
    op(make, 20, stage=1, ipu=2, runs=4)
    make.end(start)
    described = PipelineDescription((0, (1, 2)), 4, training=False)
    made = Planner(make.workload(pipeline=described)).timeline(SETTINGS)
    sync = sync_cycles(3, BOW)
    assert made.cycles == pytest.approx(10 + 4 * 30 + 5 * sync)


@needs_prices
def test_long_pipelines_show_both_ends(monkeypatch):
    monkeypatch.setattr(pipeline_time, "MOST_ENTRIES", 40)
    workload = pipeline([100.0] * 2, [200.0] * 2, [7.0] * 2, 400)
    made = Planner(workload).timeline(SETTINGS)
    work = [s for s in made.segments if s.kind == "compute"]
    assert 30 <= len(work) <= 40
    assert work[0].mini_batch == 0
    assert max(s.start + s.cycles for s in work) == pytest.approx(made.cycles)
    assert made.by_kind["compute"] == pytest.approx(400 * 300 + 7)
    assert len({(s.ipu, s.start) for s in made.segments}) == len(made.segments)


@hypothesis_settings(derandomize=True, max_examples=12, deadline=None)
@given(workload=workloads.pipelines())
def test_kinds_add_up_and_segments_fill_each_ipu(workload):
    made = Planner(workload).timeline(Settings())
    assert sum(made.by_kind.values()) == pytest.approx(made.cycles)
    for ipu in range(workload.ipus):
        segments = [s for s in made.segments if s.ipu == ipu]
        assert sum(s.cycles for s in segments) == pytest.approx(made.cycles)
        for before, after in zip(segments, segments[1:]):
            assert after.start == pytest.approx(before.start + before.cycles)
