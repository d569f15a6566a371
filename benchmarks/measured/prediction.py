"""Prediction of the cost model for one row."""

from __future__ import annotations

from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip

from .rows import Row
from .units import seconds_per_item


class Prediction(NamedTuple):
    """A row and its prediction by the model.

    Args:
        row: the measurement.
        group: of rows that are judged together.
        chip: the chip.
        value: the prediction, in the row's unit.
        fitted: whether figures of the chip were fitted to a group of rows that has it; the others
            are the check.
        configuration: what tells it from other rows of its kind, for the model; empty for the whole
            text of the row.
        figure: the fitted figure that decides most of it; empty if there is none.
        share: of the predicted time that is due to that figure.
        cycles: that one run is predicted to take, of rates; 0 where the row is of a time.
        parts: kind of interval and cycles of each op of a whole program; empty for one op.
    """

    row: Row
    group: str
    chip: Chip
    value: float
    fitted: bool = False
    configuration: str = ""
    figure: str = ""
    share: float = 0.0
    cycles: float = 0.0
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def ratio(self) -> float:
        """Predicted / measured."""
        return self.value / self.row.value

    @property
    def error(self) -> float:
        """How far the ratio is from 1."""
        return abs(self.ratio - 1)

    @property
    def times(self) -> tuple[float, float]:
        """Measured and predicted value as times, for ranks."""
        return (
            seconds_per_item(self.row.value, self.row, self.chip),
            seconds_per_item(self.value, self.row, self.chip),
        )
