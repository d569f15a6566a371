"""Target, graph, memory of tiles and liveness, compared with the plan that a report has."""

from __future__ import annotations

import dataclasses

import numpy as np
import pva
import pytest

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans, workloads

CHIP = chips.get("mk2").with_tiles(32)
PLANS = {
    "by hand": plans.plan(2),
    "step": planning.plan(workloads.training_step(), Settings(CHIP, 2)),
    "pipeline": planning.plan(workloads.pipeline(2), Settings(CHIP)),
    "I/O tiles": planning.plan(workloads.training_step(), Settings(CHIP, io_tiles=8)),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


def opened(plan: Plan, tmp_path) -> pva.Report:
    Report.from_plan(plan).save(tmp_path / "report.json")
    return pva.openReport(tmp_path)


@each_plan
def test_the_target_is_that_of_one_replica(plan, tmp_path) -> None:
    report = opened(plan, tmp_path)
    target, chip = report.compilation.target, plan.settings.chip
    assert target.numIPUs == plan.workload.ipus
    assert target.numReplicas == plan.settings.replicas
    assert target.numTiles == target.numIPUs * target.tilesPerIpu == len(report.compilation.tiles)
    assert target.bytesPerTile == chip.memory_per_tile
    assert target.totalMemory == target.numIPUs * target.bytesPerIPU
    assert target.bytesPerIPU == target.tilesPerIpu * target.bytesPerTile
    assert target.clockFrequency == chip.clock


@each_plan
def test_bytes_of_tiles_are_those_of_the_plan(plan, tmp_path) -> None:
    tiles = opened(plan, tmp_path).compilation.tiles
    peak = np.concatenate([memory.peak for memory in plan.memory])
    gaps = np.concatenate(
        [
            np.zeros_like(m.peak) if m.category("gaps") is None else m.category("gaps").tiles
            for m in plan.memory
        ]
    )
    assert [tile.memory.total.includingGaps for tile in tiles] == peak.tolist()
    assert [tile.memory.total.excludingGaps for tile in tiles] == (peak - gaps).tolist()
    for tile in (tiles[0], tiles[-1]):
        memory = tile.memory
        parts = {name: getattr(memory.category, name).total for name in memory.category}
        assert sum(parts.values()) == memory.total.excludingGaps
        both = memory.alwaysLiveBytes + memory.notAlwaysLiveBytes
        assert both == memory.total.excludingGaps


def test_storage_categories_have_what_the_planner_says(tmp_path) -> None:
    plan = PLANS["step"]
    (memory,) = plan.memory
    tiles = opened(plan, tmp_path).compilation.tiles
    assert sum(t.memory.category.vertexCode.total for t in tiles) == (
        memory.category("vertex code").total
    )
    assert sum(t.memory.category.controlCode.total for t in tiles) == (
        memory.category("control code").total
    )
    data = ("variables", "optimizer state", "activations", "inputs", "temporaries")
    assert sum(t.memory.category.variable.total for t in tiles) == sum(
        memory.category(name).total for name in data if memory.category(name)
    )
    with pytest.raises(pva.NotModelledError, match="internalExchangeCode"):
        _ = tiles[0].memory.category.globalExchangeCode


@each_plan
def test_liveness_is_that_of_the_plan(plan, tmp_path) -> None:
    compilation = opened(plan, tmp_path).compilation
    steps = compilation.livenessProgramSteps
    wanted = np.concatenate([memory.live_bytes for memory in plan.memory])
    assert [step.notAlwaysLiveMemory.bytes for step in steps] == wanted.tolist()
    names = [plan.workload.ops[op].name for m in plan.memory for op in m.live_ops.tolist()]
    assert [step.program.name for step in steps] == names
    assert set(map(id, (step.program for step in steps))) <= set(map(id, compilation.programs))


@pytest.mark.parametrize("name", ["step", "pipeline"])
def test_step_variables_add_up_to_its_bytes(name, tmp_path) -> None:
    plan = PLANS[name]
    steps = opened(plan, tmp_path).compilation.livenessProgramSteps
    for step in steps:
        memory = step.notAlwaysLiveMemory
        assert sum(variable.bytes for variable in memory.variables) == memory.bytes
        sizes = [variable.bytes for variable in memory.variables]
        assert sizes == sorted(sizes, reverse=True)
    worst = max(steps, key=lambda step: step.notAlwaysLiveMemory.bytes)
    names = {variable.name for variable in worst.notAlwaysLiveMemory.variables}
    at_peak = {b.name for m in plan.memory for b in m.at_peak}
    assert names and names <= at_peak


def test_reports_of_other_versions_list_peak_variables(tmp_path) -> None:
    plan = PLANS["by hand"]  # what it says is not what a plan would be
    first, worst, _ = opened(plan, tmp_path).compilation.livenessProgramSteps
    (variable,) = worst.notAlwaysLiveMemory.variables
    assert (variable.name, variable.bytes) == ("dense/MatMul", 1000)
    with pytest.raises(pva.NotModelledError, match="most is live"):
        _ = first.notAlwaysLiveMemory.variables


def test_always_live_variables_are_those_of_the_program(tmp_path) -> None:
    plan = PLANS["step"]
    listed = opened(plan, tmp_path).compilation.alwaysLiveVariables
    sizes = {variable.name: variable.bytes for variable in listed}
    wanted = {variable.name: variable.num_bytes for variable in plan.workload.variables}
    assert {name: sizes[name] for name in wanted} == wanted
    assert [v.bytes for v in listed] == sorted(sizes.values(), reverse=True)
    assert not {"vertex code", "control code", "gaps", "stack"} & set(sizes)


@each_plan
def test_the_graph_counts_compute_sets_and_buffers(plan, tmp_path) -> None:
    compilation = opened(plan, tmp_path).compilation
    assert compilation.graph.numComputeSets == len(compilation.computeSets)
    assert compilation.graph.numVars == len(plan.workload.buffers)
    assert len({id(cs) for cs in compilation.computeSets}) == len(compilation.computeSets)
    computing = {time.op for time in plan.timeline.ops if time.cost.compute}
    assert {plan.workload.ops[op].name for op in computing} <= {
        cs.name for cs in compilation.computeSets
    }


def test_what_is_not_modelled_is_error_with_reason(tmp_path) -> None:
    compilation = opened(PLANS["by hand"], tmp_path).compilation
    with pytest.raises(pva.NotModelledError, match="numVertices is not modelled: .*cycles"):
        _ = compilation.graph.numVertices
    assert not hasattr(compilation.graph, "numEdges")
    assert issubclass(pva.NotModelledError, AttributeError)
    with pytest.raises(AttributeError, match=r"no attribute 'edges'. It has numComputeSets"):
        _ = compilation.graph.edges


def test_engine_options_are_those_of_the_report(tmp_path) -> None:
    options = {"engine": {"autoReport.all": "true"}}
    Report.from_plan(plans.plan(), options).save(tmp_path / "report.json")
    assert pva.openReport(tmp_path).compilation.engineOptions == options["engine"]


@each_plan
def test_objects_of_report_show_themselves_on_one_line(plan, tmp_path) -> None:
    report = opened(plan, tmp_path)
    compilation, step = report.compilation, report.execution.steps[0]
    shown = [
        *(report, compilation, report.execution, report.execution.runs[0], step, step.ipus[0]),
        *(compilation.target, compilation.graph, compilation.tiles[0], compilation.programs[0]),
        *(compilation.tiles[0].memory.category, compilation.livenessProgramSteps[0]),
        *(compilation.alwaysLiveVariables[0], compilation.livenessProgramSteps[0].program),
        *(report.instrumentationSettings, report.poplarVersion, report.version),
        *(compilation.computeSets[0], *compilation.computeSets[0].vertices[:1]),
    ]
    for thing in shown:
        text = repr(thing)
        assert text.startswith(type(thing).__name__ + "(") and "\n" not in text
        assert "object at" not in text and len(text) < 300
    with pytest.raises(dataclasses.FrozenInstanceError):
        compilation.target.numIPUs = 3
