"""Compares two reports, in total and by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow_ipu.profiler.snapshot import Snapshot
from tensorflow_ipu.text import aligned

# How a change of a number is told: by how much, then as a share of what it was.
_PERCENT = 100


class Difference(NamedTuple):
    """One number that is not the same in two reports.

    Args:
        layer: layer it is about; empty for the whole program.
        metric: what it is, such as `cycles`.
        before: the number in the first report, None if the first has nothing of the kind.
        after: that in the second.
    """

    layer: str
    metric: str
    before: float | None
    after: float | None

    @property
    def growth(self) -> float:
        """By how much the number grew; what is missing counts 0."""
        return (self.after or 0) - (self.before or 0)

    @property
    def share(self) -> float | None:
        """The growth as a part of what was there; None if there was nothing."""
        return self.growth / self.before if self.before else None


def differences(before: Snapshot, after: Snapshot) -> tuple[Difference, ...]:
    """Compares two reports.

    Args:
        before: the first.
        after: the second.

    Returns:
        Changes of the whole program, then those of layers: in the order of the second report, with
        layers that only the first has at the end. Empty for equal reports.
    """
    changes = _of_numbers("", before.totals, after.totals)
    for layer in _union(after.layers, before.layers):
        changes += _of_numbers(layer, before.layers.get(layer, {}), after.layers.get(layer, {}))
    return tuple(changes)


def format_changes(changes: Sequence[Difference]) -> str:
    """Returns changes as text: an aligned table, or one line that says that there are none.

    Args:
        changes: what `differences` found.
    """
    if not changes:
        return "no differences"
    rows = [("layer", "metric", "before", "after", "change", "")]
    rows += [
        (
            change.layer or "(program)",
            change.metric,
            _number(change.before),
            _number(change.after),
            f"{change.growth:+,.0f}",
            "" if change.share is None else f"{change.share * _PERCENT:+.1f} %",
        )
        for change in changes
    ]
    return "\n".join(aligned(rows, right=range(2, 6)))


def changes_to_dict(changes: Sequence[Difference]) -> list[dict[str, Any]]:
    """Returns changes as data for JSON.

    Args:
        changes: what `differences` found.
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


def _of_numbers(
    layer: str, before: Mapping[str, float], after: Mapping[str, float]
) -> list[Difference]:
    """The numbers of one layer that differ."""
    return [
        Difference(layer, metric, before.get(metric), after.get(metric))
        for metric in _union(after, before)
        if before.get(metric) != after.get(metric)
    ]


def _union(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The keys of both, those of the first before what only the second has."""
    return list(dict.fromkeys([*first, *second]))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
