"""Steps, runs and programs: their cycles add up to the plan's."""

from __future__ import annotations

import dataclasses
import fnmatch

import pva
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import pipeline_time
from tensorflow_ipu.planner.workload import Copy
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tests.support.planner import plans, workloads
from tests.support.planner.workloads import Builder

CHIP = chips.get("mk2").with_tiles(32)
KINDS = {
    "visitOnTileExecute": ("compute",),
    "visitDoExchange": ("exchange",),
    "visitSync": ("sync", "idle"),
    "visitGlobalExchange": ("link", "collective"),
    "visitStreamCopyMid": ("host", "streaming"),
}


def planned(workload, **changes) -> Plan:
    return planning.plan(workload, Settings(CHIP, **changes))


def opened(plan: Plan, folder, **rest) -> pva.Report:
    Report.from_plan(plan, **rest).save(folder / "report.json")
    return pva.openReport(folder)


def copies() -> Plan:
    make = Builder(2)
    x = make.input("x", (1000,))
    first = make.op("Tile", [x], (4000,), name="made")
    make.op("Slice", [first], (1000,), name="used", ipu=1)
    return planned(dataclasses.replace(make.workload(), copies=(Copy("made", 0, 1, 16_000, 1),)))


PLANS = {
    "by hand": plans.plan(),
    "step": planned(workloads.training_step(), replicas=4),
    "loop": planned(workloads.loop()),
    "copies": copies(),
    "pipeline": planned(workloads.pipeline(2), replicas=2),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


class Names(pva.ProgramVisitor):
    """Records calls and their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        for method in (*KINDS, "visitSequence", "visitRepeat", "visitIf", "visitCall"):
            note = lambda p, method=method: self.calls.append((method, p.name))  # noqa: E731
            setattr(self, method, note)


def by_method(report: pva.Report, ipu: int) -> dict[str, int]:
    """Cycles of an IPU by the method of a visitor that is called with the program of a step."""
    found: dict[str, int] = {}
    for step in report.execution.steps:
        names = Names()
        step.program.accept(names)
        ((method, _),) = names.calls
        found[method] = found.get(method, 0) + step.ipus[ipu].cycles
    return found


@each_plan
def test_cycles_of_steps_add_up_on_each_ipu(plan, tmp_path) -> None:
    report = opened(plan, tmp_path)
    for ipu in range(plan.workload.ipus):
        total = sum(step.ipus[ipu].cycles for step in report.execution.steps)
        assert total == round(plan.timeline.cycles)
        own = [s for s in plan.timeline.segments if s.ipu == ipu]
        found = by_method(report, ipu)
        for method, kinds in KINDS.items():
            wanted = sum(s.cycles for s in own if s.kind in kinds)
            known = found.get(method, 0)
            assert known == pytest.approx(wanted, abs=len(own))


@each_plan
def test_steps_of_an_ipu_follow_each_other(plan, tmp_path) -> None:
    report = opened(plan, tmp_path)
    for ipu in range(plan.workload.ipus):
        parts = [step.ipus[ipu].activeCycles for step in report.execution.steps]
        parts = [part for part in parts if part.cyclesTo.max > part.cyclesFrom.min]
        for before, after in zip(parts, parts[1:]):
            assert before.cyclesTo.max == after.cyclesFrom.min
        for part in parts:
            assert part.cyclesFrom.min == part.cyclesFrom.max


@hypothesis_settings(derandomize=True, max_examples=10, deadline=None)
@given(workload=workloads.workloads())
def test_cycles_of_random_programs_add_up(tmp_path_factory, workload) -> None:
    plan = planned(workload)
    report = opened(plan, tmp_path_factory.mktemp("report"))
    for ipu in range(workload.ipus):
        total = sum(step.ipus[ipu].cycles for step in report.execution.steps)
        assert total == round(plan.timeline.cycles)
    inside = [child for program in report.compilation.programs for child in program.children]
    assert len(inside) == len(report.compilation.programs) - 1  # all but the whole, each once


def test_what_long_pipeline_leaves_out_has_step(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pipeline_time, "MOST_ENTRIES", 20)
    plan = planned(workloads.pipeline(2, count=100))
    report = opened(plan, tmp_path)
    left = [step for step in report.execution.steps if "not listed" in step.program.name]
    assert len(left) == 2 and all(isinstance(s.program, pva.SequenceProgram) for s in left)
    for ipu in range(2):
        total = sum(step.ipus[ipu].cycles for step in report.execution.steps)
        assert total == round(plan.timeline.cycles)
        assert sum(step.ipus[ipu].cycles for step in left) > plan.timeline.cycles / 2


def test_both_ipus_have_part_in_a_copy(tmp_path) -> None:
    report = opened(PLANS["copies"], tmp_path)
    steps = [s for s in report.execution.steps if isinstance(s.program, pva.GlobalExchangeProgram)]
    (step,) = steps
    assert step.ipus[0].cycles == step.ipus[1].cycles > 0
    assert step.ipus[0].activeCycles == step.ipus[1].activeCycles


@pytest.mark.parametrize(
    "launches, option, runs", [(0, None, 1), (5, None, 1), (5, "3", 3), (2, "3", 2)]
)
def test_runs_are_the_launches_that_options_ask_for(tmp_path, launches, option, runs) -> None:
    name = "autoReport.executionProfileProgramRunCount"
    options = {"engine": {} if option is None else {name: option}}
    report = opened(plans.plan(), tmp_path, options=options, executions=Executions(launches, 1.0))
    execution = report.execution
    assert len(execution.runs) == runs
    assert len(execution.steps) == runs * len(execution.runs[0].steps)
    assert sum(step.ipus[0].cycles for step in execution.steps) == runs * 1000
    last = execution.runs[-1].steps[0].ipus[0].activeCycles
    assert last.cyclesFrom.min == (runs - 1) * 1000
    with pytest.raises(pva.NotModelledError, match="host"):
        _ = execution.runs[0].microsecondsStart


def test_the_tree_has_loops_branches_and_calls(tmp_path) -> None:
    make = Builder()
    x = make.input("x", (1 << 12,))
    loop = make.begin("While", [x], name="loop", trip_count=7)
    branch = make.begin("If", [x], name="choice", runs=7)
    make.op("Tile", [x], (1 << 13,), name="then", runs=7, conditional=True)
    make.op("Tile", [x], (1 << 14,), name="else", runs=7, conditional=True, branch=1)
    make.end(branch)
    make.end(loop)
    call = make.begin("PartitionedCall", [x], name="call")
    make.op("Tile", [x], (1 << 13,), name="called")
    make.end(call)
    report = opened(planned(make.workload()), tmp_path)
    whole = report.compilation.programs[0]
    assert isinstance(whole, pva.SequenceProgram)
    loop_program = next(p for p in whole.children if p.name == "loop")
    assert isinstance(loop_program, pva.RepeatProgram) and loop_program.count == 7
    (choice,) = loop_program.children
    assert isinstance(choice, pva.IfProgram)
    assert [[p.name for p in branch.children] for branch in choice.children] == [["then"], ["else"]]
    call_program = next(p for p in whole.children if p.name == "call")
    assert call_program.type is pva.Program.Type.Call
    names = Names()
    for program in report.compilation.programs:
        program.accept(names)
    called = {method for method, _ in names.calls}
    assert {"visitSequence", "visitRepeat", "visitIf", "visitCall", "visitDoExchange"} <= called


def test_loops_without_a_known_count_say_so(tmp_path) -> None:
    make = Builder()
    x = make.input("x", (64,))
    loop = make.begin("While", [x], name="loop")
    make.op("Tile", [x], (128,), name="inner")
    make.end(loop)
    report = opened(planned(make.workload()), tmp_path)
    (loop_program,) = [p for p in report.compilation.programs if isinstance(p, pva.RepeatProgram)]
    with pytest.raises(ValueError, match="loop runs depends on data"):
        _ = loop_program.count


def test_compute_sets_have_their_vertex_types(tmp_path) -> None:
    plan = PLANS["step"]
    report = opened(plan, tmp_path)
    found = {cs.name: [v.type.name for v in cs.vertices] for cs in report.compilation.computeSets}
    for time in plan.timeline.ops:
        if time.cost.compute:
            assert found[plan.workload.ops[time.op].name] == list(time.cost.codelets)
    products = fnmatch.filter(found, "dense*MatMul*")
    assert len(products) == 3
    with pytest.raises(pva.NotModelledError):
        _ = report.compilation.computeSets[0].vertices[0].count


def test_stages_have_the_vertex_types_of_their_ops(tmp_path) -> None:
    plan = PLANS["pipeline"]
    report = opened(plan, tmp_path)
    computed = [
        step.program
        for step in report.execution.steps
        if isinstance(step.program, pva.OnTileExecuteProgram) and step.program.name == "stage1"
    ]
    types = {vertices.type.name for p in computed for vertices in p.computeset.vertices}
    ops = plan.workload.ops
    wanted = {n for t in plan.timeline.ops if ops[t.op].stage == 1 for n in t.cost.codelets}
    assert types == wanted != set()


def test_feeds_of_pipelines_are_transfers_with_the_host(tmp_path) -> None:
    report = opened(PLANS["pipeline"], tmp_path)
    (feed,) = [p for p in report.compilation.programs if p.name == "infeed" and p.children]
    assert [type(program) for program in feed.children] == [pva.StreamCopyMidProgram]


def test_only_visitors_are_accepted(tmp_path) -> None:
    report = opened(PLANS["by hand"], tmp_path)
    with pytest.raises(TypeError, match=r"received object. Derive .* from pva\.ProgramVisitor"):
        report.compilation.programs[0].accept(object())
