"""Draws charts as SVG: axes, areas, bars and a legend."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

# Colors of Okabe and Ito, which people with any kind of color vision can tell apart, on light and
# on dark. Further series are grey.
COLORS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b8a800",
    "#999999",
)

WIDTH = 900
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 12, 40
PLOT = WIDTH - LEFT - RIGHT
_TICKS = 5
_BAR = 20
_NAMES = 250
_NAME_LENGTH = 38

Formatter = Callable[[float], str]


def escape(text: object) -> str:
    """Returns text for use in HTML and SVG."""
    return html.escape(str(text), quote=True)


def color(index: int) -> str:
    """Returns the color of a series."""
    return COLORS[min(index, len(COLORS) - 1)]


def number(value: float) -> str:
    """Returns a coordinate, short."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def ticks(most: float) -> list[float]:
    """Returns round numbers from 0 up to a little above the largest value.

    Args:
        most: the largest value.
    """
    if most <= 0 or not math.isfinite(most):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(most / _TICKS))
    step = next(m * power for m in (1, 2, 2.5, 5, 10, 20) if m * power * _TICKS >= most)
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def byte_ticks(most: float) -> list[float]:
    """Returns values that are round in binary units, as `ticks`.

    Args:
        most: the largest value, in bytes.
    """
    unit = 1024.0 ** max(0, math.floor(math.log(most, 1024))) if most >= 1 else 1.0
    return [mark * unit for mark in ticks(most / unit)]


def frame(height: int, body: str, title: str) -> str:
    """Returns a whole drawing.

    Args:
        height: of the drawing; the width is `WIDTH`.
        body: what is in it.
        title: what it shows, for those who cannot see it.
    """
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{body}</svg>'
    )


def rectangle(x: float, y: float, width: float, height: float, fill: str, title: str) -> str:
    """Returns a rectangle that says what it is when pointed at."""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
        f'height="{number(height)}" fill="{fill}"><title>{escape(title)}</title></rect>'
    )


def label(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Returns a text."""
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    """Returns a line, `grid` or `limit`."""
    return (
        f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" '
        f'y2="{number(y2)}"/>'
    )


def legend(names: Sequence[str]) -> str:
    """Returns the names of series with their colors, as HTML."""
    entries = (
        f'<span><i style="background:{color(index)}"></i>{escape(name)}</span>'
        for index, name in enumerate(names)
    )
    return f'<p class="legend">{"".join(entries)}</p>'


def areas(
    layers: Sequence[Sequence[float]],
    limit: float | None,
    titles: tuple[str, str],
    last: float,
    formatter: Formatter,
    height: int = 260,
) -> str:
    """Returns areas of bytes stacked on each other.

    Args:
        layers: one value for each column, for each area from below.
        limit: a line to draw at this value, if any.
        titles: what the drawing shows, and what its horizontal axis is.
        last: number at the end of the horizontal axis, which begins at 0.
        formatter: of the values.
        height: of the drawing.
    """
    count = len(layers[0]) if layers else 0
    totals = [sum(column) for column in zip(*layers)] if count else [0.0]
    marks = byte_ticks(max(max(totals), limit or 0))
    bottom = height - BOTTOM

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * value / marks[-1]

    parts = [_horizontal_grid(marks, y, formatter), _axis(last, bottom, titles[1])]
    below = [0.0] * count
    for index, layer in enumerate(layers):
        above = [b + value for b, value in zip(below, layer)]
        if any(layer):
            parts.append(_area(below, above, y, color(index)))
        below = above
    if limit is not None:
        parts.append(line(LEFT, y(limit), WIDTH - RIGHT, y(limit), "limit"))
    return frame(height, "".join(parts), titles[0])


def _area(
    below: Sequence[float], above: Sequence[float], y: Callable[[float], float], fill: str
) -> str:
    """One area, with a step for each column."""
    width = PLOT / len(above)
    top = _steps(above, y, width)
    back = _steps(below, y, width)
    points = [*top, *reversed(back)]
    path = "L".join(f"{number(px)} {number(py)}" for px, py in points)
    return f'<path d="M{path}Z" fill="{fill}"/>'


def _steps(
    values: Sequence[float], y: Callable[[float], float], width: float
) -> list[tuple[float, float]]:
    """The corners of a line of steps, none where the value stays."""
    corners: list[tuple[float, float]] = []
    for index, value in enumerate(values):
        if index == 0 or value != values[index - 1]:
            if corners:
                corners.append((LEFT + index * width, corners[-1][1]))
            corners.append((LEFT + index * width, y(value)))
    corners.append((LEFT + len(values) * width, corners[-1][1]))
    return corners


def _horizontal_grid(
    marks: Sequence[float], y: Callable[[float], float], formatter: Formatter
) -> str:
    """Lines and numbers at the values of the vertical axis."""
    return "".join(
        line(LEFT, y(mark), WIDTH - RIGHT, y(mark))
        + label(LEFT - 6, y(mark) + 4, formatter(mark), "end")
        for mark in marks
    )


def _axis(last: float, bottom: float, title: str) -> str:
    """Numbers below the drawing, and what they are."""
    marks = [mark for mark in ticks(last) if mark <= last]
    numbers = "".join(
        label(LEFT + PLOT * (mark / last if last else 0), bottom + 15, f"{mark:,.10g}", "middle")
        for mark in marks
    )
    return numbers + label(LEFT + PLOT / 2, bottom + 33, title, "middle")


def bars(
    rows: Sequence[tuple[str, Sequence[float]]],
    names: Sequence[str],
    title: str,
    formatter: Formatter,
) -> str:
    """Returns horizontal bars of stacked parts.

    Args:
        rows: a name and its parts for each bar.
        names: of the parts.
        title: what the drawing shows.
        formatter: of the values.
    """
    plot = WIDTH - _NAMES - 90
    most = max((sum(parts) for _, parts in rows), default=0.0) or 1.0
    drawn = []
    for index, (name, parts) in enumerate(rows):
        y, x = index * _BAR, float(_NAMES)
        shown = name if len(name) <= _NAME_LENGTH else "…" + name[1 - _NAME_LENGTH :]
        text = label(_NAMES - 6, y + 14, shown, "end")
        drawn.append(f"<g><title>{escape(name)}</title>{text}</g>")
        for series, value in enumerate(parts):
            width = plot * value / most
            if width > 0:
                text = f"{name}: {names[series]} {formatter(value)}"
                drawn.append(rectangle(x, y + 3, width, _BAR - 6, color(series), text))
            x += width
        drawn.append(label(x + 6, y + 14, formatter(sum(parts))))
    return frame(max(1, len(rows)) * _BAR, "".join(drawn), title)
