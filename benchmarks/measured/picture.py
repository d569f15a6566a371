"""Pictures of predicted against measured values, one for each group of rows, as SVG."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .groups import group_of
from .judged import Judged, Noise
from .predict import Outcome
from .prediction import Prediction

#: Where the pictures of the page are.
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

_SIZE, _LEFT, _TOP, _BOTTOM = 400, 64, 52, 56
_RIGHT = 24
_RADIUS = 3
_LEGEND_STEP = 110
_COLORS = {"mk1": "#bc4c00", "mk2": "#0969da", "bow": "#1a7f37"}
# Errors within which a prediction counts as close.
_CLOSE = 0.1
# Powers of ten with marks between them, if an axis has at most this many.
_FEW_DECADES = 2
_BETWEEN = (2, 5)

_STYLE = """\
.ipu-accuracy text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #24292f; }
.ipu-accuracy .page { fill: #ffffff; stroke: #d0d7de; }
.ipu-accuracy .field { fill: none; stroke: #8c959f; }
.ipu-accuracy .grid { stroke: #d8dee4; }
.ipu-accuracy .equal { stroke: #24292f; stroke-dasharray: 5 4; }
.ipu-accuracy .close { fill: #8c959f; fill-opacity: 0.16; }
.ipu-accuracy .noise { fill: #8c959f; fill-opacity: 0.4; }
.ipu-accuracy circle { fill-opacity: 0.55; }
.ipu-accuracy .title { font-weight: bold; }
@media (prefers-color-scheme: dark) {
.ipu-accuracy text { fill: #e6edf3; }
.ipu-accuracy .page { fill: #1c2128; stroke: #444c56; }
.ipu-accuracy .grid { stroke: #373e47; }
.ipu-accuracy .equal { stroke: #e6edf3; }
}"""


class _Scale(NamedTuple):
    """A logarithmic axis, the same for both directions.

    Args:
        low: logarithm of the least value.
        high: of the greatest.
    """

    low: float
    high: float

    def across(self, value: float) -> float:
        return _LEFT + self._part(value) * _SIZE

    def down(self, value: float) -> float:
        return _TOP + (1 - self._part(value)) * _SIZE

    def _part(self, value: float) -> float:
        return (math.log10(value) - self.low) / (self.high - self.low)


def slug(group: str) -> str:
    """Returns the name of a group as it stands in names of files.

    Args:
        group: name of the group.
    """
    return re.sub(r"[^a-z0-9]+", "_", group.lower()).strip("_")


def render(outcome: Outcome, groups: Sequence[Judged]) -> dict[str, str]:
    """Returns a picture for each group with predictions, by the name of its file.

    Args:
        outcome: of any rows.
        groups: of the same outcome.
    """
    found: dict[str, list[Prediction]] = {}
    for one in outcome.predictions:
        found.setdefault(group_of(one.row), []).append(one)
    return {
        f"accuracy_{slug(group.name)}.svg": picture(group, found[group.name])
        for group in groups
        if group.name in found
    }


def picture(group: Judged, predictions: Sequence[Prediction]) -> str:
    """Returns predicted against measured values of a group as SVG.

    Rows of one unit are drawn in it, those of several as seconds, or seconds for one gigabyte,
    teraflop or item.

    Args:
        group: the group.
        predictions: of its rows, one or more.
    """
    units = {one.row.unit for one in predictions}
    if len(units) == 1:
        unit = units.pop()
        points = [(one.row.value, one.value, one.chip.name) for one in predictions]
    else:
        unit = "s, or s for one GB, teraflop or item"
        points = [(*one.times, one.chip.name) for one in predictions]
    scale = _scale([value for point in points for value in point[:2]])
    width, height = _LEFT + _SIZE + _RIGHT, _TOP + _SIZE + _BOTTOM
    median = f"{100 * group.found.median:.1f} %"
    title = html.escape(f"{group.name}: {len(points)} rows, median error {median}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" class="ipu-accuracy">',
        f"<title>{title}</title>",
        "<desc>A point for each row: measured to the right, predicted upward, both logarithmic. On "
        "the dashed line they are equal. The light band is 10 % around it, the dark one the noise "
        "floor.</desc>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="title" x="16" y="22">{title}</text>',
        *_legend({chip for _, _, chip in points}, group.noise),
        *_grid(scale),
        _band(scale, _CLOSE, "close"),
        *([] if group.noise is None else [_band(scale, group.noise.difference, "noise")]),
        _line(scale),
        *(_point(scale, *point) for point in points),
        f'<rect class="field" x="{_LEFT}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}"/>',
        f'<text text-anchor="middle" x="{_LEFT + _SIZE / 2:g}" y="{height - 12}">measured, '
        f"{html.escape(unit)}</text>",
        f'<text text-anchor="middle" transform="translate(16 {_TOP + _SIZE / 2:g}) rotate(-90)">'
        "predicted</text>",
        "</svg>\n",
    ]
    return "\n".join(parts)


def _scale(values: Sequence[float]) -> _Scale:
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.04 * (high - low), 0.05)
    return _Scale(low - margin, high + margin)


def _legend(chips: set[str], noise: Noise | None) -> list[str]:
    lines = []
    for place, chip in enumerate(name for name in _COLORS if name in chips):
        x = _LEFT + place * _LEGEND_STEP
        lines.append(f'<circle cx="{x + 4}" cy="38" r="4" fill="{_COLORS[chip]}"/>')
        lines.append(f'<text x="{x + 14}" y="42">{chip.capitalize()}</text>')
    if noise is not None:
        x = _LEFT + _SIZE
        lines.append(f'<text text-anchor="end" x="{x}" y="42">noise floor {noise}</text>')
    return lines


def _grid(scale: _Scale) -> list[str]:
    """Lines at powers of ten, and between them where there are few."""
    lines = []
    few = scale.high - scale.low <= _FEW_DECADES
    for decade in range(math.floor(scale.low), math.ceil(scale.high) + 1):
        for factor in (1, *(_BETWEEN if few else ())):
            value = factor * 10.0**decade
            if not scale.low <= math.log10(value) <= scale.high:
                continue
            x, y, text = scale.across(value), scale.down(value), f"{value:g}"
            end = _TOP + _SIZE
            lines += [
                f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{end}"/>',
                f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _SIZE}" y2="{y:.1f}"/>',
                f'<text text-anchor="middle" x="{x:.1f}" y="{end + 18}">{text}</text>',
                f'<text text-anchor="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{text}</text>',
            ]
    return lines


def _band(scale: _Scale, error: float, name: str) -> str:
    """The band around equal values whose relative error is at most `error`."""
    reach = math.log10(1 + error) / (scale.high - scale.low) * _SIZE
    low, high, bottom, right = _LEFT, _TOP, _TOP + _SIZE, _LEFT + _SIZE
    corners = (
        (low, bottom),
        (low, bottom - reach),
        (right - reach, high),
        (right, high),
        (right, high + reach),
        (low + reach, bottom),
    )
    return f'<polygon class="{name}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}"/>'


def _line(scale: _Scale) -> str:
    ends = 10**scale.low, 10**scale.high
    (x1, y1), (x2, y2) = ((scale.across(end), scale.down(end)) for end in ends)
    return f'<line class="equal" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _point(scale: _Scale, measured: float, predicted: float, chip: str) -> str:
    x, y = scale.across(measured), scale.down(predicted)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="{_COLORS[chip]}"/>'


def write(pictures: dict[str, str], folder: Path = FOLDER) -> None:
    """Writes pictures, and removes pictures of groups that are gone.

    Args:
        pictures: by the name of the file.
        folder: where to write them.
    """
    for path in folder.glob("accuracy_*.svg"):
        if path.name not in pictures:
            path.unlink()
    for name, text in pictures.items():
        (folder / name).write_text(text, encoding="utf-8")
