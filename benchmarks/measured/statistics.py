"""Errors and rank correlation of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .prediction import Prediction

_WITHIN = 0.1


class Statistics(NamedTuple):
    """How good some predictions are.

    Args:
        rows: number of them.
        ratio: median of predicted / measured.
        median: median error, 0.1 for 10 %.
        percentile: 90th percentile of the error.
        within: share of the rows whose error is at most 10 %.
        correlation: Spearman's rank correlation of times; NaN for less than two different ones.
    """

    rows: int
    ratio: float
    median: float
    percentile: float
    within: float
    correlation: float


def statistics(predictions: Sequence[Prediction]) -> Statistics:
    """Returns the statistics of some predictions; NaN without any."""
    if not predictions:
        return Statistics(0, *[float("nan")] * 5)
    errors = np.array([prediction.error for prediction in predictions])
    times = np.array([prediction.times for prediction in predictions])
    return Statistics(
        len(predictions),
        float(np.median([prediction.ratio for prediction in predictions])),
        float(np.median(errors)),
        float(np.percentile(errors, 90)),
        float(np.mean(errors <= _WITHIN)),
        spearman(times[:, 0], times[:, 1]),
    )


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Returns Spearman's rank correlation: Pearson's of the ranks, equal values sharing theirs.

    Args:
        one: float64 values.
        other: as many.

    Returns:
        From -1 to 1; NaN where all values of either are the same.
    """
    ranks = [_ranks(values) - (len(values) - 1) / 2 for values in (one, other)]
    norm = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
    return float((ranks[0] * ranks[1]).sum() / norm) if norm else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, float64; equal values have the mean of theirs."""
    # Values that differ in rounding only are equal.
    rounded = np.array([float(f"{value:.9e}") for value in values])
    _, group, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[group.reshape(-1)]
