"""Groups of rows as they are judged: coverage, errors, noise floor and bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .groups import BOUNDS, Bounds, by_group, group_of
from .implausible import LEFT_OUT
from .predict import Outcome
from .prediction import Prediction
from .statistics import Statistics, statistics

#: Head of the table.
HEAD = (
    "group",
    "rows",
    "coverage",
    "predicted / measured",
    "median error",
    "90th percentile",
    "within 10 %",
    "rank corr.",
    "noise floor",
    "bounds",
    "",
)


class Noise(NamedTuple):
    """How much measurements of one configuration differ.

    Args:
        difference: the median, 0.05 for 5 %.
        between: whether different sources are compared; else one source repeats itself, which says
            less.
    """

    difference: float
    between: bool

    def __str__(self) -> str:
        """The difference, and where it is of one source."""
        return _percent(self.difference) + ("" if self.between else " (one source)")


class Judged(NamedTuple):
    """A group of rows as it is judged.

    Args:
        name: of the group.
        rows: all of them, without those that cannot be right.
        found: statistics of those that the model expresses.
        noise: of measurements of one configuration; None if none is repeated.
        bounds: of the group; None if it has none.
    """

    name: str
    rows: int
    found: Statistics
    noise: Noise | None
    bounds: Bounds | None

    @property
    def coverage(self) -> float:
        """Share of the rows that the model expresses."""
        return self.found.rows / self.rows if self.rows else math.nan

    @property
    def misses(self) -> tuple[str, ...]:
        """The bounds that are not met, such as `median`."""
        if self.bounds is None or not self.found.rows:
            return ()
        wrong = {
            "median": self.found.median > self.bounds.median,
            "90th percentile": self.found.percentile > self.bounds.percentile,
            "rank": self.bounds.rank > 0 and not self.found.correlation >= self.bounds.rank,
        }
        return tuple(name for name, is_wrong in wrong.items() if is_wrong)


def judged(outcome: Outcome) -> list[Judged]:
    """Returns the groups of an outcome, in the order of the tables.

    Args:
        outcome: of any rows.
    """
    predicted: dict[str, list[Prediction]] = {}
    for one in outcome.predictions:
        predicted.setdefault(group_of(one.row), []).append(one)
    rows = [one.row for one in outcome.predictions]
    rows += [row for row, reason in outcome.refused if not reason.startswith(LEFT_OUT)]
    return [
        Judged(
            name,
            len(members),
            statistics(predicted.get(name, [])),
            noise_floor(predicted.get(name, [])),
            BOUNDS.get(name),
        )
        for name, members in by_group(rows).items()
    ]


def noise_floor(predictions: Sequence[Prediction]) -> Noise | None:
    """Returns the median difference between measurements of one configuration.

    Args:
        predictions: of one group. Rows of other clocks or units are compared by their ratio to the
            prediction, which is of the same program.

    Returns:
        None if no configuration is repeated.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for one in predictions:
        if one.configuration:
            measured, predicted = one.times
            found.setdefault(one.configuration, []).append((measured / predicted, one.row.source))
    pairs = [
        (slow / fast - 1, source != other)
        for times in found.values()
        for (fast, source), (slow, other) in itertools.combinations(sorted(times), 2)
    ]
    between = [difference for difference, is_other in pairs if is_other]
    if between:
        return Noise(float(np.median(between)), True)
    return Noise(float(np.median([one for one, _ in pairs])), False) if pairs else None


def headline(groups: Sequence[Judged]) -> str:
    """Returns the line that says it all: medians over groups, so that none drowns the others.

    Args:
        groups: of one outcome.
    """
    counted = [one for one in groups if one.found.rows]
    bounded = [one for one in counted if one.bounds]
    met = sum(not one.misses for one in bounded)

    def middle(name: str) -> float:
        values = [getattr(one.found, name) for one in counted]
        known = [value for value in values if not math.isnan(value)]
        return float(np.median(known)) if known else math.nan

    return (
        f"median over {len(counted)} groups: median error {_percent(middle('median'))}, "
        f"90th percentile {_percent(middle('percentile'))}, "
        f"rank correlation {middle('correlation'):.2f}; "
        f"bounds met in {met} of {len(bounded)} groups"
    )


def cells(groups: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Returns the rows of the table of groups.

    Args:
        groups: of one outcome.
    """
    return [
        (
            one.name,
            str(one.rows),
            f"{one.coverage:.0%}",
            _number(one.found.ratio),
            _percent(one.found.median),
            _percent(one.found.percentile),
            f"{one.found.within:.0%}" if one.found.rows else "-",
            _number(one.found.correlation),
            str(one.noise or "-"),
            _bounds(one.bounds),
            _met(one),
        )
        for one in groups
    ]


def _bounds(bounds: Bounds | None) -> str:
    if bounds is None:
        return "-"
    rank = f", {bounds.rank:.2f}" if bounds.rank else ""
    return f"{bounds.median:.0%}, {bounds.percentile:.0%}{rank}"


def _met(one: Judged) -> str:
    if one.bounds is None or not one.found.rows:
        return "-"
    return f"missed: {', '.join(one.misses)}" if one.misses else "met"


def _percent(part: float) -> str:
    return "-" if math.isnan(part) else f"{100 * part:.1f} %"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
