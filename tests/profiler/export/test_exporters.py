"""Text, HTML, notebook and trace, each read back by something that is not ours."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.export import chrome_trace, html_report, notebook, svg, text_report
from tensorflow_ipu.profiler.report import Executions, Report
from tests.support import plans

PLANS = {
    "replicas": plans.plan(4),
    "pipeline": plans.pipeline_plan(),
    "oom": plans.plan(scale=1000),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
LAYERS = 2  # the thread of nested slices
_VOID = {"meta", "br", "line", "rect"}


class Page(HTMLParser):
    """Reads a page: its texts, its tables, and whether its tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.values: list[float] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for n, v in attrs if n in ("src", "href", "xlink:href", "srcset")]
        self.values += [float(v or "nan") for n, v in attrs if n == "data-v"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@each_plan
def test_the_page_is_whole_and_stands_alone(plan: Plan) -> None:
    text = html_report.page(Report.from_plan(plan, {"engine": {"x": "</script>"}}))
    page = Page(text)
    assert not page.links
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttp", text)
    assert page.tags.count("script") == 1 and "</script>" in "".join(page.texts)
    assert plan.workload.name in "".join(page.texts)
    assert len(text) < 200_000


@each_plan
def test_the_tables_of_the_page_have_the_numbers_of_the_plan(plan: Plan) -> None:
    page = Page(html_report.page(Report.from_plan(plan)))
    rows = {tuple(row[:2]): row for row in page.rows}
    for memory in plan.memory:
        for category in memory.categories:
            row = rows[str(memory.ipu), category.name]
            assert row[3:] == [
                f"{category.total:,}",
                f"{max(category.tiles):,}",
                category.label.value,
            ]
    for kind, cycles in plan.timeline.by_kind.items():
        assert [kind, f"{cycles:,.0f}"] == rows[kind, f"{cycles:,.0f}"][:2]
    for time in plan.timeline.ops:
        op = plan.workload.ops[time.op]
        assert rows[op.name, op.type][6] == f"{time.cycles:,.0f}"
    for transfer in plan.timeline.transfers:
        assert rows[transfer.name, transfer.kind][3] == f"{transfer.num_bytes:,}"


def test_the_page_says_that_a_program_does_not_fit() -> None:
    assert "does not fit" in html_report.page(Report.from_plan(PLANS["oom"]))
    assert "does not fit" not in html_report.page(Report.from_plan(PLANS["replicas"]))


@each_plan
def test_notebooks_show_a_part_of_a_page(plan: Plan) -> None:
    report = Report.from_plan(plan)
    text = report._repr_html_()
    assert text == notebook.fragment(report)
    page = Page(text)
    assert page.tags[0] == "style" and page.tags.count("svg") == 3 and "script" not in page.tags
    assert "body" not in page.tags


def test_pictures_have_the_heights_of_the_numbers() -> None:
    drawing = svg.areas([[100.0] * 4, [0.0, 100.0, 0.0, 0.0]], None, ("t", "x"), 4, str)
    low, high = re.findall(r'<path d="M(.*?)Z"', drawing)
    ys = {float(point.split()[1]) for point in low.split("L")}
    assert len(ys) == 2
    bottom, middle = max(ys), min(ys)
    top = min(float(point.split()[1]) for point in high.split("L"))
    assert bottom - middle == pytest.approx(middle - top)


@pytest.mark.parametrize("most", [0.001, 1, 7, 99, 624 * 1024, 10**12])
def test_ticks_are_few_and_reach_the_largest_value(most: float) -> None:
    for marks in (svg.ticks(most), svg.byte_ticks(most)):
        assert marks[0] == 0 and most <= marks[-1] <= 2.5 * most + 1e-9 or most < 1
        assert 2 <= len(marks) <= 7


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


def test_transfers_longer_than_a_launch_still_do_not_overlap() -> None:
    plan = plans.plan()
    long = plan.timeline.transfers[0]._replace(runs=100)
    timeline = dataclasses.replace(plan.timeline, transfers=(long, *plan.timeline.transfers[1:]))
    report = Report.from_plan(dataclasses.replace(plan, timeline=timeline))
    for (_, thread), slices in _slices(chrome_trace.trace(report, launches=3)).items():  # type: ignore[arg-type]
        if thread == LAYERS:
            continue
        ordered = sorted(slices, key=lambda s: s[:2])
        assert all(b[0] >= a[1] - 1e-6 for a, b in zip(ordered, ordered[1:]))


def test_pages_of_large_programs_stay_small() -> None:
    plan = plans.plan()
    step = plan.timeline.segments[1]
    many = tuple(step._replace(start=float(i) / 100, cycles=0.005) for i in range(50_000))
    timeline = dataclasses.replace(
        plan.timeline,
        segments=many,
        ops=plan.timeline.ops * 3000,
        transfers=plan.timeline.transfers * 500,
    )
    text = html_report.page(Report.from_plan(dataclasses.replace(plan, timeline=timeline)))
    Page(text)
    assert len(text) < 1_000_000
