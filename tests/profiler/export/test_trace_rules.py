"""Traces keep the rules of the trace event format, as Perfetto reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.export import chrome_trace
from tensorflow_ipu.profiler.export.trace_tracks import microseconds
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans, workloads
from tests.support.reports.trace_rules import check

CHIP = chips.get("mk2").with_tiles(32)


def planned(workload, **changes) -> Plan:
    return planning.plan(workload, Settings(CHIP, **changes))


PLANS = {
    "by hand": plans.plan(),
    "step": planned(workloads.training_step(), replicas=2),
    "loop": planned(workloads.loop()),
    "pipeline": planned(workloads.pipeline(4)),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


@pytest.mark.parametrize("launches", [1, 3])
@pytest.mark.parametrize("most", [20_000, 8])
@each_plan
def test_traces_keep_the_rules(plan, launches, most) -> None:
    check(chrome_trace.to_json(Report.from_plan(plan), launches, most))


@hypothesis_settings(derandomize=True, max_examples=10, deadline=None)
@given(workload=workloads.workloads())
def test_traces_of_random_programs_keep_the_rules(workload) -> None:
    check(chrome_trace.to_json(Report.from_plan(planned(workload)), 2))


@hypothesis_settings(derandomize=True, max_examples=6, deadline=None)
@given(workload=workloads.pipelines())
def test_traces_of_random_pipelines_keep_the_rules(workload) -> None:
    check(chrome_trace.to_json(Report.from_plan(planned(workload))))


@pytest.mark.parametrize("value", [0, 1, 999, 1001, 1003, 8_191, 10**9 + 7, 10**15 + 1])
def test_readers_that_cut_off_find_the_nanoseconds(value) -> None:
    assert int(json.loads(json.dumps(microseconds(value))) * 1000) == value


@pytest.mark.parametrize("most", [4, 10, 100])
def test_tracks_are_bounded_and_keep_the_cycles(most) -> None:
    plan = planned(workloads.pipeline(4, count=64))
    data = chrome_trace.trace(Report.from_plan(plan), most_slices=most)
    slices: dict[tuple[int, int], list[dict]] = {}
    for event in data["traceEvents"]:
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
    for (ipu, thread), events in slices.items():
        assert len(events) <= most
        if ipu < plan.workload.ipus and thread == 0:
            shown = sum(event["args"]["cycles"] for event in events)
            wanted = sum(s.cycles for s in plan.timeline.segments if s.ipu == ipu)
            assert shown == pytest.approx(wanted)
    assert data["otherData"]["short_slices_merged"] > 0


def test_processes_say_what_is_modelled() -> None:
    data = chrome_trace.trace(Report.from_plan(PLANS["pipeline"]))
    names = [e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"]
    assert len(names) == 5 and all(name.endswith("modelled") for name in names)


def test_many_launches_do_not_make_a_large_trace() -> None:
    report = Report.from_plan(PLANS["step"])
    events = chrome_trace.trace(report, launches=1000, most_slices=10_000)["traceEvents"]
    assert len(events) < 10 * 10_000
