"""Text and trace, each read back by something that is not ours."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.export import chrome_trace, text_report
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tests.support.planner import plans

PLANS = {
    "replicas": plans.plan(4),
    "pipeline": plans.pipeline_plan(),
    "oom": plans.plan(scale=1000),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
LAYERS = 2  # the thread of nested slices


@each_plan
def test_text_has_all_sections_in_order(plan: Plan) -> None:
    text = text_report.text(Report.from_plan(plan))
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    order = ["Target", "Graph", "Memory usage", "Execution", "Pipeline", "Host I/O"]
    order += ["Largest tensors at the peak", "Top operations", "Top layers", "Remedies"]
    assert titles == [title for title in order if title in titles]
    assert ("Pipeline" in titles) == (plan.workload.pipeline is not None)
    assert {"Target", "Graph", "Memory usage", "Execution"} <= set(titles)
    assert not re.search(r" +$", text, re.MULTILINE)


@each_plan
def test_text_has_the_numbers_of_the_plan(plan: Plan) -> None:
    text = text_report.text(Report.from_plan(plan))
    chip = plan.settings.chip
    assert f"{chip.clock / 1e6:,.1f} MHz" in text and chip.title in text
    assert f"A launch takes {round(plan.timeline.cycles):,} cycles" in text
    for memory in plan.memory:
        assert f"IPU {memory.ipu}: {memory.total:,} B in all" in text
        for category in memory.categories:
            line = next(
                line for line in text.splitlines() if line.strip().startswith(category.name + " ")
            )
            assert f"{category.total:,}" in line and category.label.value in line
    for kind, cycles in plan.timeline.by_kind.items():
        share = f"{100 * cycles / plan.timeline.cycles:.1f} %"
        assert re.search(rf"^ +{kind} +{round(cycles):,} +{share}$", text, re.MULTILINE)
    assert ("does NOT fit" in text) == (not plan.fits)


def test_text_says_whose_time_the_wall_time_is() -> None:
    text = text_report.text(Report.from_plan(plans.plan(), executions=Executions(4, 2.0)))
    assert "4 launches took 2.000 s of the host's wall time (500.000 ms each)" in text


def _slices(trace: dict[str, list[dict[str, object]]]) -> dict[tuple[int, int], list[tuple]]:
    tracks: dict[tuple[int, int], list[tuple]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            start, length = float(event["ts"]), float(event["dur"])  # type: ignore[arg-type]
            track = tracks.setdefault((event["pid"], event["tid"]), [])  # type: ignore[arg-type]
            track.append((start, start + length, event))
    return tracks


@pytest.mark.parametrize("launches", [1, 3])
@each_plan
def test_slices_of_a_track_do_not_overlap(plan: Plan, launches: int) -> None:
    trace = json.loads(chrome_trace.to_json(Report.from_plan(plan), launches))
    tracks = _slices(trace)
    assert {process for process, _ in tracks} >= set(range(plan.workload.ipus))
    for (_, thread), slices in tracks.items():
        if thread == LAYERS:
            continue  # they are nested
        ordered = sorted(slices, key=lambda s: s[:2])
        for (_, end, _), (start, _, _) in zip(ordered, ordered[1:]):
            assert start >= end - 1e-6


@pytest.mark.parametrize("launches", [1, 3])
@each_plan
def test_the_trace_has_the_cycles_of_the_plan(plan: Plan, launches: int) -> None:
    trace = json.loads(chrome_trace.to_json(Report.from_plan(plan), launches))
    scale = 1e6 / plan.timeline.clock
    for ipu in range(plan.workload.ipus):
        slices = _slices(trace)[ipu, 0]
        for kind in {s.kind for s in plan.timeline.segments}:
            cycles = sum(s.cycles for s in plan.timeline.segments if (s.ipu, s.kind) == (ipu, kind))
            found = [(end - start, event) for start, end, event in slices if event["cat"] == kind]
            exact = sum(event["args"]["cycles"] for _, event in found)
            assert exact == pytest.approx(launches * cycles)
            shown = sum(length for length, _ in found)
            assert shown == pytest.approx(launches * cycles * scale, abs=1e-3 * len(found))
    last = max(end for (pid, _), s in _slices(trace).items() for _, end, _ in s if pid != 2)
    assert last <= launches * (plan.timeline.seconds * 1e6 + 1e-3) or not plan.workload.pipeline


@each_plan
def test_the_trace_counts_memory(plan: Plan) -> None:
    trace = json.loads(chrome_trace.to_json(Report.from_plan(plan)))
    for memory in plan.memory:
        counted = [e for e in trace["traceEvents"] if e["ph"] == "C" and e["pid"] == memory.ipu]
        points = [e for e in counted if e["name"] == "memory"]
        assert [p["args"]["not always live"] for p in points] == memory.live_bytes.tolist()
        assert {p["args"]["always live"] for p in points} == {memory.always_live}
        times = [p["ts"] for p in points]
        assert times == sorted(times)


@each_plan
def test_the_trace_names_its_tracks(plan: Plan) -> None:
    trace = json.loads(chrome_trace.to_json(Report.from_plan(plan)))
    named = {
        (e["pid"], e["tid"])
        for e in trace["traceEvents"]
        if e["ph"] == "M" and "thread" in e["name"]
    }
    assert set(_slices(trace)) <= named


def test_transfers_longer_than_launch_still_do_not_overlap() -> None:
    plan = plans.plan()
    long = plan.timeline.transfers[0]._replace(runs=100)
    timeline = dataclasses.replace(plan.timeline, transfers=(long, *plan.timeline.transfers[1:]))
    report = Report.from_plan(dataclasses.replace(plan, timeline=timeline))
    for (_, thread), slices in _slices(chrome_trace.trace(report, launches=3)).items():  # type: ignore[arg-type]
        if thread == LAYERS:
            continue
        ordered = sorted(slices, key=lambda s: s[:2])
        assert all(b[0] >= a[1] - 1e-6 for a, b in zip(ordered, ordered[1:]))
