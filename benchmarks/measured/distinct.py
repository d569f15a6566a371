"""Distinct configurations: rows that differ only in framework, version or metric count once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from . import on_tile
from .prediction import Prediction
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
    """Returns all predictions except the ones on the straight line.

    Args:
        predictions: of any groups.
    """
    return [one for one in predictions if not is_straight_line(one)]
