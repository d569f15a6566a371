"""The files of pages: whole, alone, safe, with the numbers of the plan even without a browser."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest

from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.export import html_page
from tensorflow_ipu.profiler.export.page_data import page_data
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans
from tests.support.reports import pages

PLANS = {
    "replicas": plans.plan(4),
    "pipeline": plans.pipeline_plan(),
    "oom": plans.plan(scale=1000),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
_VOID = {"meta"}


class Page(HTMLParser):
    """Reads a page: its texts, tables and scripts, and whether its tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.contents: dict[str, list[str]] = {}
        self.rows: list[list[str]] = []
        self.policy = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [v or "" for n, v in attrs if n in ("src", "href", "srcset", "style")]
        found = dict(attrs)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in _VOID:
            self.open.append(tag)
            self.contents.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.contents[self.open[-1]][-1] += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@each_plan
def test_the_page_is_whole_and_stands_alone(plan: Plan) -> None:
    text = html_page.report_page(Report.from_plan(plan, {"engine": {"x": pages.HOSTILE}}))
    page = Page(text)
    assert not page.links
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttp|innerHTML|eval\(", text)
    assert page.contents["title"] == [plan.workload.name]
    assert len(text) < 250_000


@each_plan
def test_policy_allows_only_named_script_and_style(plan: Plan) -> None:
    page = Page(html_page.report_page(Report.from_plan(plan)))
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    assert rules["default-src"] == "'none'"
    data, script = page.contents["script"]
    (style,) = page.contents["style"]
    for kind, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert script.rstrip().endswith("showReport();\n})();")


@each_plan
def test_data_in_page_equals_that_of_report(plan: Plan) -> None:
    report = Report.from_plan(plan, {"engine": {"x": pages.HOSTILE}})
    data = Page(html_page.report_page(report)).contents["script"][0]
    assert "<" not in data
    assert json.loads(data) == json.loads(json.dumps(page_data(report)))


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028", "]]>", '"\\'])
def test_no_text_leaves_the_element_of_the_data(text: str) -> None:
    shown = html_page.script_json({text: [text]})
    assert "<" not in shown and json.loads(shown) == {text: [text]}


@each_plan
def test_tables_without_javascript_have_numbers_of_plan(plan: Plan) -> None:
    page = Page(html_page.report_page(Report.from_plan(plan)))
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


def test_page_says_that_a_program_does_not_fit() -> None:
    verdict = "does not fit</span>"
    assert verdict in html_page.report_page(Report.from_plan(PLANS["oom"]))
    assert verdict not in html_page.report_page(Report.from_plan(PLANS["replicas"]))


@each_plan
def test_notebooks_show_the_page_in_a_frame(plan: Plan) -> None:
    report = Report.from_plan(plan)
    text = report._repr_html_()
    assert text == html_page.notebook_fragment(report)
    (source,) = re.findall(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', text)
    assert html.unescape(source) == html_page.report_page(report)


def test_notebooks_get_main_numbers_of_large_report(monkeypatch) -> None:
    monkeypatch.setattr(html_page, "_MOST_CHARACTERS", 1000)
    text = Report.from_plan(PLANS["replicas"])._repr_html_()
    assert "iframe" not in text and "1,000 cycles" in text and "--format html" in text
    Page(text)


def test_pages_of_large_programs_stay_small() -> None:
    plan = pages.plan(1000, tiles=1472)
    step = plan.timeline.segments[1]
    many = tuple(step._replace(start=float(i) / 100, cycles=0.005) for i in range(50_000))
    timeline = dataclasses.replace(plan.timeline, segments=many)
    text = html_page.report_page(Report.from_plan(dataclasses.replace(plan, timeline=timeline)))
    assert len(text) < 2_500_000


def test_a_comparison_has_the_numbers_of_both() -> None:
    before, after = Report.from_plan(plans.plan()), Report.from_plan(plans.plan(scale=2))
    page = Page(html_page.comparison_page(before, after))
    rows = {tuple(row[:2]): row for row in page.rows}
    assert rows["(program)", "variables bytes"][2:] == ["8,000", "16,000", "8,000"]
    assert page.contents["script"][1].rstrip().endswith("showDifferences();\n})();")


def test_comparison_of_equal_reports_is_a_page_too() -> None:
    report = Report.from_plan(plans.plan())
    assert Page(html_page.comparison_page(report, report)).contents["script"]
