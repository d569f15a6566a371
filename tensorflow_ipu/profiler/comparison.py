"""Comparison of reports: in total, by layer, and by the tensors live at their peaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow_ipu.profiler import breakdown
from tensorflow_ipu.profiler.report_data import ReportData
from tensorflow_ipu.util.text import aligned, human_bytes

# --- Compared numbers ---


class Snapshot(NamedTuple):
    """The numbers of a report by name, in total and by layer.

    Args:
        totals: of the whole program: `cycles` of a launch, `worst tile bytes`, `memory bytes` (all
            tiles of all IPUs of a replica), `always live bytes`, `<category> bytes`.
        layers: of each layer: `cycles` of its ops and transfers on all IPUs of a replica, `variable
            bytes`, `flops`, `ops`.
    """

    totals: Mapping[str, float]
    layers: Mapping[str, Mapping[str, float]]


def of_report(report: ReportData) -> Snapshot:
    """Returns the numbers of a report, whole: cycles rounded, bytes exact.

    Args:
        report: the report.
    """
    plan = report.plan
    totals: dict[str, float] = {
        "cycles": round(plan.timeline.cycles),
        "worst tile bytes": plan.fullest.worst_bytes,
        "memory bytes": sum(ipu.total for ipu in plan.memory),
        "always live bytes": sum(ipu.always_live for ipu in plan.memory),
    }
    for ipu in plan.memory:
        for category in ipu.categories:
            name = f"{category.name} bytes"
            totals[name] = totals.get(name, 0) + category.total
    layers = {
        row.layer: {
            "cycles": round(row.cycles),
            "variable bytes": row.variable_bytes,
            "flops": row.flops,
            "ops": row.ops,
        }
        for row in report.layers()
    }
    return Snapshot(totals, layers)


# --- Comparison in total, by layer, and by live tensors ---

# Numbers at the end of scopes and names.
_NUMBERS = re.compile(r"_\d+(?=[/:]|$)")


# A change of a number is shown as growth, then as a percentage of the first number.
_PERCENT = 100


class Difference(NamedTuple):
    """A number that differs between two reports.

    Args:
        layer: layer it is about; empty for the whole program.
        metric: its name, such as `cycles`.
        before: the number in the first report, None if it has none.
        after: the number in the second report, None if it has none.
    """

    layer: str
    metric: str
    before: float | None
    after: float | None

    @property
    def growth(self) -> float:
        """Difference of the numbers; a missing number counts as 0."""
        return (self.after or 0) - (self.before or 0)

    @property
    def share(self) -> float | None:
        """The growth divided by the first number; None if that is 0 or missing."""
        return self.growth / self.before if self.before else None


def differences(before: Snapshot, after: Snapshot) -> tuple[Difference, ...]:
    """Compares two reports.

    Args:
        before: the first.
        after: the second.

    Returns:
        Changes of the whole program, then of layers: in the order of the second report, with layers
        that only the first has at the end. Empty for equal reports.
    """
    changes = _of_numbers("", before.totals, after.totals)
    for layer in _union(after.layers, before.layers):
        changes += _of_numbers(layer, before.layers.get(layer, {}), after.layers.get(layer, {}))
    return tuple(changes)


def largest_first(changes: Iterable[Difference]) -> tuple[Difference, ...]:
    """Returns changes of the program, then of its layers, each the largest first.

    The size of a change is its share of the number. For layers, it is the share of the sum over all
    layers that differ.

    Args:
        changes: the result of `differences`.
    """
    found = list(changes)
    sums: dict[tuple[str, str], float] = {}
    for change in found:
        key = _measured(change)
        sums[key] = sums.get(key, 0.0) + max(change.before or 0, change.after or 0)

    def rank(change: Difference) -> tuple[bool, float]:
        return bool(change.layer), -abs(change.growth) / (sums[_measured(change)] or 1)

    return tuple(sorted(found, key=rank))


def format_changes(changes: Sequence[Difference], top: int | None = None) -> str:
    """Returns changes as an aligned table, or one line if there are none.

    Args:
        changes: the result of `differences`.
        top: limit of the changes of the program, and of layers, to show; None for all.
    """
    if not changes:
        return "no differences"
    rows = [("layer", "metric", "before", "after", "change", "")]
    shown, more = _first(changes, top)
    rows += [
        (
            change.layer or "(program)",
            change.metric,
            _number(change.before),
            _number(change.after),
            f"{change.growth:+,.0f}",
            "" if change.share is None else f"{change.share * _PERCENT:+.1f} %",
        )
        for change in shown
    ]
    return "\n".join([*aligned(rows, right=range(2, 6)), *_more(more)])


def summary(reports: Sequence[ReportData], names: Sequence[str]) -> str:
    """Returns the summary of some reports as a table: speed, and whether they fit.

    Args:
        reports: at least one.
        names: the name of each.
    """
    columns = [_summary_of(report) for report in reports]
    rows = [("", *names)]
    rows += [(title, *(each[title] for each in columns)) for title in columns[0]]
    return "\n".join(aligned(rows, right=range(1, len(names) + 1)))


def summary_to_dict(report: ReportData) -> dict[str, Any]:
    """Returns the summary of a report as data for JSON.

    Args:
        report: the report.
    """
    found, fullest = report.insights, report.plan.fullest
    return {
        "name": report.name,
        "fits": bool(report.plan.fits),
        "items_per_second": found["items_per_second"],
        "cycles": report.plan.timeline.cycles,
        "seconds": report.plan.timeline.seconds,
        "worst_tile_bytes": fullest.worst_bytes,
        "capacity": int(fullest.capacity),
        "memory_bytes": sum(memory.total for memory in report.plan.memory),
        "live_peak_bytes": [_live_peak(memory) for memory in report.plan.memory],
    }


def format_many(snapshots: Sequence[Snapshot], names: Sequence[str], top: int | None = None) -> str:
    """Returns the numbers that differ between some reports, one column for each.

    Args:
        snapshots: the numbers of the reports.
        names: the name of each.
        top: limit of the numbers of the program, and of layers, to show; None for all.
    """
    found: dict[tuple[str, str], Difference] = {}
    for one in snapshots[1:]:
        for change in differences(snapshots[0], one):
            key = change.layer, change.metric
            if key not in found or abs(change.growth) > abs(found[key].growth):
                found[key] = change
    if not found:
        return "no differences"
    shown, more = _first(largest_first(found.values()), top)
    rows = [("layer", "metric", *names)]
    rows += [
        (
            change.layer or "(program)",
            change.metric,
            *(_number(_value(one, change.layer, change.metric)) for one in snapshots),
        )
        for change in shown
    ]
    right = range(2, len(names) + 2)
    return "\n".join([*aligned(rows, right=right), *_more(more)])


def live_changes(before: ReportData, after: ReportData, top: int | None = None) -> str:
    """Returns the tensors at the peaks of two reports that differ, as text; empty without any.

    Args:
        before: the first.
        after: the second.
        top: limit of the tensors to show; None for all.
    """
    found = [change for change in at_peaks(before, after) if change.growth]
    if not found:
        return ""
    rows = [("live at the peak of the fullest IPU", "before", "after", "change")]
    rows += [
        (
            change.metric,
            human_bytes(change.before),
            human_bytes(change.after),
            f"{'+' if change.growth > 0 else '-'}{human_bytes(abs(change.growth))}",
        )
        for change in found[:top]
    ]
    more = 0 if top is None else max(0, len(found) - top)
    return "\n".join([*aligned(rows, right=range(1, 4)), *_more(more)])


def live_many(reports: Sequence[ReportData], names: Sequence[str], top: int | None = None) -> str:
    """Returns the tensors at the peaks of some reports that differ, one column for each.

    Tensors are matched to those of the first report, as in `at_peaks`.

    Args:
        reports: at least one.
        names: the name of each.
        top: limit of the tensors to show, the largest differences first; None for all.
    """
    peaks = [_at_peak(report) for report in reports]
    found: dict[str, list[float | None]] = {}
    for position, peak in enumerate(peaks):
        former = _matched(peaks[0], peak)
        for name, size in peak.items():
            row = found.setdefault(former.get(name, name), [None] * len(peaks))
            row[position] = size
    spread = {
        name: max(s or 0 for s in row) - min(s or 0 for s in row) for name, row in found.items()
    }
    shown = sorted((name for name in found if spread[name]), key=lambda name: -spread[name])
    if not shown:
        return ""
    rows = [("live at the peak of the fullest IPU", *names)]
    rows += [(name, *map(human_bytes, found[name])) for name in shown[:top]]
    more = 0 if top is None else max(0, len(shown) - top)
    return "\n".join([*aligned(rows, right=range(1, len(names) + 1)), *_more(more)])


def at_peaks(before: ReportData, after: ReportData) -> list[Difference]:
    """Returns the bytes of tensors at the peaks of two reports, the largest change first.

    Tensors are matched by name. The rest is matched by name without the numbers of scopes, which
    depend on earlier programs of the process.

    Args:
        before: the first.
        after: the second.
    """
    first, second = _at_peak(before), _at_peak(after)
    former = _matched(first, second)
    sides = {name: first[former[name]] for name in former}
    sides.update((name, first[name]) for name in first if name not in former.values())
    names = _union(second, sides)
    found = [Difference("", name, sides.get(name), second.get(name)) for name in names]
    return sorted(found, key=lambda change: -abs(change.growth))


def changes_to_dict(changes: Sequence[Difference]) -> list[dict[str, Any]]:
    """Returns changes as data for JSON.

    Args:
        changes: the result of `differences`.
    """
    return [
        {
            "layer": change.layer or None,
            "metric": change.metric,
            "before": change.before,
            "after": change.after,
            "growth": change.growth,
        }
        for change in changes
    ]


def _summary_of(report: ReportData) -> dict[str, str]:
    """Returns the summary of one report."""
    found = summary_to_dict(report)
    speed, label = found["items_per_second"], report.plan.timeline.label.value
    share = _PERCENT * found["worst_tile_bytes"] / found["capacity"]
    return {
        "throughput": "-" if speed is None else f"{speed:,.0f} elements/s",
        "fits": "yes" if found["fits"] else "NO",
        "cycles of a launch": f"{found['cycles']:,.0f} ({label})",
        "fullest tile": f"{human_bytes(found['worst_tile_bytes'])} ({share:.0f} %)",
        "memory of all tiles": human_bytes(found["memory_bytes"]),
        "most that is live": human_bytes(max(found["live_peak_bytes"], default=0)),
    }


def _live_peak(memory: Any) -> int:
    """Returns the maximum over time of the live bytes on all tiles of an IPU."""
    return int(memory.live_bytes.max(initial=0)) + int(memory.always_live)


def _at_peak(report: ReportData) -> dict[str, float]:
    """Returns the bytes of the tensors at the peak of the fullest IPU, by name."""
    found: dict[str, float] = {}
    for live in breakdown.tensors_at_peak(report.plan.fullest):
        found[live.name] = found.get(live.name, 0) + live.num_bytes
    return found


def _matched(first: Iterable[str], second: Iterable[str]) -> dict[str, str]:
    """Returns the tensors of the second report with the same tensors of the first.

    Names are compared as they are, then without the numbers of scopes.
    """
    mine, others = list(first), list(second)
    found = {name: name for name in others if name in set(mine)}
    left: dict[str, list[str]] = {}
    for name in others:
        if name not in found:
            left.setdefault(_NUMBERS.sub("", name), []).append(name)
    for name in mine:
        alike = left.get(_NUMBERS.sub("", name)) if name not in found else None
        if alike:
            found[alike.pop(0)] = name
    return found


def _measured(change: Difference) -> tuple[str, str]:
    """Returns the base of a change: all layers with the metric, or the number itself."""
    return "layers" if change.layer else "", change.metric


def _first(changes: Sequence[Difference], top: int | None) -> tuple[list[Difference], int]:
    """Returns the first changes of the program and of layers, and the number of the rest."""
    if top is None:
        return list(changes), 0
    program = [change for change in changes if not change.layer][:top]
    layers = [change for change in changes if change.layer][:top]
    return [*program, *layers], len(changes) - len(program) - len(layers)


def _more(number: int) -> list[str]:
    """Returns the line with the number of changes not shown."""
    return [f"... and {number:,} more: --top N shows N of each kind"] if number else []


def _value(one: Snapshot, layer: str, metric: str) -> float | None:
    """Returns a number of a report; None if the report lacks it."""
    numbers = one.layers.get(layer, {}) if layer else one.totals
    return numbers.get(metric)


def _of_numbers(
    layer: str, before: Mapping[str, float], after: Mapping[str, float]
) -> list[Difference]:
    """Returns the numbers of one layer that differ."""
    return [
        Difference(layer, metric, before.get(metric), after.get(metric))
        for metric in _union(after, before)
        if before.get(metric) != after.get(metric)
    ]


def _union(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Returns the keys of both, the first's before keys that only the second has."""
    return list(dict.fromkeys([*first, *second]))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
