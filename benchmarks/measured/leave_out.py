"""Fitted figures with one configuration left out, and their error on that configuration.

A figure has a share of each predicted time. Fitted again to the other configurations by least
squares of relative errors, it predicts the one that was left out. A figure that a single
configuration decides shows by the range of its values, and by errors that grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .prediction import Prediction


class LeftOut(NamedTuple):
    """How a figure does on configurations that it was not fitted to.

    Args:
        figure: its name.
        configurations: how many there are.
        fitted: median error as the figure is.
        median: median error of configurations that were left out.
        percentile: the 90th percentile of these errors.
        low: the least value of the figure, as a part of the value in use.
        high: the greatest.
    """

    figure: str
    configurations: int
    fitted: float
    median: float
    percentile: float
    low: float
    high: float


class _Configuration(NamedTuple):
    """A configuration: the share of the figure in its predicted time, measured / predicted."""

    share: float
    ratio: float


def left_out(predictions: Sequence[Prediction]) -> list[LeftOut]:
    """Returns how each fitted figure does, in the order of first use.

    Args:
        predictions: of any groups; those that name no figure are left out. Figures of less than
            three configurations are left out, too.
    """
    found: dict[str, dict[str, list[_Configuration]]] = {}
    for prediction in predictions:
        if prediction.fitted and prediction.figure:
            name = prediction.configuration or str(prediction.row)
            measured, predicted = prediction.times
            one = _Configuration(prediction.share, measured / predicted)
            found.setdefault(prediction.figure, {}).setdefault(name, []).append(one)
    return [
        _of_figure(figure, [_median(rows) for rows in members.values()])
        for figure, members in found.items()
        if len(members) > 2
    ]


def _median(rows: Sequence[_Configuration]) -> _Configuration:
    """A configuration of its rows."""
    return _Configuration(rows[0].share, float(np.median([one.ratio for one in rows])))


def _of_figure(figure: str, members: Sequence[_Configuration]) -> LeftOut:
    share = np.array([one.share for one in members])
    ratio = np.array([one.ratio for one in members])
    # What a fit to all takes, without each in turn.
    above = (share * (ratio - 1)).sum() - share * (ratio - 1)
    below = (share**2).sum() - share**2
    change = above / below
    predicted = 1 + share * change
    errors = np.abs(predicted / ratio - 1)
    return LeftOut(
        figure,
        len(members),
        float(np.median(np.abs(1 / ratio - 1))),
        float(np.median(errors)),
        float(np.percentile(errors, 90)),
        float(1 + change.min()),
        float(1 + change.max()),
    )
