"""Numbers and tables as text."""

from __future__ import annotations

import contextlib
import contextvars
import textwrap
from collections.abc import Container, Iterator, Sequence

_UNKNOWN = "-"

# Columns of text that there is room for; None for any number.
_WIDTH: contextvars.ContextVar[int | None] = contextvars.ContextVar("width", default=None)
# Columns that lines of tables are indented by at most.
_INDENT = 4
# To how many characters the texts of a table are cut before columns that can be spared go, and
# before any column goes.
_SHORT, _LEAST = 24, 12


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


def exact_bytes(count: float) -> str:
    """Returns bytes as `1,234,567 B`."""
    return f"{int(count):,} B"


def human_count(count: float | None) -> str:
    """Returns a number in decimal units with three digits, as in `1.50 M`."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T", "P", "E"))


def fitted(lines: str) -> str:
    """Returns a text with its lines broken at blanks where there is too little room (`room`).

    Args:
        lines: sentences; what a line goes on with is indented further than its beginning.
    """
    width = _WIDTH.get()
    if width is None:
        return lines
    return "\n".join(_broken(line, width) for line in lines.split("\n"))


def aligned(
    rows: Sequence[Sequence[str]],
    right: Container[int] = (),
    spare: Sequence[str] = (),
    wrap: bool = False,
) -> list[str]:
    """Returns rows with columns as wide as their widest cell.

    Where there is too little room (`room`), long texts are cut, then columns left out, and a line
    says which.

    Args:
        rows: the cells of each row; the first may be a heading.
        right: the columns that are aligned to the right.
        spare: headings of columns to leave out first, in this order. After them the widest columns
            of texts go.
        wrap: break texts of the last column into several lines instead of cutting them.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    first_out = [index for name in spare for index, each in enumerate(rows[0]) if each == name]
    shown, left_out = _fitted(widths, right, first_out)
    wrapped = len(widths) - 1 if wrap and shown and shown[-1] == len(widths) - 1 else None
    lines = []
    for row in rows:
        cells = [
            row[index].rjust(widths[index])
            if index in right
            else _cut(row[index], widths[index]).ljust(widths[index])
            for index in shown
            if index != wrapped
        ]
        if wrapped is None:
            lines.append("  ".join(cells).rstrip())
            continue
        first, *rest = textwrap.wrap(row[wrapped], widths[wrapped]) or [""]
        lines.append("  ".join([*cells, first]).rstrip())
        before = sum(widths[index] + 2 for index in shown[:-1])
        lines += [" " * before + line for line in rest]
    if left_out:
        names = ", ".join(dict.fromkeys(rows[0][index] for index in sorted(left_out)))
        lines.append(f"(no room for: {names})")
    return lines


def _broken(line: str, width: int) -> str:
    """Returns a line broken at blanks to fit a width."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    parts = textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(parts)


def _fitted(
    widths: list[int], right: Container[int], first_out: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Makes columns narrower in place; returns those that are shown, and those left out."""
    shown, left_out = list(range(len(widths))), list[int]()
    width = _WIDTH.get()
    if width is None:
        return shown, left_out
    wide, spare = list(widths), list(first_out)
    while True:
        texts = [index for index in shown if index not in right]
        excess = sum(wide[i] for i in shown) + 2 * len(shown) - 2 + _INDENT - width
        if excess <= 0:
            break
        least = _SHORT if spare else _LEAST
        longest = max((i for i in texts if wide[i] > least), key=lambda i: wide[i], default=None)
        if longest is not None:
            wide[longest] = max(least, wide[longest] - excess)
            continue
        if spare:
            gone = spare.pop(0)
        elif len(texts) > 1:
            gone = max(texts[1:], key=lambda i: (widths[i], i))
        else:
            break
        shown.remove(gone)
        left_out.append(gone)
        wide = list(widths)  # there may be room for more of the others
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
