"""Formats numbers and tables as text."""

from __future__ import annotations

from collections.abc import Container, Sequence

_UNKNOWN = "-"


def human_bytes(count: float | None) -> str:
    """Returns bytes in binary units with three digits, as in `1.50 KiB`."""
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def human_count(count: float | None) -> str:
    """Returns a number in decimal units with three digits, as in `1.50 M`."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T", "P", "E"))


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Returns rows with columns as wide as their widest cell.

    Args:
        rows: the cells of each row.
        right: the columns that are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _scaled(count: float | None, base: int, units: tuple[str, ...]) -> str:
    """A number divided by the largest fitting power of `base`, with that power's unit."""
    if count is None:
        return _UNKNOWN
    value = float(count)
    for unit in units:
        if abs(value) < base or unit == units[-1]:
            break
        value /= base
    number = str(count) if value == count else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return f"{number} {unit}".rstrip()
