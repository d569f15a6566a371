"""Exports a report as one HTML file with plots and sortable tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Union

from tensorflow_ipu.planner.op_groups import groups_at_peak
from tensorflow_ipu.profiler.breakdown import tensors_at_peak
from tensorflow_ipu.profiler.export import html_assets, html_plots, text_tables
from tensorflow_ipu.profiler.export.svg import escape
from tensorflow_ipu.profiler.insights import remedy_text
from tensorflow_ipu.text import human_bytes, human_count

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

# Rows of tables at most, so that the file of a large program stays small; report.json has all.
_OPS, _LAYERS, _TENSORS, _TRANSFERS = 300, 300, 100, 100

Cell = Union[str, int, float, None]


def page(report: Report) -> str:
    """Returns a report as an HTML page.

    Args:
        report: the report.
    """
    style = html_assets.STYLE + html_assets.PAGE_STYLE
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.name)}</title><style>{style}</style></head>"
        f'<body><main class="ipu-report">{"".join(_sections(report))}</main>'
        f"<script>{html_assets.SCRIPT}</script></body></html>\n"
    )


def head(report: Report) -> str:
    """Returns the heading and the most important numbers.

    Args:
        report: the report.
    """
    target, timeline = report.target, report.plan.timeline
    worst, insights = report.plan.fullest, report.insights
    verdict = ("good", "fits") if report.plan.fits else ("bad", "does not fit")
    share = text_tables.percent(worst.worst_bytes, worst.capacity)
    share = f"{share} of {human_bytes(worst.capacity)}"
    cards = [
        ("cycles of a launch", f"{timeline.cycles:,.0f}", timeline.label.value),
        ("time of a launch", text_tables.seconds_text(timeline.seconds), timeline.label.value),
        ("fullest tile", human_bytes(worst.worst_bytes), share),
        ("memory of a replica", human_bytes(sum(m.total for m in report.plan.memory)), "all tiles"),
    ]
    if insights["bubble_share"] is not None:
        bubble = f"{100 * insights['bubble_share']:.1f} %"
        cards.append(("idle in the pipeline", bubble, "modelled"))
    cards.append(("waits for the host", "yes" if insights["io_bound"] else "no", "modelled"))
    items = "".join(
        f"<div><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(note)}</span></div>"
        for name, value, note in cards
    )
    division = report.settings.division and f" ({report.settings.division})"
    where = (
        f"{target['replicas']} replica(s){division} of {target['ipus_per_replica']} IPU(s), "
        f"{target['title']}, {target['tiles_per_ipu']:,} tiles at {target['clock'] / 1e6:,.0f} MHz"
    )
    return (
        f"<h1>{escape(report.name)} <span class='{verdict[0]}'>{verdict[1]}</span></h1>"
        f"<p class='soft'>{escape(where)}. {escape(report.created)}</p>"
        f"<div class='cards'>{items}</div>"
    )


def table(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Returns a table that can be sorted by each column.

    Args:
        names: of the columns.
        rows: texts and numbers.
    """
    headings = "".join(f"<th><button>{escape(name)}</button></th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{headings}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(value: Cell) -> str:
    """A cell; numbers keep their value for sorting."""
    if value is None:
        return '<td class="n" data-v="-1">-</td>'
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f'<td class="n" data-v="{value:.10g}">{value:,.0f}</td>'


def _section(title: str, *parts: str, note: str = "") -> str:
    """A part of the page under its heading."""
    remark = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{remark}{''.join(parts)}</section>"


def _sections(report: Report) -> Iterable[str]:
    """The page from top to bottom."""
    yield head(report)
    yield _insights(report)
    memory = report.plan.memory
    note = "A column is a tile, or the fullest of a few; the dashed line is what a tile can hold."
    yield _section("Memory per tile", *map(_tiles, memory), note=note)
    yield _section("Liveness over the program", *map(_live, memory))
    yield _section("Memory by category", _categories(report))
    note = "Cycles of all runs in one launch, on all IPUs of a replica."
    yield _section("Cycles by type of op", html_plots.op_types(report), note=note)
    yield _section("Cycles by layer", html_plots.layers(report), _layer_table(report))
    title = "Pipeline timeline" if report.workload.pipeline else "Timeline"
    yield _section(title, html_plots.timeline(report), _shares(report))
    yield _section("Host I/O", html_plots.host_io(report), _transfer_table(report))
    yield _section("Largest tensors at the peak", _tensor_table(report))
    yield _section("Ops", _op_table(report))
    options = json.dumps(dict(report.options), indent=1, sort_keys=True)
    shown = f"<pre>{escape(options)}</pre>"
    yield _section("Options", f"<details><summary>show</summary>{shown}</details>")


def _insights(report: Report) -> str:
    """What to know first, and how far the numbers can be trusted."""
    found = report.insights
    lines = [
        f"The fullest tile is tile {found['worst_tile']} of IPU {found['worst_ipu']}.",
        "Cycles are "
        + ", ".join(f"{100 * s:.1f} % {label}" for label, s in found["share_by_label"].items() if s)
        + ": a model of the chip, not a measurement.",
    ]
    if report.executions.launches:
        lines.append(
            f"Launched {report.executions.launches} times in {report.executions.host_seconds:.3f} "
            "s of the host's wall time, which says nothing of the chip."
        )
    lines += [f"To save memory: {remedy_text(remedy)}" for remedy in found["remedies"]]
    variables = table(
        ("largest variables", "role", "IPU", "bytes"),
        [(v["name"], v["role"], str(v["ipu"]), v["bytes"]) for v in found["largest_variables"]],
    )
    items = "".join(f"<li>{escape(item)}</li>" for item in lines)
    return _section("Insights", f"<ul>{items}</ul>", variables)


def _tiles(memory: html_plots.IpuMemory) -> str:
    """The plot of an IPU's tiles."""
    over = int((memory.peak > memory.capacity).sum())
    text = f"IPU {memory.ipu}: {over:,} of {len(memory.peak):,} tiles out of memory"
    return f"<h3>{text}</h3>{html_plots.memory_per_tile(memory)}"


def _live(memory: html_plots.IpuMemory) -> str:
    """The plot of an IPU's liveness."""
    return f"<h3>IPU {memory.ipu}</h3>{html_plots.liveness(memory)}"


def _categories(report: Report) -> str:
    """Memory by category of all IPUs."""
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


def _layer_table(report: Report) -> str:
    """All layers, in program order."""
    names = ("layer", "forward", "backward", "update", "variable bytes", "activation bytes")
    rows: list[tuple[Cell, ...]] = [tuple(row) for row in report.layers()[:_LAYERS]]
    return table((*names, "flops", "ops", "label"), rows)


def _shares(report: Report) -> str:
    """What the busiest IPU does."""
    timeline = report.plan.timeline
    rows = [
        (kind, cycles, text_tables.percent(cycles, timeline.cycles))
        for kind, cycles in timeline.by_kind.items()
    ]
    return table(("busiest IPU", "cycles", "share"), rows)


def _transfer_table(report: Report) -> str:
    """The transfers that take longest."""
    transfers = sorted(report.plan.timeline.transfers, key=lambda t: -t.cycles * t.runs)
    rows: list[tuple[Cell, ...]] = [
        (t.name, t.kind, str(t.ipu), t.num_bytes, t.runs, t.cycles, "yes" if t.overlapped else "no")
        + (t.label.value,)
        for t in transfers[:_TRANSFERS]
    ]
    names = ("transfer", "kind", "IPU", "bytes", "runs", "cycles each", "overlapped", "label")
    return table(names, rows)


def _tensor_table(report: Report) -> str:
    """What is live at the peak of the fullest IPU."""
    memory = report.plan.fullest
    live = tensors_at_peak(memory)[:_TENSORS]
    rows = [
        (item.name, item.category, item.num_bytes, layer, item.source)
        for item, layer in zip(live, groups_at_peak(report.workload, memory, live))
    ]
    return table(("tensor", "category", "bytes", "layer", "source"), rows)


def _op_table(report: Report) -> str:
    """The ops that take most cycles."""
    rows = [
        (row.name, row.type, row.layer, str(row.ipu), row.phase, row.runs, row.cycles, row.source)
        + (human_count(row.flops), row.label)
        for row in report.ops()[:_OPS]
    ]
    names = ("op", "type", "layer", "IPU", "phase", "runs", "cycles", "source", "flops", "label")
    return table(names, rows)
