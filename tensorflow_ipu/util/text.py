"""Numbers and tables as text."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Container, Iterator, Sequence

_UNKNOWN = "-"

# Columns of text that there is room for; None for any number.
_WIDTH: contextvars.ContextVar[int | None] = contextvars.ContextVar("width", default=None)
# Columns that lines of tables are indented by at most.
_INDENT = 4
# To how many characters the texts of a table are cut before whole columns go.
_LEAST = 12


@contextlib.contextmanager
def room(width: int | None) -> Iterator[None]:
    """Makes tables that `aligned` returns fit a width.

    Args:
        width: in characters; None for any width.
    """
    token = _WIDTH.set(width)
    try:
        yield
    finally:
        _WIDTH.reset(token)


def human_bytes(count: float | None) -> str:
    """Returns bytes in binary units with three digits, as in `1.50 KiB`."""
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def human_count(count: float | None) -> str:
    """Returns a number in decimal units with three digits, as in `1.50 M`."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T", "P", "E"))


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Returns rows with columns as wide as their widest cell.

    Where there is too little room (`room`), long texts are cut, then the widest columns of texts
    left out, and a line says which.

    Args:
        rows: the cells of each row; the first may be a heading.
        right: the columns that are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    shown, left_out = _fitted(widths, right)
    lines = []
    for row in rows:
        cells = [
            row[index].rjust(widths[index])
            if index in right
            else _cut(row[index], widths[index]).ljust(widths[index])
            for index in shown
        ]
        lines.append("  ".join(cells).rstrip())
    if left_out:
        names = ", ".join(rows[0][index] for index in sorted(left_out))
        lines.append(f"(no room for: {names})")
    return lines


def _fitted(widths: list[int], right: Container[int]) -> tuple[list[int], list[int]]:
    """Makes columns narrower in place; returns those that are shown, and those left out."""
    shown, left_out = list(range(len(widths))), list[int]()
    width = _WIDTH.get()
    if width is None:
        return shown, left_out
    wide = list(widths)
    texts = [index for index in shown if index not in right]
    while True:
        excess = sum(wide[i] for i in shown) + 2 * len(shown) - 2 + _INDENT - width
        longest = max((i for i in texts if wide[i] > _LEAST), key=lambda i: wide[i], default=None)
        if excess <= 0:
            break
        if longest is not None:
            wide[longest] = max(_LEAST, wide[longest] - excess)
        elif len(texts) > 1:
            gone = max(texts[1:], key=lambda i: (widths[i], i))
            texts.remove(gone)
            shown.remove(gone)
            left_out.append(gone)
            # There may be room for more of the others.
            wide = [
                widths[i] if i not in texts else min(widths[i], max(wide[i], _LEAST))
                for i in range(len(widths))
            ]
        else:
            break
    widths[:] = wide
    return shown, left_out


def _cut(text: str, width: int) -> str:
    """Cuts a text to a number of characters: the end of a path, the beginning of others."""
    if len(text) <= width:
        return text
    return f"…{text[1 - width :]}" if "/" in text else f"{text[: width - 1]}…"


def _scaled(count: float | None, base: int, units: tuple[str, ...]) -> str:
    """Returns a number divided by the largest fitting power of `base`, with that power's unit."""
    if count is None:
        return _UNKNOWN
    value = float(count)
    for unit in units:
        if abs(value) < base or unit == units[-1]:
            break
        value /= base
    number = str(count) if value == count else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return f"{number} {unit}".rstrip()
