"""Compact tables for JSON: columns, texts by position, runs of equal numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Digits of cycles and rates after the point: a hundredth of a cycle is nothing.
_DIGITS = 2


class Texts:
    """Distinct texts by their positions."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Returns the position of a text."""
        return self._found.setdefault(text, len(self._found))

    def column(self, texts: Iterable[str]) -> list[int]:
        """Returns the positions of texts."""
        return [self._found.setdefault(text, len(self._found)) for text in texts]

    def all(self) -> list[str]:
        """Returns all texts."""
        return list(self._found)


def columns(
    kind: type[tuple[Any, ...]],
    rows: Sequence[Any],
    texts: Texts,
    named: Sequence[str] = (),
    without: Sequence[str] = (),
) -> dict[str, list[Any]]:
    """Returns named tuples of one type as one list for each field.

    Args:
        kind: the type.
        rows: the tuples.
        texts: receives the texts of some fields.
        named: fields that become positions in `texts`.
        without: fields that are left out.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    found = {}
    for name, column in zip(names, list(zip(*rows)) or [()] * len(names)):
        if name not in without:
            found[name] = texts.column(column) if name in named else rounded(column)
    return found


def rounded(column: Iterable[Any]) -> list[Any]:
    """Returns values for JSON, fractions to their significant digits; small ones keep 4 digits."""
    return [_round(value) if type(value) is float else value for value in column]


def _round(value: float) -> float | int:
    """Returns a number rounded to its significant digits."""
    if abs(value) < 1:
        return float(f"{value:.4g}")
    short = round(value, _DIGITS)
    return int(short) if short == int(short) else short


def runs(values: np.ndarray) -> list[int]:
    """Returns numbers as `[value, count, value, count, ...]`.

    Args:
        values: whole numbers.
    """
    if not len(values):
        return []
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    counts = np.diff(np.append(starts, len(values)))
    found: list[int] = np.stack([values[starts], counts], axis=1).reshape(-1).tolist()
    return found
