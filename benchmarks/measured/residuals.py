"""Residuals of predictions by kind: intervals, their check on sources left out, correlation.

A residual is log(measured / predicted time) of a configuration. A check leaves out whole sources,
or if few sources measured a kind, whole series of them: a figure or table, of one workload, network
and type; of a single series, each configuration. The correlation is that of the ops of one program:
layers of a network with one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs import intervals
from tensorflow_ipu.costs.intervals import Interval

from . import groups, on_tile
from .distinct import distinct
from .prediction import Prediction
from .rows import Row

#: Head of the table of intervals.
HEAD = (
    "kind",
    "low",
    "middle",
    "high",
    "correlation",
    "configurations",
    "left out in turn",
    "left out inside",
)

# Shares of configurations below and above an interval, and in it.
_LOW, _MIDDLE, _HIGH = 10, 50, 90
_INSIDE = 0.8
_DIGITS = 2
# Configurations that an interval needs at least.
_FEWEST = 5
# Whole sources are left out if there are three, and none has more than this part of the
# configurations.
_SOURCES, _MOST_OF_ONE = 3, 0.75
# Least deviation, so that configurations without any have an interval.
_LEAST = 0.005


class Residual(NamedTuple):
    """The residual of a configuration.

    Args:
        value: log of measured / predicted time.
        source: where it was measured.
        series: which series of the source.
        program: which program of the series its op would be in.
    """

    value: float
    source: str
    series: str
    program: str


class Band(NamedTuple):
    """A range of residuals.

    Args:
        low: lower end.
        middle: the median.
        high: upper end.
    """

    low: float
    middle: float
    high: float

    def widened(self, factor: float) -> Band:
        """Returns the band with both deviations from the middle multiplied."""
        below, above = self.middle - self.low, self.high - self.middle
        return Band(self.middle - factor * below, self.middle, self.middle + factor * above)

    def score(self, value: float) -> float:
        """Returns the factor by which the band has to be widened to reach a residual."""
        if value >= self.middle:
            return (value - self.middle) / (self.high - self.middle)
        return (self.middle - value) / (self.middle - self.low)


def _in(*names: str) -> Callable[[Prediction], bool]:
    return lambda one: groups.group_of(one.row) in names


def _is_elementwise(one: Prediction) -> bool:
    pools = groups.group_of(one.row) == groups.ONE_TILE and "pool" in one.row.workload.lower()
    on_tile_op = groups.group_of(one.row) == groups.EVERY_TILE and one.group != on_tile.AMP
    return pools or on_tile_op or groups.group_of(one.row) == groups.ELEMENTWISE


# What is of a kind, by the name that the product has for it.
_KINDS: dict[str, Callable[[Prediction], bool]] = {
    intervals.WHOLE_MODELS.kind: _in(groups.WHOLE),
    intervals.PRODUCTS.kind: _in(groups.DENSE, groups.DENSE_MK1),
    intervals.BATCHED.kind: _in(groups.BATCHED),
    intervals.CONVOLUTIONS.kind: _in(groups.CONVOLUTIONS, groups.IMAGE),
    intervals.GROUPED.kind: _in(groups.GROUPED),
    intervals.ELEMENTWISE.kind: _is_elementwise,
    intervals.EXCHANGE.kind: _in(groups.ON_CHIP),
    intervals.LINKS.kind: _in(groups.BETWEEN),
    intervals.ALL.kind: lambda one: one.group != on_tile.AMP,
}


class Checked(NamedTuple):
    """An interval and its coverage of rows outside its fit.

    Args:
        interval: of a kind.
        left_out: what was left out in turn, such as `14 sources`.
        inside: share of the configurations left out in the interval made of the others.
    """

    interval: Interval
    left_out: str
    inside: float


class Folds(NamedTuple):
    """Residuals that are left out together.

    Args:
        unit: what a fold is: sources, series or configurations.
        members: the residuals of each fold.
    """

    unit: str
    members: list[list[float]]


def checked(predictions: Sequence[Prediction]) -> list[Checked]:
    """Returns the interval of each kind, with its check; kinds of few rows are left out.

    Args:
        predictions: of any groups.
    """
    found = []
    for kind, belongs in _KINDS.items():
        residuals = residuals_of(filter(belongs, predictions))
        if len(residuals) < _FEWEST:
            continue
        unit, folds = folds_of(residuals)
        low, middle, high = (round(math.exp(end), _DIGITS) for end in band(folds))
        common = round(correlation(residuals), _DIGITS)
        interval = Interval(kind, low, middle, high, common, len(residuals))
        found.append(Checked(interval, f"{len(folds)} {unit}", inside(folds)))
    return found


def sums(predictions: Sequence[Prediction], found: Sequence[Checked]) -> str:
    """Returns two sentences on whole models in the intervals that ops give; empty without models.

    The first is of the sums of ops, the second of what is shown for a program.

    Args:
        predictions: of any groups.
        found: intervals by kind.
    """
    by_kind = {one.interval.kind: one.interval for one in found}
    programs = {one.configuration: one for one in predictions if one.parts}
    ratios = {one.name: one.ratio for one in distinct(programs.values())}
    if not ratios or intervals.ALL.kind not in by_kind:
        return ""
    whole = by_kind.get(intervals.WHOLE_MODELS.kind, by_kind[intervals.ALL.kind])
    inside_sum, inside_program, widths = [], [], []
    for name, program in programs.items():
        parts = [
            (by_kind.get(kind, by_kind[intervals.ALL.kind]), part) for kind, part in program.parts
        ]
        interval, shown = intervals.of_sum(parts), intervals.of_program(parts, whole)
        inside_sum.append(interval.low <= ratios[name] <= interval.high)
        inside_program.append(shown.low <= ratios[name] <= shown.high)
        widths.append((interval.low, interval.high))
    low, high = np.median(widths, axis=0)
    return (
        f"{np.mean(inside_sum):.0%} of {len(ratios)} configurations of whole models lie in the "
        f"interval of the sum of their ops, whose median is {low:.2f} to {high:.2f}. "
        f"{np.mean(inside_program):.0%} lie in the interval that is shown for their program."
    )


def residuals_of(predictions: Iterable[Prediction]) -> list[Residual]:
    """Returns the residual of each configuration.

    Args:
        predictions: of any groups.
    """
    members = list(predictions)
    first: dict[str, Prediction] = {}
    for one in members:
        first.setdefault(one.configuration or str(one.row), one)
    return [
        Residual(math.log(one.ratio), *_places(first[one.name].row)) for one in distinct(members)
    ]


def _places(row: Row) -> tuple[str, str, str]:
    """Source, series and program of a row."""
    given = [row.parameters.get(name, "") for name in ("net", "dtype")]
    series = "; ".join((row.source, row.table, row.workload, *given))
    given += [row.parameters.get(name, "") for name in ("batch", "seq", "heads")]
    return row.source, series, "; ".join((row.source, row.table, *given))


def folds_of(residuals: Sequence[Residual]) -> Folds:
    """Returns residuals by source, or by series where few sources or one have most of them.

    A single series has no other: then each configuration is a fold.

    Args:
        residuals: of one kind.
    """
    by_source: dict[str, list[float]] = {}
    by_series: dict[str, list[float]] = {}
    for one in residuals:
        by_source.setdefault(one.source, []).append(one.value)
        by_series.setdefault(one.series, []).append(one.value)
    most = max(map(len, by_source.values()))
    enough = len(by_source) >= _SOURCES and most <= _MOST_OF_ONE * len(residuals)
    if enough:
        return Folds("sources", list(by_source.values()))
    if len(by_series) > 1:
        return Folds("series", list(by_series.values()))
    return Folds("configurations", [[one.value] for one in residuals])


def band(folds: Sequence[Sequence[float]]) -> Band:
    """Returns the range in which eight of ten residuals of folds that are left out lie.

    The 10th and the 90th percentile of all, widened by the factor that eight of ten residuals need
    when the percentiles come from the other folds. It is never narrowed.

    Args:
        folds: residuals by source or series.
    """
    whole = _percentiles([value for fold in folds for value in fold])
    if len(folds) < 2:  # noqa: PLR2004 - one fold has no other
        return whole
    scores: list[float] = []
    for left, fold in enumerate(folds):
        others = _percentiles(_others(folds, left))
        scores += map(others.score, fold)
    return whole.widened(max(1.0, float(np.quantile(scores, _INSIDE, method="higher"))))


def inside(folds: Sequence[Sequence[float]]) -> float:
    """Returns the share of residuals in the band that is made without their fold; NaN for one fold.

    The factor of the band is found without the fold, too.

    Args:
        folds: residuals by source or series.
    """
    if len(folds) < 2:  # noqa: PLR2004 - one fold has no other
        return math.nan
    found = []
    for left, fold in enumerate(folds):
        low, _, high = band([*folds[:left], *folds[left + 1 :]])
        found += [low <= value <= high for value in fold]
    return float(np.mean(found))


def _others(folds: Sequence[Sequence[float]], left: int) -> list[float]:
    return [value for place, fold in enumerate(folds) if place != left for value in fold]


def _percentiles(values: Sequence[float]) -> Band:
    low, middle, high = np.percentile(values, [_LOW, _MIDDLE, _HIGH])
    return Band(
        min(float(low), middle - _LEAST), float(middle), max(float(high), float(middle) + _LEAST)
    )


def correlation(residuals: Sequence[Residual]) -> float:
    """Returns the part of the variance of residuals that the ops of a program have in common.

    Formula: one-way analysis of variance, `(B - W) / (B + (n - 1) W)` with the mean squares between
    and within programs, and n the mean size of a program, corrected for unequal sizes.

    Args:
        residuals: of one kind.

    Returns:
        From 0 to 1; 1 if there is one program, whose part cannot be told.
    """
    programs: dict[str, list[float]] = {}
    for one in residuals:
        programs.setdefault(one.program, []).append(one.value)
    number, total = len(programs), len(residuals)
    if number < 2 or total <= number:  # noqa: PLR2004 - variance between needs two
        return 1.0
    mean = float(np.mean([one.value for one in residuals]))
    between = sum(len(v) * (float(np.mean(v)) - mean) ** 2 for v in programs.values()) / (
        number - 1
    )
    within = sum(float(np.var(v)) * len(v) for v in programs.values()) / (total - number)
    size = (total - sum(len(v) ** 2 for v in programs.values()) / total) / (number - 1)
    below = between + (size - 1) * within
    return min(max((between - within) / below, 0.0), 1.0) if below else 0.0


def out_of_date(predictions: Sequence[Prediction]) -> list[str]:
    """Returns a complaint for each interval of the product that these predictions do not give.

    Args:
        predictions: of the project's own rows.
    """
    measured = {one.interval.kind: one.interval for one in checked(predictions)}
    return [
        f"tensorflow_ipu/costs/intervals.py has {held}, measured is {measured.get(held.kind)}"
        for held in intervals.INTERVALS
        if measured.get(held.kind) != held
    ]


def cells(found: Iterable[Checked]) -> list[tuple[str, ...]]:
    """Returns the rows of the table of intervals.

    Args:
        found: the intervals.
    """
    return [
        (
            interval.kind,
            f"{interval.low:.2f}",
            f"{interval.middle:.2f}",
            f"{interval.high:.2f}",
            f"{interval.correlation:.2f}",
            str(interval.configurations),
            left_out,
            "-" if math.isnan(share) else f"{share:.0%}",
        )
        for interval, left_out, share in found
    ]
