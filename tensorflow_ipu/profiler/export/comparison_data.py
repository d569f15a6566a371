"""`comparison_data`: two reports side by side, as data for JSON."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tensorflow_ipu.profiler import comparison
from tensorflow_ipu.profiler.export.page_data import VERSION, summary, timeline
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.profiler.views.layer_tree import LayerNode, path
from tensorflow_ipu.profiler.views.operations import Operation
from tensorflow_ipu.profiler.views.tables import Texts, rounded, runs

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
        "categories": _numbers(*(_categories(report) for report in both)),
        "memory": [_memory(report) for report in both],
        "live": _live(before, after),
        "layers": _layers(before.view.layers, after.view.layers),
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


def _categories(report: ReportData) -> Mapping[str, float]:
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


def _layers(before: Sequence[LayerNode], after: Sequence[LayerNode]) -> dict[str, list[Any]]:
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
