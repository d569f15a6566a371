"""Tests of pages in a headless browser: clicks, keys, themes, printing, large programs."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.export import html_page
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import plans, workloads
from tests.support.reports import browser as browsers
from tests.support.reports import pages

VIEWS = "Summary Layers Operations Program Timeline Memory Liveness Tensors Options".split()
MORE_VIEWS = ["Roofline", "Graph"]  # without a key


@pytest.fixture(scope="module")
def report() -> Report:
    return pages.report()


@pytest.fixture(scope="module")
def browser():
    with browsers.launched() as launched:
        yield launched


@pytest.fixture(scope="module")
def file(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "report.html"
    path.write_text(html_page.report_page(report), encoding="utf-8")
    return path


@pytest.fixture
def show(browser, file):
    """Opens the page of the report at a fragment; an error or warning fails the test."""

    def at(fragment: str = "", path=file, **options):
        return browsers.opened(browser, path, fragment, **options)

    return at


def view(page):
    """The name of the view that is shown."""
    return page.locator(".views [aria-current=page]").inner_text().split("\n")[0]


def title(page) -> str:
    """Returns the name of the chosen item in the panel beside the views."""
    return page.locator(".detail h2").inner_text()


def rows(page) -> list[list[str]]:
    """Cells of the rows of the table that is shown."""
    table = page.locator(".view.shown .body")
    return table.evaluate(
        "body => [...body.children].map(row => [...row.children].map(cell => cell.textContent))"
    )


def current(page):
    """The row of the table that is shown that keys are at."""
    return page.locator(".view.shown .row.current")


def number(text: str) -> float:
    """A number with separators."""
    return float(text.replace(",", ""))


class TestViews:
    def test_every_view_shows_something_without_an_error(self, show, tmp_path):
        pipeline = tmp_path / "pipeline.html"
        pipeline.write_text(html_page.report_page(Report.from_plan(plans.pipeline_plan())))
        for options in ({}, {"path": pipeline}):
            with show(**options) as page:
                for name in (*VIEWS, *MORE_VIEWS):
                    page.get_by_role("button", name=re.compile(f"^{name}")).first.click()
                    assert view(page).startswith(name)
                    shown = page.locator(".view.shown")
                    assert shown.count() == 1 and shown.bounding_box()["height"] > 100

    def test_the_summary_has_the_numbers_of_the_plan(self, show, report):
        with show() as page:
            text = page.locator(".view.shown").inner_text()
        assert f"{report.plan.timeline.cycles:,.0f}" in text
        for kind, cycles in report.plan.timeline.by_kind.items():
            assert f"{kind}\n{cycles:,.0f}" in text or not cycles

    def test_misfit_names_first_change_to_write(self, show, tmp_path):
        large = pages.report(width=2048, tiles=16)
        path = tmp_path / "large.html"
        path.write_text(html_page.report_page(large), encoding="utf-8")
        remedy = large.insights["remedies"][0]
        with show(path=path) as page:
            assert page.locator(".bar .pill").inner_text() == "does not fit"
            line = page.locator("details").filter(has_text=remedy["name"]).first
            assert not line.locator("pre").is_visible()
            line.locator("summary").click()
            assert line.locator("pre").inner_text() == remedy["instruction"]

    def test_operations_have_cycles_of_plan_most_expensive_first(self, show, report):
        with show("view=operations") as page:
            found = {row[0]: number(row[1]) for row in rows(page)}
            cycles = list(found.values())
        wanted = {row.name: row.cycles for row in report.ops()}
        assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=0.51)
        assert cycles == sorted(cycles, reverse=True)

    def test_the_time_of_a_transfer_has_its_color(self, show, report):
        transfer = next(row for row in report.operations() if row.transfer)
        with show("view=operations") as page:
            rows_of = page.locator(".view.shown .body .row")
            row = rows_of.filter(has_text=transfer.bound).first
            colors = [
                row.locator(part).first.evaluate("each => each.style.background")
                for part in (".mini i:last-child", ".swatch")
            ]
            assert colors[0] == colors[1] != ""

    def test_a_heading_sorts_by_its_column_both_ways(self, show):
        with show("view=operations") as page:
            heading = page.get_by_role("columnheader", name="Operation", exact=True)
            heading.get_by_role("button").click()
            names = [row[0] for row in rows(page)]
            assert heading.get_attribute("aria-sort") == "ascending" and len(names) > 6
            assert names == sorted(names, key=str.casefold)
            heading.get_by_role("button").click()
            assert [row[0] for row in rows(page)] == names[::-1]

    def test_a_filter_leaves_what_has_all_its_words(self, show):
        with show("view=operations") as page:
            page.get_by_label("filter operations").fill("dense1 matmul")
            assert [row[0] for row in rows(page)] == ["encoder/dense1/MatMul"]
            assert "q=dense1" in page.url
            page.get_by_label("bound by").select_option("host")
            assert rows(page) == [] and page.locator(".view.shown .empty").is_visible()

    def test_program_is_tree_of_loops_and_their_ops(self, show, report):
        with show("view=program") as page:
            found = {row[0].strip("▾▸▣⟳ "): row for row in rows(page)}
            loop = found["repeat/while"]
            assert loop[1] == "loop" and loop[4] == "4"
            inner = [number(found[name][2]) for name in found if name.startswith("encoder")]
            wanted = [row.cycles for row in report.ops() if row.name.startswith("encoder")]
            assert sorted(inner) == pytest.approx(sorted(wanted), abs=0.51)
            steps = page.get_by_role("row").filter(has_text="MatMul").first
            steps.locator(".twist").click()
            kinds = [row[0].strip() for row in rows(page)]
            assert {"compute", "exchange", "sync"} <= set(kinds)


class TestClicks:
    def test_they_lead_from_layer_to_op_and_tile(self, show, report):
        memory = report.plan.memory[0]
        with show("view=layers") as page:
            page.locator(".view.shown .row").filter(has_text="encoder").locator(".twist").click()
            page.locator(".view.shown .row").filter(has_text="dense1").click()
            assert title(page) == "dense1"
            detail = page.locator(".detail")
            detail.get_by_role("button", name="encoder/dense1/MatMul").first.click()
            assert title(page) == "encoder/dense1/MatMul"
            assert "model.py:4 (step)" in detail.inner_text()
            detail.get_by_role("button", name="encoder/dense1/kernel").click()
            assert title(page) == "encoder/dense1/kernel"
            assert "64 x 64" in detail.inner_text() and "always live" in detail.inner_text()
            detail.locator("canvas").click(position={"x": 3, "y": 20})
            assert re.fullmatch(r"Tile \d of IPU 0", title(page))
            tile = int(title(page).split()[1])
            peak = detail.locator(".pill").inner_text()
            assert peak.startswith(f"{memory.peak[tile] / 1024:.1f} KiB of 624 KiB")
            assert "encoder/dense1/kernel" in detail.inner_text().replace("\n", "")

    def test_going_back_returns_and_the_path_leads_outward(self, show):
        with show("view=operations") as page:
            page.locator(".view.shown .body .row").filter(has_text="dense2/MatMul").click()
            page.locator(".detail nav").get_by_role("button", name="encoder").click()
            assert title(page) == "encoder"
            page.get_by_role("button", name="back").click()
            page.wait_for_function("document.querySelector('.detail h2').textContent != 'encoder'")
            assert title(page) == "encoder/dense2/MatMul"
            page.get_by_role("button", name="close details").click()
            assert not page.locator(".detail").is_visible()

    def test_the_address_says_what_is_shown(self, show):
        with show("view=liveness&step=2&chosen=tile%3A0.5") as page:
            assert view(page) == "Liveness" and title(page) == "Tile 5 of IPU 0"
            assert page.get_by_text("step 2 of").is_visible()
        with show("view=nowhere&chosen=op%3A999999&step=x&ipu=7") as page:
            assert view(page) == "Summary" and not page.locator(".detail").is_visible()

    def test_tile_of_plot_is_chosen_by_a_click(self, show):
        with show("view=memory") as page:
            canvas = page.locator(".view.shown canvas").first
            box = canvas.bounding_box()
            canvas.click(position={"x": box["width"] - 20, "y": 150})
            assert title(page) == "Tile 63 of IPU 0"

    def test_the_timeline_zooms_and_opens_what_is_clicked(self, show):
        with show("view=timeline") as page:
            canvas = page.locator(".view.shown canvas")
            whole = canvas.screenshot()
            canvas.hover(position={"x": 400, "y": 60})
            assert page.locator(".hint").is_visible()
            page.mouse.wheel(0, -400)
            page.wait_for_timeout(50)
            assert canvas.screenshot() != whole
            canvas.click(position={"x": 400, "y": canvas.bounding_box()["height"] - 20})
            assert page.locator(".detail h2").is_visible()
            page.get_by_role("button", name="show the whole launch").click()


@pytest.fixture(scope="module")
def piped(tmp_path_factory):
    workload = workloads.pipeline(2, count=8)
    report = Report.from_plan(planning.plan(workload, Settings()))
    path = tmp_path_factory.mktemp("piped") / "piped.html"
    path.write_text(html_page.report_page(report), encoding="utf-8")
    return path, report


class TestPipelines:
    def test_each_color_of_the_legend_has_one_name(self, show, piped):
        with show("view=timeline", path=piped[0]) as page:
            colors = (
                page.locator(".view.shown .legend")
                .first.locator("i")
                .evaluate_all("all => all.map(each => getComputedStyle(each).backgroundColor)")
            )
            assert len(colors) == len(set(colors)) >= 11

    def test_spans_say_stage_phase_and_mini_batch(self, show, piped):
        with show("view=timeline", path=piped[0]) as page:
            page.get_by_role("application").focus()
            said = page.locator(".said")
            page.keyboard.press("Home")
            first = said.inner_text()
            page.keyboard.press("ArrowRight")
            assert first.startswith("stage0 forward, mini-batch 0")
            assert said.inner_text().startswith("stage0 forward, mini-batch 1")
            page.keyboard.press("End")
            assert said.inner_text().startswith("stage0 update")
            legend = page.locator(".view.shown .legend").first.inner_text()
            assert "F forward" in legend and "B backward" in legend

    def test_the_program_opens_by_stage(self, show, piped):
        with show("view=program", path=piped[0]) as page:
            names = [row[0].strip("▾▸▣⟳▤↳? ") for row in rows(page)]
            assert names[2:6] == [
                "stage0, forward", "stage1, forward", "stage1, backward", "stage0, backward",
            ]  # fmt: skip
            assert not any("MatMul" in name for name in names)

    def test_sums_over_ipus_say_so(self, show, piped):
        total = sum(row.cycles for row in piped[1].operations())
        launch = piped[1].plan.timeline.cycles
        with show(path=piped[0]) as page:
            text = page.locator(".view.shown").inner_text()
            assert text.count(f"{total:,.0f} in all, beside {launch:,.0f} of a launch") == 3


class TestOpViews:
    def test_the_roofline_has_operations_with_rates(self, show, tmp_path):
        workload = pages.plan().workload
        ops = tuple(dataclasses.replace(op, flops=2 * 16 * 64 * 64) for op in workload.ops)
        planned = planning.plan(dataclasses.replace(workload, ops=ops), Settings())
        report = Report.from_plan(planned)
        found = [row for row in report.operations() if row.intensity and row.rate]
        path = tmp_path / "roofline.html"
        path.write_text(html_page.report_page(report), encoding="utf-8")
        assert len(found) >= 6
        with show("view=roofline", path=path) as page:
            plot = page.get_by_role("img", name=f"roofline of {len(found)} operations")
            assert plot.is_visible()
            cells = page.locator(".view.shown table").inner_text()
            assert all(row.name.rsplit("/", 1)[-1] in cells for row in found[:20])
            page.locator(".view.shown table button").first.click()
            assert title(page) == found[0].name

    def test_the_graph_scrolls_to_the_chosen_op(self, show):
        with show("view=graph&chosen=op%3A4") as page:
            page.wait_for_function("document.querySelector('.graph').scrollLeft > 0")
            holder, center = (
                page.locator(each).bounding_box() for each in (".graph", ".graph .center")
            )
            middle = center["x"] + center["width"] / 2
            assert middle == pytest.approx(holder["x"] + holder["width"] / 2, abs=2)

    def test_the_graph_leads_from_op_to_op(self, show):
        with show("view=graph&chosen=op%3A1") as page:
            nodes = page.locator(".graph .node")
            assert "MatMul" in page.locator(".graph .center").inner_text()
            assert page.locator(".graph path").count() == nodes.count() - 1 >= 3
            assert "kernel" in " ".join(page.locator(".graph .tensor").all_inner_texts())
            page.get_by_role("button", name="Relu").first.click()
            assert title(page) == "encoder/dense0/Relu"
            assert "Relu" in page.locator(".graph .center").inner_text()


class TestNumbers:
    @pytest.mark.parametrize("name", ["summary", "layers", "operations", "tensors"])
    def test_none_is_cut_at_1400_points(self, browser, tmp_path, name):
        large = pages.report(width=2048, tiles=1472)
        scale = dataclasses.replace(
            large.plan.timeline, cycles=large.plan.timeline.cycles * 1e6,
            ops=tuple(time._replace(runs=time.runs * 10**6) for time in large.plan.timeline.ops),
        )  # fmt: skip
        report = Report.from_plan(dataclasses.replace(large.plan, timeline=scale))
        path = tmp_path / "wide.html"
        path.write_text(html_page.report_page(report), encoding="utf-8")
        with browsers.opened(browser, path, f"view={name}") as page:
            page.set_viewport_size({"width": 1400, "height": 850})
            cut = page.locator(".view.shown").evaluate(
                """view => [...view.querySelectorAll(".cell.n, td.n, .card b")]
                  .filter(cell => cell.scrollWidth > cell.clientWidth + 1)
                  .map(cell => cell.textContent)"""
            )
            assert cut == []


class TestIdleTime:
    def test_gaps_between_narrow_spans_stay_empty(self, show, tmp_path):
        plan = plans.plan()
        # What is narrower than a point at the start and after a long gap, then to the end.
        parts = ((0, 100), (100, 1), (101, 1), (900_000, 1), (900_001, 99_999))
        work = [segment for segment in plan.timeline.segments if segment.kind == "compute"]
        segments = tuple(
            work[i % 2]._replace(start=float(start), cycles=float(cycles))
            for i, (start, cycles) in enumerate(parts)
        )
        timeline = dataclasses.replace(plan.timeline, cycles=1e6, segments=segments)
        gaps = Report.from_plan(dataclasses.replace(plan, timeline=timeline))
        for name, page_of in (
            ("one", html_page.report_page(gaps)),
            ("two", html_page.comparison_page(gaps, gaps)),
        ):
            path = tmp_path / f"{name}.html"
            path.write_text(page_of, encoding="utf-8")
            with show("view=timeline", path=path) as page:
                painted = page.locator(".view.shown canvas").first.evaluate(
                    """canvas => {
                      const scale = canvas.width / canvas.clientWidth;
                      const wide = canvas.clientWidth - 68 - 14;
                      const image = canvas.getContext("2d").getImageData(
                        0, Math.round((canvas.clientHeight - 30) * scale), canvas.width, 1).data;
                      return [0.21, 0.53, 0.77, 0.97].map(
                        at => image[4 * Math.round((68 + at * wide) * scale) + 3] > 200);
                    }"""
                )
                assert painted == [False, False, False, True], name


class TestLiveness:
    def test_each_step_has_its_tensors(self, show, report):
        memory = report.plan.memory[0]
        always = sum(v.num_bytes for v in report.workload.variables)
        with show("view=liveness&step=0") as page:
            legend = page.locator(".view.shown .legend").inner_text().split("\n")
            categories = {category.name for category in memory.categories if category.total}
            assert set(legend) == categories and len(set(legend)) == len(legend)
            colors = page.locator(".view.shown .legend i").evaluate_all(
                "all => all.map(each => getComputedStyle(each).backgroundColor)"
            )
            assert len(set(colors)) == len(colors)
            for step in range(len(memory.live_ops)):
                page.get_by_text(f"step {step} of").wait_for()
                found = rows(page)
                sizes = [number(row[3]) for row in found if row[4] != "always"]
                assert sum(sizes) == memory.live_bytes[step]
                variables = [row for row in found if row[1].strip() == "variables"]
                assert sum(number(row[3]) for row in variables) == always
                page.get_by_role("button", name="step after").click()

    def test_arrow_keys_move_the_step(self, show):
        with show("view=liveness&step=0") as page:
            page.get_by_role("slider").focus()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowRight")
            assert page.get_by_text("step 2 of").is_visible() and "step=2" in page.url
            page.keyboard.press("End")
            page.keyboard.press("ArrowLeft")
            slider = page.get_by_role("slider")
            last = int(slider.get_attribute("aria-valuemax"))
            assert int(slider.get_attribute("aria-valuenow")) == last - 1


class TestKeys:
    def test_a_reader_without_a_mouse_gets_everywhere(self, show):
        with show() as page:
            keys = page.keyboard
            keys.press("3")
            assert view(page) == "Operations"
            while page.evaluate("document.activeElement.getAttribute('role')") != "grid":
                keys.press("Tab")
            keys.press("ArrowDown")
            name = current(page).locator(".cell").first.inner_text()
            keys.press("Enter")
            assert title(page) == name.replace("\n", "")
            keys.press("Escape")
            assert not page.locator(".detail").is_visible()
            keys.press("?")
            assert page.get_by_role("dialog").is_visible()
            keys.press("Escape")
            assert not page.get_by_role("dialog").is_visible()

    def test_arrow_keys_open_and_close_rows_of_tree(self, show):
        with show("view=layers") as page:
            page.get_by_role("treegrid").focus()
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowDown")
            before = len(rows(page))
            row = current(page)
            assert row.get_attribute("aria-expanded") == "false"
            page.keyboard.press("ArrowRight")
            assert len(rows(page)) == before + 3 and row.get_attribute("aria-expanded") == "true"
            page.keyboard.press("ArrowRight")
            assert row.get_attribute("aria-level") == "3"
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowLeft")
            assert len(rows(page)) == before

    def test_the_timeline_is_worked_with_keys(self, show):
        with show("view=timeline") as page:
            page.get_by_role("application").focus()
            page.keyboard.press("ArrowRight")
            said = page.locator(".said")
            outer = said.inner_text()
            page.keyboard.press("ArrowDown")
            assert said.inner_text() != outer
            page.keyboard.press("f")
            page.keyboard.press("Enter")
            assert page.locator(".detail h2").is_visible()

    def test_the_focus_can_be_seen(self, show):
        with show() as page:
            page.keyboard.press("Tab")
            style = "e => getComputedStyle(e).outlineStyle"
            assert page.locator(":focus").evaluate(style) == "solid"


class TestSearch:
    @pytest.mark.parametrize(
        "asked, kind, found",
        [
            ("encoder/dense1", "layer", "dense1"),
            ("dense2 matmul", "op", "encoder/dense2/MatMul"),
            ("dense0/kernel", "tensor", "encoder/dense0/kernel"),
        ],
    )
    def test_it_finds_layers_ops_and_tensors(self, show, asked, kind, found):
        with show() as page:
            page.keyboard.press("/")
            page.keyboard.type(asked)
            first = page.get_by_role("option").first
            assert first.locator(".kind").inner_text() == kind
            page.keyboard.press("Enter")
            assert title(page) == found

    def test_a_line_leads_to_its_operations(self, show):
        with show() as page:
            page.get_by_role("combobox", name="search").fill("model.py:4")
            page.get_by_role("option").filter(has_text="line").click()
            assert view(page) == "Operations"
            assert [row[0] for row in rows(page)] == ["encoder/dense1/MatMul"]

    def test_it_says_that_there_is_nothing(self, show):
        with show() as page:
            page.get_by_role("combobox", name="search").fill("no such thing")
            assert page.get_by_text("Nothing found").is_visible()


class TestThemes:
    def paper(self, page):
        color = page.evaluate("getComputedStyle(document.querySelector('.bar')).backgroundColor")
        return np.mean([int(part) for part in re.findall(r"\d+", color)[:3]])

    def test_page_follows_system_theme_and_can_switch(self, show):
        with show(color_scheme="dark") as page:
            assert self.paper(page) < 60
            page.get_by_role("button", name="dark or light").click()
            assert self.paper(page) > 200
            page.reload()
            assert self.paper(page) > 200
        with show() as page:
            assert self.paper(page) > 200
            page.keyboard.press("t")
            assert self.paper(page) < 60

    def test_plots_follow_the_theme(self, show):
        with show("view=memory") as page:
            light = page.locator(".view.shown canvas").screenshot()
            page.keyboard.press("t")
            page.wait_for_timeout(50)
            assert page.locator(".view.shown canvas").screenshot() != light

    def test_paper_has_all_views_and_no_controls(self, show):
        with show("view=operations&chosen=op%3A1", color_scheme="dark") as page:
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            page.emulate_media(media="print")
            for name in VIEWS:
                assert page.locator(f"[data-view={name.lower()}] h2").is_visible()
            for hidden in (".views", ".search", ".detail", ".bar button"):
                assert not page.locator(hidden).first.is_visible()
            assert page.locator("[data-view=operations] .body .row").count() >= 8
            assert self.paper(page) > 200
            assert len(page.pdf()) > 20_000
            page.emulate_media(media="screen")
            page.evaluate("dispatchEvent(new Event('afterprint'))")
            assert page.locator("[data-view=summary] h2").is_visible() is False


class TestOtherReaders:
    def test_the_main_numbers_stand_there_without_scripts(self, show, report):
        with show(java_script_enabled=False) as page:
            text = page.locator("main").inner_text()
        assert f"{report.plan.timeline.cycles:,.0f} cycles" in text and "fits" in text
        assert all(row.name in text for row in report.ops())

    def test_nothing_sticks_out_of_a_narrow_window(self, show):
        with show() as page:
            page.set_viewport_size({"width": 420, "height": 700})
            for name in VIEWS:
                page.keyboard.press(str(VIEWS.index(name) + 1))
                assert page.evaluate("document.body.scrollWidth") <= 420

    def test_a_notebook_shows_the_page_in_a_frame(self, show, report, tmp_path):
        notebook = tmp_path / "notebook.html"
        notebook.write_text(f"<!DOCTYPE html><p>cell</p>{report._repr_html_()}", encoding="utf-8")
        with show(path=notebook) as page:
            frame = page.frame_locator("iframe")
            frame.get_by_role("button", name=re.compile("^Operations")).click()
            frame.locator(".view.shown .body .row").first.click()
            assert frame.locator(".detail h2").inner_text() == report.ops()[0].name
            frame.get_by_role("button", name="dark or light").click()
            assert page.locator("iframe").bounding_box()["height"] >= 600


class TestHostileNames:
    def test_names_stay_texts(self, show, tmp_path):
        path = tmp_path / "hostile.html"
        path.write_text(html_page.report_page(pages.report(scope=pages.HOSTILE)), encoding="utf-8")
        with show(path=path) as page:
            for index in range(len(VIEWS)):
                page.keyboard.press(str(index + 1))
            page.keyboard.press("/")
            page.keyboard.type("</script>")
            page.get_by_role("option").first.click()
            assert pages.HOSTILE.split("/")[0] in page.locator("body").inner_text()
            assert page.evaluate("window.hurt") is None
            assert page.locator("img").count() == 0

    def test_the_page_can_fetch_nothing(self, show):
        with show(errors=False) as page:
            for ask in ("fetch('https://example.org')", "import('https://example.org/x.js')"):
                assert page.evaluate(f"{ask}.then(() => 'done', () => 'refused')") == "refused"


class TestLargePrograms:
    def test_large_table_has_only_visible_rows(self, show, tmp_path):
        large = pages.report(5000, tiles=1472)
        assert len(large.workload.ops) > 10_000
        path = tmp_path / "large.html"
        path.write_text(html_page.report_page(large), encoding="utf-8")
        with show("view=operations", path=path) as page:
            assert 20 < page.locator(".view.shown .body .row").count() < 100
            grid = page.get_by_role("grid", name="operations", exact=True)
            assert int(grid.get_attribute("aria-rowcount")) > 10_000
            grid.focus()
            page.keyboard.press("End")
            last = current(page).locator(".cell").nth(1).inner_text()
            assert number(last) == min(row.cycles for row in large.ops()) or number(last) < 400
            for name in ("5", "7", "8"):
                page.keyboard.press(name)
            assert page.locator("*").count() < 6000
            page.keyboard.press("/")
            page.keyboard.type("dense4999/relu")
            assert page.get_by_role("option").count() >= 1


@pytest.fixture(scope="module")
def wider() -> Report:
    return pages.report(layers=4, width=128)


class TestDifferences:
    @pytest.fixture
    def both(self, report, wider, tmp_path):
        path = tmp_path / "diff.html"
        path.write_text(html_page.comparison_page(report, wider), encoding="utf-8")
        return path

    def test_both_sides_stand_side_by_side(self, show, both, report, wider):
        with show(path=both) as page:
            text = page.locator(".view.shown").inner_text()
            for side in (report, wider):
                assert f"{side.plan.timeline.cycles:,.0f}" in text

    def test_operations_are_matched_and_sorted_by_their_change(self, show, both, report, wider):
        before = {row.name: row.cycles for row in report.ops()}
        after = {row.name: row.cycles for row in wider.ops()}
        with show("view=operations", path=both) as page:
            found = rows(page)
        sides = {row[0]: row for row in found}
        for name in {*before, *after}:
            for cell, cycles in zip(sides[name][1:3], (before.get(name), after.get(name))):
                assert cell == ("-" if cycles is None else f"{cycles:,.0f}")
        changes = [abs(after.get(r[0], 0) - before.get(r[0], 0)) for r in found if r[0] in after]
        assert changes == sorted(changes, reverse=True)
        assert sides["encoder/dense3/MatMul"][4] == "new"

    def test_layers_and_timelines_are_there(self, show, both):
        with show("view=layers", path=both) as page:
            assert {"encoder", "encoder/dense3"} <= {row[0] for row in rows(page)}
            page.keyboard.press("5")
            canvases = page.locator(".view.shown canvas")
            assert canvases.count() == 2
            first, second = canvases.nth(0), canvases.nth(1)
            shown = second.screenshot()
            first.hover(position={"x": 300, "y": 50})
            page.mouse.wheel(0, -400)
            page.wait_for_timeout(50)
            assert second.screenshot() != shown

    def test_memory_and_liveness_of_both_sides(self, show, both, report, wider):
        with show("view=memory", path=both) as page:
            assert page.locator(".view.shown canvas").count() == 4
            text = page.locator(".view.shown table").inner_text()
            assert "encoder/dense3/MatMul" in text or "encoder/dense3/kernel" in text
            tiles = page.get_by_role("slider", name="bytes on each tile, After")
            tiles.focus()
            page.keyboard.press("End")
            assert tiles.get_attribute("aria-valuetext").startswith("tile 63")

    def test_first_of_several_is_compared_with_a_choice(self, show, report, wider, tmp_path):
        third = pages.report(layers=2, width=64)
        path = tmp_path / "three.html"
        path.write_text(html_page.comparison_page(report, wider, third), encoding="utf-8")
        with show(path=path) as page:
            panel = page.locator(".panel").filter(has_text="All reports")
            assert all(
                f"{each.plan.timeline.cycles:,.0f}" in panel.inner_text()
                for each in (report, wider, third)
            )
            page.get_by_label("compare with").select_option("1")
            after = page.locator(".panel").filter(has_text="After:").first
            after.get_by_text(f"{third.plan.timeline.cycles:,.0f} cycles").wait_for()
