"""`page_data`: all that the HTML page of a report shows, as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.costs import intervals
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.time.items import CHIP_KINDS, IDLE
from tensorflow_ipu.profiler.views import layer_tree
from tensorflow_ipu.profiler.views.bounds import BOUNDS
from tensorflow_ipu.profiler.views.layer_tree import LayerNode
from tensorflow_ipu.profiler.views.memory_tables import memory_tables
from tensorflow_ipu.profiler.views.operation import Operation
from tensorflow_ipu.profiler.views.program_tables import op_table, tensor_table
from tensorflow_ipu.profiler.views.program_tree import ProgramNode
from tensorflow_ipu.profiler.views.spans import MOST_SPANS, IpuSpans, LayerSpan, Span
from tensorflow_ipu.profiler.views.tables import Texts, columns, rounded

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

#: Grows when a page that was written for an older version could misread the data.
VERSION = 1


def page_data(report: Report) -> dict[str, Any]:
    """Returns all that the page of a report shows.

    Tables are columns of one length: `{"name": [...], "cycles": [...]}`; other tables name a row by
    its position. Texts that come often are positions in `texts`.

    Args:
        report: the report, made now or read from a file.
    """
    view, texts = report.view, Texts()
    layers = layer_tree.positions(view.layers)
    workload = report.workload
    return {
        "version": VERSION,
        "program": _program(report),
        "target": report.target,
        "summary": summary(report),
        "bounds": dict(BOUNDS),
        "roofs": _roofs(report),
        "intervals": _intervals(view.operations),
        "layers": columns(LayerNode, view.layers, texts, ("label",)),
        "ops": op_table(workload, view.operations, layers, texts),
        "operations": operation_table(view.operations, layers, texts),
        "idle": _idle(report),
        "tensors": tensor_table(workload, layers, texts),
        "memory": memory_tables(report.plan, view.details, texts),
        "program_tree": columns(ProgramNode, view.program, texts, ("kind", "label")),
        "timeline": timeline(report, texts),
        "texts": texts.all(),
    }


def summary(report: Report) -> dict[str, Any]:
    """Returns the most important numbers of a report.

    Args:
        report: the report.
    """
    plan, found = report.plan, report.insights
    line, worst, measured = plan.timeline, plan.fullest, throughput.interval(plan)
    return {
        "fits": bool(plan.fits),
        "cycles": line.cycles,
        "seconds": line.seconds,
        "label": line.label.value,
        "by_kind": {kind: float(cycles) for kind, cycles in line.by_kind.items()},
        "by_label": {label.value: float(cycles) for label, cycles in line.by_label.items()},
        "flops": round(found["flops_per_second"] * line.seconds),
        "flops_per_second": found["flops_per_second"],
        "utilization": found["utilisation"],
        "items_per_second": found["items_per_second"],
        "interval": [measured.low, measured.high],
        "bubble_share": plan.timeline.bubble_share,
        "io_bound": found["io_bound"],
        "remedies": list(found["remedies"]),
        "worst": {
            "ipu": worst.ipu,
            "tile": worst.worst_tile,
            "bytes": worst.worst_bytes,
            "capacity": int(worst.capacity),
        },
    }


def operation_table(
    rows: Sequence[Operation], layers: dict[str, int], texts: Texts
) -> dict[str, list[Any]]:
    """Returns the ops and transfers of a launch as columns.

    Args:
        rows: operations of a program.
        layers: positions of its layers.
        texts: receives the texts.
    """
    named = ("type", "phase", "bound", "partition", "source", "label")
    found = columns(Operation, rows, texts, named, without=("place",))
    found["fused"] = [list(row.fused) for row in rows]
    return {**found, "layer": [layers[layer_tree.path(row.layer)] for row in rows]}


def timeline(report: Report, texts: Texts, most: int = MOST_SPANS) -> dict[str, Any]:
    """Returns the spans of each IPU in a launch.

    Args:
        report: the report.
        texts: receives the texts.
        most: limit of spans.
    """
    view, line = report.view, report.plan.timeline
    found = view.spans(most)
    shown = sum(segment.cycles for segment in line.segments if segment.ipu == 0)
    return {
        "cycles": line.cycles,
        "kinds": ["op", *(k for k in line.by_kind if k not in CHIP_KINDS)],
        "shown": min(shown / line.cycles, 1.0) if line.cycles else 1.0,
        "merged": sum(each.merged for each in found),
        "ipus": [_ipu_spans(each, texts) for each in found],
    }


def _ipu_spans(found: IpuSpans, texts: Texts) -> dict[str, Any]:
    """Returns the spans of one IPU as columns."""
    return {
        "ipu": found.ipu,
        "spans": columns(Span, found.spans, texts, ("kind", "name", "phase")),
        "layers": columns(LayerSpan, found.layers, texts),
    }


def _program(report: Report) -> dict[str, Any]:
    """Returns the identity of the program, its batch and its launches."""
    workload = report.workload
    return {
        "name": report.name,
        "created": report.created,
        "fingerprint": workload.fingerprint,
        "api": workload.api,
        "batch": workload.batch,
        "stage_names": list(workload.stage_names),
        "launches": report.executions.launches,
        "host_seconds": report.executions.host_seconds,
        "options": dict(report.options),
    }


def _roofs(report: Report) -> dict[str, float]:
    """Returns the peak rates of one IPU: bytes a second, and operations a second."""
    chip = report.settings.chip
    each = chip.tiles * chip.clock
    peaks = [
        row.rate / row.peak_share for row in report.operations() if row.rate and row.peak_share
    ]
    return {
        "bytes_per_second": (chip.load_rate + chip.store_rate) * each,
        "flops_per_second": max(peaks, default=0.0),
    }


def _intervals(rows: Sequence[Operation]) -> dict[str, list[float]]:
    """Returns the factors from predictions to the range of measurements, by op type."""
    found = {}
    for kind in dict.fromkeys(row.type for row in rows):
        interval = intervals.of_op(kind)
        found[kind] = [interval.low, interval.high]
    return found


def _idle(report: Report) -> dict[str, list[Any]]:
    """Returns the cycles that each IPU waits for others."""
    sums = {memory.ipu: 0.0 for memory in report.plan.memory}
    for segment in report.plan.timeline.segments:
        if segment.kind == IDLE:
            sums[segment.ipu] = sums.get(segment.ipu, 0.0) + segment.cycles
    return {"ipu": list(sums), "cycles": rounded(sums.values())}
