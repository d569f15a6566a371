"""Distinct configurations: rows that differ only in framework, version or metric count once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs import intervals
from tensorflow_ipu.costs.intervals import Interval

from . import on_tile, whole_models
from .prediction import Prediction
from .stencil import library
from .units import is_rate


class Distinct(NamedTuple):
    """A configuration that was measured once or more.

    Args:
        group: of its rows.
        name: what tells it from the others.
        ratio: measured / predicted time, the median of its rows.
        error: the median error of its rows.
        rows: how many there are.
    """

    group: str
    name: str
    ratio: float
    error: float
    rows: int


def distinct(predictions: Iterable[Prediction]) -> list[Distinct]:
    """Returns the configurations of some predictions, in the order of their first rows.

    Args:
        predictions: of any groups.
    """
    found: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        found.setdefault(prediction.configuration or str(prediction.row), []).append(prediction)
    return [
        Distinct(
            members[0].group,
            name,
            float(np.median([one.times[0] / one.times[1] for one in members])),
            float(np.median([one.error for one in members])),
            len(members),
        )
        for name, members in found.items()
    ]


def spread(predictions: Iterable[Prediction]) -> list[tuple[float, Prediction]]:
    """Returns the error of each row if the median of its configuration's rows were predicted.

    Args:
        predictions: of any groups.
    """
    found: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        found.setdefault(prediction.configuration or str(prediction.row), []).append(prediction)
    errors = []
    for members in found.values():
        ratios = [one.times[0] / one.times[1] for one in members]
        middle = float(np.median(ratios))
        for one, ratio in zip(members, ratios):
            errors.append((abs((ratio / middle if is_rate(one.row) else middle / ratio) - 1), one))
    return errors


def is_straight_line(prediction: Prediction) -> bool:
    """Whether a prediction is of the straight line of matrix products on a tile."""
    return prediction.group == on_tile.AMP


def off_the_line(predictions: Iterable[Prediction]) -> list[Prediction]:
    """Returns all predictions but those of the straight line.

    Args:
        predictions: of any groups.
    """
    return [one for one in predictions if not is_straight_line(one)]


# What is of a kind, by the name that the product has for it.
_KINDS: dict[str, Callable[[Prediction], bool]] = {
    intervals.WHOLE_MODELS.kind: whole_models.is_whole_model,
    intervals.PRODUCTS.kind: lambda one: one.group == library.CONVOLUTION,
    intervals.ALL.kind: lambda one: not is_straight_line(one),
}
# Shares of configurations below and above an interval, in percent.
_LOW, _HIGH = 10, 90
_DIGITS = 2


def measured(predictions: Sequence[Prediction]) -> list[Interval]:
    """Returns the interval of each kind as these predictions give it.

    Args:
        predictions: of any groups. Kinds of which they have none are left out.
    """
    found = []
    for kind, belongs in _KINDS.items():
        ratios = [one.ratio for one in distinct(filter(belongs, predictions))]
        if ratios:
            low, high = np.percentile(ratios, [_LOW, _HIGH])
            found.append(
                Interval(kind, round(float(low), _DIGITS), round(float(high), _DIGITS), len(ratios))
            )
    return found


def out_of_date(predictions: Sequence[Prediction]) -> list[str]:
    """Returns a complaint for each interval of the product that these predictions do not give.

    Args:
        predictions: of the project's own rows.
    """
    return [
        f"tensorflow_ipu/costs/intervals.py has {held}, measured is {new}"
        for held, new in zip(intervals.INTERVALS, measured(predictions))
        if held != new
    ]
