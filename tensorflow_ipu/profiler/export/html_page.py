"""A page: one file with its style, scripts and data, of a report or of a comparison.

The scripts in `page/` are written by subject. A page has them one after the other in one function,
so a script can use definitions of earlier ones.
"""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import html
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

from tensorflow_ipu.profiler import comparison
from tensorflow_ipu.profiler.export import text_report
from tensorflow_ipu.profiler.export.page_data import (
    VERSION,
    Texts,
    page_data,
    rounded,
    runs,
    summary,
    timeline,
)
from tensorflow_ipu.profiler.insights import remedy_text
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.profiler.views.operations import Operation
from tensorflow_ipu.profiler.views.trees import LayerNode, path
from tensorflow_ipu.util.text import human_bytes

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.comparison import Difference


_Row = TypeVar("_Row")
_Pair = tuple["_Row | None", "_Row | None"]
_TOTALS = ("cycles", "worst tile bytes", "memory bytes", "always live bytes")

# Steps of a plot of liveness, and tensors at a peak, at most.
_STEPS, _TENSORS = 2000, 200
_NUMBER = re.compile(r"_\d+(?=/|$)")


def comparison_data(before: ReportData, after: ReportData) -> dict[str, Any]:
    """Returns two reports side by side.

    Layers are matched by their paths, operations by layer, name and type; else by the same without
    numbers in names and, at last, operations by layer, type and phase, always in the order of the
    program. A row of one report only stands alone.

    Args:
        before: the first.
        after: the second.
    """
    texts, both = Texts(), (before, after)
    return {
        "version": VERSION,
        "before": _head(before),
        "after": _head(after),
        "totals": _totals(before, after),
        "kinds": _numbers(*(report.plan.timeline.by_kind for report in both)),
        "categories": _numbers(*(_category_bytes(report) for report in both)),
        "memory": [_memory(report) for report in both],
        "live": _live(before, after),
        "layers": _layer_pairs(before.view.layers, after.view.layers),
        "operations": _operations(before.operations(), after.operations()),
        "timelines": [timeline(report, texts) for report in both],
        "layer_names": [[node.path for node in report.view.layers] for report in both],
        "operation_names": [[row.name for row in report.operations()] for report in both],
        "texts": texts.all(),
    }


def pairs(before: Sequence[Operation], after: Sequence[Operation]) -> list[_Pair[Operation]]:
    """Pairs the operations of two reports, in order of the cycles.

    Args:
        before: operations of the first report.
        after: operations of the second.
    """
    first, second = (sorted(rows, key=lambda row: row.place) for rows in (before, after))
    found = _matched(first, second, (_named, _numbered, _placed))
    return sorted(found, key=lambda pair: -max(row.cycles for row in pair if row))


def _named(row: Operation) -> Hashable:
    """Returns the key of an operation that matches equal names."""
    return path(row.layer), row.name, row.type, row.ipu


def _numbered(row: Operation) -> Hashable:
    """Returns the key without numbers, which layers get in the order of their creation."""
    return _plain(path(row.layer)), _plain(row.name), row.type


def _placed(row: Operation) -> Hashable:
    """Returns the key of an operation that matches its place in a layer."""
    return _plain(path(row.layer)), row.type, row.phase


def _plain(name: str) -> str:
    """Returns a name without the numbers of its scopes."""
    return _NUMBER.sub("", name)


def _matched(
    before: Iterable[_Row], after: Iterable[_Row], keys: Sequence[Callable[[_Row], Hashable]]
) -> list[_Pair[_Row]]:
    """Pairs rows with equal keys, in their order, by the first key that matches; others alone."""
    found: list[_Pair[_Row]] = []
    left, right = list(before), list(after)
    for key in keys:
        waiting: dict[Hashable, collections.deque[_Row]] = {}
        for row in right:
            waiting.setdefault(key(row), collections.deque()).append(row)
        alone = []
        for row in left:
            same = waiting.get(key(row))
            if same:
                found.append((row, same.popleft()))
            else:
                alone.append(row)
        left, right = alone, [row for same in waiting.values() for row in same]
    return [*found, *((row, None) for row in left), *((None, row) for row in right)]


def _head(report: ReportData) -> dict[str, Any]:
    """Returns the identity of a report and its most important numbers."""
    return {
        "name": report.name,
        "created": report.created,
        "target": report.target,
        "stage_names": list(report.workload.stage_names),
        "summary": summary(report),
    }


def _totals(before: ReportData, after: ReportData) -> dict[str, list[Any]]:
    """Returns the numbers of the whole programs."""
    totals = [comparison.of_report(report).totals for report in (before, after)]
    chosen = [{name: number for name, number in each.items() if name in _TOTALS} for each in totals]
    return _numbers(*chosen)


def _category_bytes(report: ReportData) -> Mapping[str, float]:
    """Returns the bytes of each category on all IPUs of a replica."""
    found: dict[str, float] = {}
    for memory in report.plan.memory:
        for category in memory.categories:
            found[category.name] = found.get(category.name, 0) + category.total
    return found


def _memory(report: ReportData) -> list[dict[str, Any]]:
    """Returns the bytes on each IPU's tiles by category, and the live bytes at each step."""
    return [
        {
            "ipu": memory.ipu,
            "capacity": int(memory.capacity),
            "tiles": len(memory.peak),
            "always_bytes": memory.always_live,
            "steps": _fewer(memory.live_bytes),
            "categories": [
                {"name": category.name, "tiles": runs(category.tiles)}
                for category in memory.categories
            ],
        }
        for memory in report.plan.memory
    ]


def _fewer(values: np.ndarray) -> list[int]:
    """Returns values over the program, thinned out to the largest of neighbors."""
    size = -(-len(values) // _STEPS) or 1
    starts = np.arange(0, len(values), size)
    found: list[int] = np.maximum.reduceat(values, starts).tolist() if len(values) else [0]
    return found


def _live(before: ReportData, after: ReportData) -> dict[str, list[Any]]:
    """Returns the tensors at the peak of the fullest IPU, the largest change first."""
    found = comparison.at_peaks(before, after)[:_TENSORS]
    return {
        "name": [each.metric for each in found],
        "before": rounded(each.before for each in found),
        "after": rounded(each.after for each in found),
    }


def _numbers(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, list[Any]]:
    """Returns the numbers of both reports by name."""
    names = list(dict.fromkeys([*before, *after]))
    return {
        "name": names,
        "before": rounded(before.get(name) for name in names),
        "after": rounded(after.get(name) for name in names),
    }


def _layer_pairs(before: Sequence[LayerNode], after: Sequence[LayerNode]) -> dict[str, list[Any]]:
    """Returns the layers of both reports by path; the first is the whole program."""
    found = _matched(before, after, (lambda node: node.path, lambda node: _plain(node.path)))
    order = {id(node): position for position, node in enumerate(after)}
    found.sort(key=lambda pair: order.get(id(pair[1]), len(order)))
    either = [second or first for first, second in found]
    columns: dict[str, list[Any]] = {"path": [node.path if node else "" for node in either]}
    for number, side in enumerate(("before", "after")):
        nodes = [pair[number] for pair in found]
        columns[side] = rounded(node and node.cycles for node in nodes)
        columns[f"{side}_bytes"] = [node and node.variable_bytes for node in nodes]
        columns[f"{side}_activations"] = [node and node.activation_bytes for node in nodes]
        columns[f"{side}_label"] = [node and node.label for node in nodes]
    return columns


def _operations(before: Sequence[Operation], after: Sequence[Operation]) -> dict[str, list[Any]]:
    """Returns the operations of both reports, paired."""
    found = pairs(before, after)
    either = [second or first for first, second in found]
    columns: dict[str, list[Any]] = {
        "name": [row.name if row else "" for row in either],
        "type": [row.type if row else "" for row in either],
        "layer": [path(row.layer) if row else "" for row in either],
    }
    for number, side in enumerate(("before", "after")):
        rows = [pair[number] for pair in found]
        columns[side] = rounded(row and row.cycles for row in rows)
        for name in ("bound", "partition", "temporary", "label"):
            columns[f"{side}_{name}"] = [row and getattr(row, name) for row in rows]
    return columns


# --- Tables that a page shows without JavaScript ---

# Rows of tables at most; the page with JavaScript has all.
_ROWS = 30
Cell = Union[str, int, float, None]


def report_tables(report: ReportData) -> str:
    """Returns the main numbers of a report.

    Args:
        report: the report.
    """
    return "".join(
        (
            heading(report),
            _section("Insights", _insights(report)),
            _section("Cycles of the busiest IPU", _kinds(report)),
            _section("Memory by category", _categories(report)),
            _section("Layers that take most", _layers(report)),
            _section("Operations that take most", _ops(report)),
            _section("Transfers", _transfers(report)),
        )
    )


def heading(report: ReportData) -> str:
    """Returns the heading of a program: target, fit, cycles and seconds of a launch.

    Args:
        report: the report.
    """
    target, timeline, worst = (
        report.target,
        report.plan.timeline,
        report.plan.fullest,
    )
    kind, verdict = ("good", "fits") if report.plan.fits else ("bad", "does not fit")
    division = report.settings.division and f" ({report.settings.division})"
    lines = (
        f"{_count(target['replicas'], 'replica')}{division} of "
        f"{_count(target['ipus_per_replica'], 'IPU')}, "
        f"{target['title']}, {target['tiles_per_ipu']:,} tiles at {target['clock'] / 1e6:,.0f} MHz",
        f"A launch takes {timeline.cycles:,.0f} cycles, "
        f"{text_report.seconds_text(timeline.seconds)} ({timeline.label.value})",
        f"The fullest tile is tile {worst.worst_tile} of IPU {worst.ipu} with "
        f"{human_bytes(worst.worst_bytes)} of {human_bytes(worst.capacity)} "
        f"({text_report.percent(worst.worst_bytes, worst.capacity)})",
    )
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
    pill = f'<span class="pill {kind}">{verdict}</span>'
    return f"<h1>{escape(report.name)} {pill}</h1>{paragraphs}"


def differences(changes: Sequence[Difference]) -> str:
    """Returns a table of the numbers that differ between two reports.

    Args:
        changes: the result of `comparison.differences`.
    """
    rows = [
        (change.layer or "(program)", change.metric, change.before, change.after, change.growth)
        for change in changes[: 10 * _ROWS]
    ]
    return _section("Differences", table(("layer", "metric", "before", "after", "change"), rows))


def escape(text: object) -> str:
    """Returns text for use in HTML."""
    return html.escape(str(text), quote=True)


def table(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Returns a table.

    Args:
        names: of the columns.
        rows: texts and numbers.
    """
    headings = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{headings}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Cell) -> str:
    """Returns a cell of a table."""
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f'<td class="n">{"-" if value is None else f"{value:,.0f}"}</td>'


def _count(number: int, name: str) -> str:
    """Returns a number with its noun."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _section(title: str, content: str) -> str:
    """Returns a part of the page under its heading."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _insights(report: ReportData) -> str:
    """Returns the list of findings: labels of the cycles, launches and remedies."""
    found = report.insights
    shares = [f"{100 * s:.1f} % {label}" for label, s in found["share_by_label"].items() if s]
    lines = [f"Cycles are {', '.join(shares)}: a model of the chip, not a measurement."]
    if report.executions.launches:
        lines.append(
            f"Launched {_count(report.executions.launches, 'time')} in "
            f"{report.executions.host_seconds:.3f} s of the host's wall time, which says nothing "
            "of the chip."
        )
    lines += [f"To save memory: {remedy_text(remedy)}" for remedy in found["remedies"]]
    lines.append("With JavaScript this page has everything: layers, operations, tensors, timeline.")
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _kinds(report: ReportData) -> str:
    """Returns the table of the busiest IPU's cycles by kind."""
    timeline = report.plan.timeline
    rows = [
        (kind, cycles, text_report.percent(cycles, timeline.cycles))
        for kind, cycles in timeline.by_kind.items()
    ]
    return table(("kind", "cycles", "share"), rows)


def _categories(report: ReportData) -> str:
    """Returns the table of memory by category of all IPUs."""
    rows = [
        (
            str(memory.ipu),
            category.name,
            "always" if category.always_live else "not always",
            category.total,
            int(category.tiles.max()),
            category.label.value,
        )
        for memory in report.plan.memory
        for category in memory.categories
    ]
    return table(("IPU", "category", "live", "bytes", "bytes on its fullest tile", "label"), rows)


def _layers(report: ReportData) -> str:
    """Returns the table of the layers with most cycles."""
    names = ("layer", "forward", "backward", "update", "variable bytes", "activation bytes")
    found = sorted(report.layers(), key=lambda row: -row.cycles)
    rows: list[tuple[Cell, ...]] = [tuple(row) for row in found[:_ROWS]]
    return table((*names, "flops", "ops", "label"), rows)


def _ops(report: ReportData) -> str:
    """Returns the table of the ops with most cycles."""
    rows = [
        (row.name, row.type, row.layer, str(row.ipu), row.phase, row.runs, row.cycles, row.source)
        + (row.label,)
        for row in report.ops()[:_ROWS]
    ]
    names = ("op", "type", "layer", "IPU", "phase", "runs", "cycles", "line", "label")
    return table(names, rows)


def _transfers(report: ReportData) -> str:
    """Returns the table of the longest transfers."""
    transfers = sorted(report.plan.timeline.transfers, key=lambda t: -t.cycles * t.runs)
    rows: list[tuple[Cell, ...]] = [
        (t.name, t.kind, str(t.ipu), t.num_bytes, t.runs, t.cycles, "yes" if t.overlapped else "no")
        + (t.label.value,)
        for t in transfers[:_ROWS]
    ]
    names = ("transfer", "kind", "IPU", "bytes", "runs", "cycles each", "overlapped", "label")
    return table(names, rows)


_FOLDER = "tensorflow_ipu.profiler.export.page"

#: Scripts that all pages have.
COMMON_SCRIPTS = (
    "dom.js",
    "format.js",
    "state.js",
    "theme.js",
    "model.js",
    "table.js",
    "parts.js",
    "zoom.js",
    "plot.js",
    "lanes.js",
    "view_operations.js",
    "view_timeline.js",
    "frame.js",
)

# Nothing is fetched, and only the page's own script and style count: a name in a report that gets
# into the page as markup would do nothing.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "base-uri 'none'; form-action 'none'"
)


def assemble(
    title: str, static: str, data: Mapping[str, Any], scripts: Sequence[str], start: str
) -> str:
    """Returns a page.

    Args:
        title: its title.
        static: markup that is shown without JavaScript.
        data: data that the scripts show, for JSON.
        scripts: files of `page/` that it has besides `COMMON_SCRIPTS`.
        start: the function of them that shows the page.
    """
    style = f"\n{_file('style.css')}"
    script = _script((*COMMON_SCRIPTS, *scripts), start)
    policy = _POLICY.format(script=_digest(script), style=_digest(style))
    return Template(_file("skeleton.html")).substitute(
        policy=html.escape(policy, quote=True),
        title=html.escape(title),
        style=style,
        static=static,
        data=script_json(data),
        script=script,
    )


def script_json(data: Mapping[str, Any]) -> str:
    """Returns data as JSON that is safe in a script element, for any texts in it.

    Args:
        data: data for JSON.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # In JSON this character is in texts only. No text can end the element, or begin a comment.
    return text.replace("<", "\\u003c")


@functools.cache
def _file(name: str) -> str:
    """Returns the text of a file in the folder `page`."""
    return resources.files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _script(names: tuple[str, ...], start: str) -> str:
    """Returns the scripts in one function, with the call of its entry."""
    parts = "\n".join(_file(name) for name in names)
    return f'\n(() => {{\n"use strict";\n{parts}\n{start}();\n}})();\n'


def _digest(text: str) -> str:
    """Returns the hash that identifies a script or a style in a policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- Report ---

_SCRIPTS = (
    "view_summary.js",
    "view_trees.js",
    "view_memory.js",
    "view_tensors.js",
    "view_roofline.js",
    "view_graph.js",
    "detail_ops.js",
    "detail_memory.js",
    "detail.js",
    "search.js",
    "report.js",
)


def report_page(report: ReportData) -> str:
    """Returns a report as an HTML page.

    Args:
        report: the report.
    """
    return assemble(report.name, report_tables(report), page_data(report), _SCRIPTS, "showReport")


# --- Comparison ---


def comparison_page(before: ReportData, after: ReportData, *others: ReportData) -> str:
    """Returns reports side by side as an HTML page.

    Args:
        before: the first, which the others are compared with.
        after: the second.
        others: further reports; the page offers a choice of the second report.
    """
    found = comparison.differences(comparison.of_report(before), comparison.of_report(after))
    title = " and ".join(dict.fromkeys(report.name for report in (before, after, *others)))
    changes = differences(comparison.largest_first(found))
    static = f"<h1>{escape(title)}</h1>{changes}"
    data = {
        **comparison_data(before, after),
        "others": [comparison_data(before, other) for other in others],
    }
    return assemble(title, static, data, ("diff.js",), "showDifferences")


# --- Notebook ---

# A notebook stores its output in its file. Larger pages are files of their own.
_MOST_CHARACTERS = 5_000_000
_HEIGHT = 680


def notebook_fragment(report: ReportData) -> str:
    """Returns the page of a report in a frame, as HTML that stands inside of a page.

    The frame is on its own: style and names of the notebook have no effect in it, nor the other way
    round. Of programs whose page is too large for a notebook the main numbers are shown.

    Args:
        report: the report.
    """
    whole = report_page(report)
    if len(whole) > _MOST_CHARACTERS:
        return (
            f"<div>{report_tables(report)}<p>The whole report has {len(whole):,} characters, "
            "too many for a notebook: <code>report.save(FILE)</code> and "
            "<code>tensorflow-ipu report FILE --format html -o report.html</code>.</p></div>"
        )
    return (
        f'<iframe srcdoc="{escape(whole)}" sandbox="allow-scripts" '
        f'title="{escape(report.name)}" width="100%" height="{_HEIGHT}" '
        'style="border: 1px solid #8884; border-radius: 8px"></iframe>'
    )
