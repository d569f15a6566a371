"""Tests of cutting a program into stages, against all cuts and sums by hand."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tensorflow_ipu.cli import split as command
from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import VARIABLE, Variable
from tensorflow_ipu.profiler import insights
from tensorflow_ipu.tuning import what_if
from tensorflow_ipu.tuning.stages import stage_cut, stage_split
from tensorflow_ipu.tuning.stages.stage_split import Splitter
from tests.support.planner import real_programs
from tests.support.planner.layered_workloads import dense, named
from tests.support.planner.workloads import Builder, pipeline, pipelines, workloads

SETTINGS = Settings()


def _layers(split):
    return [stage.layers for stage in split.stages]


def test_equal_layers_are_shared_out_equally():
    split = stage_split.split(dense([64] * 5), SETTINGS, 2)
    assert _layers(split) == [("dense0", "dense1"), ("dense2", "dense3")]
    # The first layer has no gradient for its input, so the first stage is a little faster.
    assert 0.9 < split.balance < 1
    assert split.fits


@pytest.mark.parametrize("stages", [2, 3])
def test_program_that_is_not_trained_is_cut_too(stages):
    """It has no cycles of gradients and updates: whole numbers, to which parts of cycles add."""
    make = Builder()
    value = make.input("x", (64, 64))
    for i in range(6):
        kernel = make.variable(f"dense{i}/kernel", (64, 64))
        value = make.op("MatMul", [value, kernel], (64, 64), name=f"dense{i}/MatMul")
    split = stage_split.split(named(make.workload(batch=64)), SETTINGS, stages)
    assert len(split.stages) == stages
    assert sum(_layers(split), ()) == tuple(f"dense{i}" for i in range(6))


@examples(max_examples=6, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([16, 64, 512, 2048]), min_size=4, max_size=5),
    st.integers(2, 3),
    st.sampled_from(["grouped", "interleaved", "sequential"]),
)
def test_no_cut_makes_a_faster_pipeline(widths, stages, schedule):
    workload = dense(widths)
    splitter = stage_split.Splitter(workload, SETTINGS, structure.structure(workload))
    cuts = itertools.combinations(range(1, len(widths) - 1), stages - 1)
    best = min(splitter.at([*cut, len(widths) - 1], schedule).plan.timeline.cycles for cut in cuts)
    assert splitter.split(stages, schedule).plan.timeline.cycles == pytest.approx(best)


def test_found_cut_is_near_fastest_of_many(monkeypatch):
    """With few cuts that are timed, as in models of many layers."""
    workload = dense([64, 512, 16, 64, 2048, 64, 64, 512, 64])
    found = structure.structure(workload)
    best = stage_split.Splitter(workload, SETTINGS, found).split(3).plan.timeline.cycles
    monkeypatch.setattr(stage_cut, "MOST_TIMED", 8)
    fast = stage_split.Splitter(workload, SETTINGS, found).split(3).plan.timeline.cycles
    assert best <= fast <= 1.05 * best


@pytest.mark.parametrize("ends", [[], [0, 4], [2, 1, 4], [1, 1, 4], [2, 3], [2, 5]])
def test_cuts_that_are_none_are_refused(ends):
    workload = dense([64] * 5)
    splitter = stage_split.Splitter(workload, SETTINGS, structure.structure(workload))
    with pytest.raises(ValueError, match="up to the 4 layers"):
        splitter.at(ends)


def test_memory_comes_before_speed():
    """Weights of 64 x 64 and sums of their gradients are 16 KiB each; momentum is off the chip."""
    workload = dense([64, 64, 64, 64, 64, 8, 8, 8, 8], batch=1024)
    tiny = Settings(chip=chips.MK1.with_tiles(1))
    split = stage_split.split(workload, tiny, 5)
    # Activations are 1024 x 64 x 4 B = 256 KiB: no tile of 256 KiB holds two layers of them.
    assert _layers(split)[:4] == [("dense0",), ("dense1",), ("dense2",), ("dense3",)]
    assert split.stages[0].memory == 2 * 64 * 64 * 4 + 1024 * 64 * 4
    assert not split.fits


def test_stages_of_the_program_that_comes_of_it():
    before = dense([32, 64, 16, 8], batch=4)
    split = stage_split.split(before, SETTINGS, 3, count=12)
    after = split.workload
    assert after.ipus == 3
    assert after.pipeline.device_mapping == (0, 1, 2)
    assert after.stage_names == ("dense0", "dense1", "dense2")
    counts = [op for op in after.ops if op.stage is None]
    assert [(op.type, op.phase, op.ipu) for op in counts] == [
        ("Equal", "update", 0), ("AddV2", "update", 0), ("AssignVariableOp", "update", 0),
    ]  # fmt: skip
    for op in after.ops:
        layer = next((int(c) for c in op.name if c.isdigit()), 2)
        assert op in counts or op.stage == op.ipu == layer
    *tensors, mini_batch = after.variables
    assert mini_batch == Variable("gradient_accumulation/mini_batch", "int32", (), "other", 0)
    for variable in tensors:
        assert variable.ipu == int(re.search(r"dense(\d)", variable.name).group(1))
        assert variable.offloaded == (variable.role == "optimizer state")
    sums = [variable for variable in after.variables if variable.role == "accumulator"]
    assert [variable.shape for variable in sums] == [(16, 8), (64, 16), (32, 64)]
    owners = {b.variable: b.ipu for b in after.buffers if b.kind == VARIABLE}
    assert owners == {index: v.ipu for index, v in enumerate(after.variables)}
    kinds = [(op.type, op.phase) for op in after.ops if op.stage == 1]
    assert kinds == [
        ("MatMul", ""),
        ("MatMul", "backward"),
        ("AssignAddVariableOp", "backward"),
        ("MatMul", "backward"),
        ("ResourceApplyMomentum", "update"),
        ("Fill", "update"),
        ("AssignVariableOp", "update"),
    ]
    updates = [op for op in after.ops if op.type == "ResourceApplyMomentum"]
    read = [op.inputs[-1].buffer for op in updates]
    assert [after.buffers[buffer].kind for buffer in read] == [VARIABLE] * 3
    resets = [op for op in after.ops if op.type == "AssignVariableOp" and op.stage is not None]
    assert {op.inputs[0].buffer for op in resets} == set(read)
    assert [op.end for op in after.ops] == list(range(1, 1 + len(after.ops)))
    runs = {op.phase: op.runs for op in after.ops if op.stage is not None}
    assert runs == {"": 12, "backward": 12, "update": 1}
    assert {op.runs for op in counts} == {12}


def test_activations_and_their_gradients_are_copied():
    """Activations go forward, gradients with respect to them go back: 4 x 64 and 4 x 16 floats."""
    split = stage_split.split(dense([32, 64, 16, 8], batch=4), SETTINGS, 3, count=12)
    found = {(c.source, c.destination, c.phase): c for c in split.workload.copies}
    assert {key: copy.num_bytes for key, copy in found.items()} == {
        (0, 1, ""): 4 * 64 * 4,
        (1, 2, ""): 4 * 16 * 4,
        (2, 1, "backward"): 4 * 16 * 4,
        (1, 0, "backward"): 4 * 64 * 4,
    }
    assert {copy.runs for copy in found.values()} == {12}
    assert [stage.copied for stage in split.stages] == [1024, 1280, 256]


@pytest.mark.parametrize("stages", [2, 4])
def test_split_is_planned_like_pipeline_that_is_compiled(stages):
    """The program is cut, then built again with the stages that come of it."""
    whole = real_programs.stack(4)
    split = stage_split.split(whole.workload, whole.settings, stages)
    assert sum(_layers(split), ()) == ("dense0", "dense1", "dense2", "dense3")
    numbers = tuple(i for i, stage in enumerate(split.stages) for _ in stage.layers)
    built = real_programs.stack(4, numbers, split.count).plan
    assert split.plan.timeline.cycles == pytest.approx(built.timeline.cycles, rel=0.05)
    assert split.bubble_share == pytest.approx(insights.insights(built)["bubble_share"], abs=0.02)
    assert split.plan.fullest.worst_bytes == pytest.approx(built.fullest.worst_bytes, rel=0.02)
    for name in ("variables", "gradient accumulators", "stash"):
        for one, two in zip(split.plan.memory, built.memory):
            expected = two.category(name)
            if expected is not None:
                assert one.category(name).total == pytest.approx(expected.total, abs=64)


def test_one_plan_has_one_bubble_share():
    """By the time of the IPUs without idling, as a part of the pipeline's time."""
    split = stage_split.split(dense([64] * 5), SETTINGS, 4, "sequential", 1)
    (found,) = what_if.outcomes(
        dense([64] * 5), SETTINGS, {"stages": [4], "schedule": ["sequential"], "count": [1]}
    )
    timing = split.plan.timeline.schedule
    inside = [s for s in split.plan.timeline.segments if s.stage is not None and s.kind != "idle"]
    works = sum(segment.cycles for segment in inside)
    assert split.bubble_share == pytest.approx(1 - works / (4 * timing.total))
    assert found.bubble_share == split.bubble_share
    assert insights.insights(split.plan)["bubble_share"] == split.bubble_share


def test_more_mini_batches_make_the_bubble_smaller():
    shares = [
        stage_split.split(dense([64] * 5), SETTINGS, 4, count=count).bubble_share
        for count in (8, 16, 64)
    ]
    assert shares == sorted(shares, reverse=True)


def test_one_stage_has_all_layers():
    split = stage_split.split(dense([32, 32, 32]), SETTINGS, 1)
    assert _layers(split) == [("dense0", "dense1")]
    assert split.balance == 1
    assert not split.workload.copies


def test_a_pipeline_is_cut_again():
    before = pipeline(2, PipelineSchedule.Grouped, count=8)
    found = stage_split.split(before, SETTINGS, 1)
    assert found.workload.pipeline.device_mapping == (0,)
    assert found.count == 8
    assert found.schedule == "Grouped"
    # It has sums of gradients already.
    assert len(found.workload.variables) == len(before.variables)


def test_sums_of_gradients_that_a_loop_makes():
    """Additions to a sum come after the loop; the ranges of functions are unchanged."""
    make = Builder()
    x = make.input("x", (4, 8))
    weight = make.variable("w", (8, 8))
    outer = make.begin("While", trip_count=3, name="outer")
    value = make.op("MatMul", [x, weight], (4, 8), name="dense0/MatMul", runs=3)
    gradient = make.op("Fill", [], (8, 8), name="gradients/dense0/zeros", runs=3)
    inner = make.begin("While", [gradient], alias=gradient, name="gradients/dense0/while", runs=3)
    make.op("MatMul", [value, value], (8, 8), name="gradients/dense0/MatMul", runs=21)
    make.end(inner)
    make.op("ResourceApplyGradientDescent", [weight, gradient], name="dense0/update", runs=3)
    make.end(outer)
    make.op("Neg", [x], (4, 8), name="after")
    before = named(make.workload(batch=4))
    after = stage_split.split(before, SETTINGS, 1, count=2).workload
    assert [(op.name, op.end) for op in after.ops] == [
        ("outer", 11),
        ("dense0/MatMul", 2),
        ("gradients/dense0/zeros", 3),
        ("gradients/dense0/while", 5),
        ("gradients/dense0/MatMul", 5),
        ("gradients/dense0/while/sum", 6),
        ("gradient_accumulation/is_last", 7),
        ("gradient_accumulation/next", 8),
        ("gradient_accumulation/count", 9),
        ("dense0/update", 10),
        ("gradients/dense0/while/reset", 11),
        ("after", 12),
    ]


def test_a_program_that_accumulates_gradients_keeps_its_count():
    """Ten mini-batches, one update."""
    make = Builder()
    start = make.begin("While", trip_count=10, name="loop")
    value = make.op("IpuInfeedDequeue", [], (4, 8), name="infeed", runs=10)
    weights = [make.variable(f"dense{i}/kernel", (8, 8)) for i in range(4)]
    sums = [make.variable(f"dense{i}/sum", (8, 8), role="accumulator") for i in range(4)]
    for i in range(4):
        value = make.op("MatMul", [value, weights[i]], (4, 8), name=f"dense{i}/MatMul", runs=10)
    for i in range(4):
        scope = f"gradients/dense{i}"
        made = make.op("MatMul", [value, value], (8, 8), name=f"{scope}/MatMul", runs=10)
        make.op("AssignAddVariableOp", [sums[i], made], name=f"{scope}/add", runs=10)
    for i in range(4):
        make.op("ResourceApplyGradientDescent", [weights[i], sums[i]], name=f"dense{i}/update")
    make.end(start)
    before = named(make.workload(batch=4))
    split = stage_split.split(before, SETTINGS, 4)
    assert split.count == 16  # the next multiple of 2 x 4
    assert split.workload.variables == tuple(
        variable._replace(ipu=index % 4) for index, variable in enumerate(before.variables)
    )
    runs = {op.type: op.runs for op in split.workload.ops}
    assert runs["MatMul"] == 16
    assert runs["ResourceApplyGradientDescent"] == 1


@examples(max_examples=15, deadline=None, derandomize=True)
@given(st.one_of(workloads(), pipelines()), st.integers(1, 2))
def test_any_program_can_be_cut_and_planned(workload, stages):
    try:
        found = stage_split.split(workload, SETTINGS, stages)
    except ValueError as error:
        assert "stages as layers" in str(error)
        return
    plan = planning.plan(found.workload, SETTINGS)
    assert len(plan.memory) == stages
    assert 0 < found.balance <= 1
    assert 0 <= found.bubble_share < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4,), "received 4 stages for 3 layer"),
        ((0,), "at least 1 stage; received 0"),
        ((2, "gruoped"), "Unknown pipeline schedule 'gruoped': choose one of grouped"),
        ((2, "grouped", 6), "multiple of 4; received 6. Use 8"),
        ((2, "interleaved", 0), "multiple of 2; received 0. Use 2"),
    ],
)
def test_impossible_splits_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        stage_split.split(dense([32, 32, 32, 32]), SETTINGS, *arguments)


# --- Tests of cuts that fit, and of the advice without one, against plans of all cuts ---

WORKLOAD = dense([64] * 9, batch=1024)


def _splitter(tiles):
    settings = Settings(chip=chips.MK2.with_tiles(tiles))
    return Splitter(WORKLOAD, settings, structure.structure(WORKLOAD))


def _all(splitter, stages):
    cuts = itertools.combinations(range(1, splitter.layers), stages - 1)
    return [splitter.at([*cut, splitter.layers]) for cut in cuts]


@pytest.mark.parametrize("tiles", [5, 8])
def test_fitting_cut_is_found_if_fastest_fails(tiles):
    splitter = _splitter(tiles)
    fit = stage_split.fitting(splitter, 2)
    assert splitter.split(2).plan.fits == (tiles == 8)
    assert fit.split.plan.fits
    assert fit.tried == (1 if tiles == 8 else 2)
    assert fit.ways == ()
    fastest = min(cut.plan.timeline.cycles for cut in _all(splitter, 2) if cut.plan.fits)
    assert fit.split.plan.timeline.cycles <= 1.01 * fastest


def test_missing_size_is_reported_without_fitting_cut():
    splitter = _splitter(4)
    fit = stage_split.fitting(splitter, 2)
    assert not any(cut.plan.fits for cut in _all(splitter, 2))
    ways = {way.name: way for way in fit.ways}
    assert list(ways) == [
        "recomputation",
        "stashes in streaming memory",
        "both",
        "Sequential schedule",
        "4 stages",
        "8 stages",
    ]
    settings = fit.split.settings.replace(recompute=True, offload_activations=True)
    planned = planning.plan(fit.split.workload, settings)
    both = ways["both"]
    assert (both.worst_bytes, both.fits) == (planned.fullest.worst_bytes, planned.fits)
    assert both.cycles == planned.timeline.cycles
    assert ways["4 stages"].worst_bytes == splitter.split(4).plan.fullest.worst_bytes


def test_command_reports_tried_cuts_and_needs():
    fit = stage_split.fitting(_splitter(4), 2)
    least = fit.split.plan.fullest
    said = command.text(fit)
    assert f"{fit.tried} cuts were tried and none fits: a tile holds {least.capacity:,} B" in said
    assert f"the fullest one has {least.worst_bytes:,} B." in said
    for way in fit.ways:
        assert f"{way.worst_bytes:,} B" in said
    data = command.to_dict(fit)
    assert [way["name"] for way in data["ways_to_fit"]] == [way.name for way in fit.ways]
    assert not data["fits"]
    assert data["bubble_share"] == fit.split.plan.timeline.bubble_share
