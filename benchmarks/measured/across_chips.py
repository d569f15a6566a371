"""Figures fitted on one chip, tried on the others.

The model has no figure that is fitted on all chips at once, so a fit to one chip can be tried on
another. Two figures of a kind are fitted again to the rows of a single chip: a factor and a number
of cycles for each op, as `measured = factor x predicted + cycles`, by least squares of logarithms.
With them the rows of the other chips are predicted. Where their errors are those of the figures in
use, the model carries over; where not, the chips or the releases of their SDKs differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.configs.chips import CHIPS

from . import groups
from .prediction import Prediction

#: Head of the table.
HEAD = (
    "kind",
    "fitted to",
    "rows",
    "factor",
    "cycles",
    "predicted",
    "rows",
    "median error, in use",
    "median error, fitted so",
)

_FEWEST = 5
_STEPS = 40
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dense products", (groups.DENSE, groups.DENSE_MK1)),
    ("batched products", (groups.BATCHED,)),
    ("convolutions", (groups.CONVOLUTIONS, groups.GROUPED)),
    ("exchange", (groups.ON_CHIP,)),
    ("vertices", (groups.ONE_TILE, groups.EVERY_TILE)),
    ("whole models", (groups.WHOLE,)),
)


class Across(NamedTuple):
    """Figures of one chip on another.

    Args:
        kind: of the rows.
        source: name of the chip that they were fitted to.
        fitted: its rows.
        factor: of the predicted cycles.
        cycles: for each op besides.
        target: name of the chip that is predicted.
        rows: its rows.
        in_use: median error with the figures in use.
        median: median error with those of the other chip.
    """

    kind: str
    source: str
    fitted: int
    factor: float
    cycles: float
    target: str
    rows: int
    in_use: float
    median: float


def across(predictions: Sequence[Prediction]) -> list[Across]:
    """Returns how figures that are fitted to one chip do on each other one, by kind.

    Args:
        predictions: of any groups.
    """
    found = []
    for kind, names in _KINDS:
        members = [one for one in predictions if groups.group_of(one.row) in names]
        by_chip = {chip.title: _cycles(members, chip.name) for chip in CHIPS}
        enough = {title: rows for title, rows in by_chip.items() if len(rows) >= _FEWEST}
        for source, known in enough.items():
            factor, cycles = fit(known)
            for target, rows in enough.items():
                if target != source:
                    errors = np.abs(rows[:, 1] / rows[:, 0] - 1)
                    fitted = np.abs((factor * rows[:, 1] + cycles) / rows[:, 0] - 1)
                    medians = float(np.median(errors)), float(np.median(fitted))
                    found.append(
                        Across(
                            kind, source, len(known), factor, cycles, target, len(rows), *medians
                        )
                    )
    return found


def _cycles(predictions: Sequence[Prediction], chip: str) -> np.ndarray:
    """Returns measured and predicted cycles of a chip's rows; for model rates, cycles per item."""
    rows = []
    for one in predictions:
        if one.chip.name == chip:
            measured, predicted = one.times
            cycles = one.cycles or predicted * one.chip.clock
            rows.append([cycles * measured / predicted, cycles])
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def fit(rows: np.ndarray) -> tuple[float, float]:
    """Returns the factor and the cycles that fit measured and predicted cycles.

    Least squares of logarithms, Gauss-Newton with halved steps; cycles are never below 0.

    Args:
        rows: float64 of shape [rows, 2], measured and predicted cycles.
    """
    measured, predicted = rows[:, 0], rows[:, 1]
    point = np.array([float(np.median(measured / predicted)), 0.0])

    def errors(at: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(at[0] * predicted + at[1]) - np.log(measured))

    for _ in range(_STEPS):
        whole = point[0] * predicted + point[1]
        slopes = np.stack([predicted / whole, 1 / whole], axis=1)
        step = np.linalg.lstsq(slopes, -errors(point), rcond=None)[0]
        loss = float((errors(point) ** 2).sum())
        while float(np.abs(step).sum()) > 0:
            tried = np.array([max(point[0] + step[0], 1e-3), max(point[1] + step[1], 0.0)])
            if float((errors(tried) ** 2).sum()) < loss:
                point = tried
                break
            step = step / 2 if float(np.abs(step / point.clip(1)).max()) > 1e-9 else step * 0
    return float(point[0]), float(point[1])


def cells(found: Sequence[Across]) -> list[tuple[str, ...]]:
    """Returns the rows of the table.

    Args:
        found: figures of one chip on another.
    """
    return [
        (
            one.kind,
            one.source,
            str(one.fitted),
            f"{one.factor:.2f}",
            f"{one.cycles:,.0f}",
            one.target,
            str(one.rows),
            f"{100 * one.in_use:.1f} %",
            f"{100 * one.median:.1f} %",
        )
        for one in found
    ]
