"""The tables that a page shows without JavaScript."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Union

from tensorflow_ipu.profiler.export import text_report
from tensorflow_ipu.profiler.insights import remedy_text
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.util.text import human_bytes

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.comparison import Difference

# Rows of tables at most; the page with JavaScript has all.
_ROWS = 30

Cell = Union[str, int, float, None]


def report(report: ReportData) -> str:
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
    target, timeline, worst = report.target, report.plan.timeline, report.plan.fullest
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
