"""A schedule as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tensorflow_ipu.schedule import grid

if TYPE_CHECKING:
    from tensorflow_ipu.schedule.table import Entry, Schedule

_MARGIN = 16
_ROW = 30
_GAP = 26
# Room for the title and the step numbers above the rows, and for the legend below them.
_HEAD = 62
_FOOT = 44
# Greatest width of a character in the fonts used.
_CHARACTER = 7.5
# Cells are light with dark letters on them, on a light or a dark page. The picture has its own
# background, as a page may be dark when the reader's system is light.
_COLORS = {"F": "#9ecae9", "R": "#f5e08c", "B": "#f2ab84", grid.FUSED: "#f4c07f", "U": "#a9d6a0"}
# The class of the picture keeps the styles from the rest of a page that it is put into.
_STYLE = """\
.ipu-schedule text { font: 12px ui-monospace, Menlo, Consolas, monospace; }
.ipu-schedule .page { fill: #ffffff; stroke: #d0d7de; }
.ipu-schedule .ink { fill: #24292f; }
.ipu-schedule .idle { fill: #f0f2f4; }
.ipu-schedule .cell { fill: #1c1c1c; text-anchor: middle; }
.ipu-schedule .step { font-size: 10px; text-anchor: middle; }
.ipu-schedule .title { font-weight: bold; }
@media (prefers-color-scheme: dark) {
.ipu-schedule .page { fill: #1c2128; stroke: #444c56; }
.ipu-schedule .ink { fill: #e6edf3; }
.ipu-schedule .idle { fill: #2d333b; }
}"""


class _Picture:
    """The geometry of a picture.

    Args:
        schedule: the schedule.
        max_steps: greatest number of steps shown.
    """

    def __init__(self, schedule: Schedule, max_steps: int) -> None:
        self.schedule = schedule
        self.part = grid.window(schedule, max_steps)
        self.ipus = schedule.description.ipus
        self.entries = list(grid.entries(schedule, self.part))
        labels = [grid.label(schedule, entry) for entry in self.entries]
        self.cell = max(30, round(_CHARACTER * max(map(len, labels), default=0)) + 8)
        self.left = _MARGIN + round(_CHARACTER * len(f"IPU {self.ipus[-1]}")) + 8
        self.lines = _wrapped(grid.title(schedule))
        self.head = _HEAD + 16 * (len(self.lines) - 1)
        columns = len(self.part.shown()) * self.cell + (_GAP if self.part.elided else 0)
        text = max(len(line) for line in [*self.lines, _legend_text(schedule)])
        self.width = max(self.left + columns, _MARGIN + round(_CHARACTER * text)) + _MARGIN
        self.height = self.head + _ROW * len(self.ipus) + _FOOT

    def x(self, step: int) -> int:
        """Returns the left end of a step's column."""
        if step < self.part.head:
            return self.left + step * self.cell
        gap = _GAP if self.part.elided else 0
        return self.left + (step - self.part.elided) * self.cell + gap

    def y(self, ipu: int) -> int:
        """Returns the top of an IPU's row."""
        return self.head + self.ipus.index(ipu) * _ROW


def render(schedule: Schedule, max_steps: int) -> str:
    """Returns a picture of a schedule: IPUs as rows, steps as columns, a color for each phase.

    Args:
        schedule: the schedule.
        max_steps: greatest number of steps shown.
    """
    picture = _Picture(schedule, max_steps)
    width, height = picture.width, picture.height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" class="ipu-schedule">',
        f"<title>{escape(grid.title(schedule))}</title>",
        f"<desc>{escape(_description(picture))}</desc>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
    ]
    for number, line in enumerate(picture.lines):
        lines.append(_text("ink title", _MARGIN, 24 + 16 * number, line))
    lines += [*_axes(picture), *_cells(picture), *_legend(picture), "</svg>"]
    return "\n".join(lines) + "\n"


def _description(picture: _Picture) -> str:
    """Returns the alternative text of the picture, for screen readers."""
    elided = ""
    if picture.part.elided:
        elided = f" Steps {picture.part.head} to {picture.part.tail - 1} are left out."
    meanings = ", ".join(f"{key} {name}" for key, name in grid.meanings(picture.schedule).items())
    stage = "the stage and a colon, " if grid.shares_ipus(picture.schedule) else ""
    return (
        "A table with a row for each IPU and a column for each time step. A cell holds "
        f"{stage}the kind of work ({meanings}) and the number of the mini-batch; an empty cell is "
        f"an idle IPU.{elided}"
    )


def _axes(picture: _Picture) -> list[str]:
    """Returns the numbers of the steps and the names of the IPUs, with empty cells in each row."""
    lines = [_text("ink", _MARGIN, picture.head - 6, "step")]
    for step in picture.part.shown():
        middle = picture.x(step) + picture.cell / 2
        lines.append(_text("ink step", middle, picture.head - 6, str(step)))
    for ipu in picture.ipus:
        top = picture.y(ipu)
        lines.append(_text("ink", _MARGIN, top + 19, f"IPU {ipu}"))
        for step in picture.part.shown():
            lines.append(_rectangle('class="idle"', picture.x(step), top, picture.cell))
    if picture.part.elided:
        middle = picture.x(picture.part.head - 1) + picture.cell + _GAP / 2
        for ipu in picture.ipus:
            lines.append(_text("ink step", middle, picture.y(ipu) + 18, "..."))
    return lines


def _cells(picture: _Picture) -> list[str]:
    """Returns the cells of the entries."""
    return [line for entry in picture.entries for line in _cell(picture, entry)]


def _cell(picture: _Picture, entry: Entry) -> list[str]:
    left, top = picture.x(entry.step), picture.y(entry.ipu)
    color = f'fill="{_COLORS[grid.kind(entry)]}"'
    label = grid.label(picture.schedule, entry)
    return [
        _rectangle(color, left, top, picture.cell),
        _text("cell", left + picture.cell / 2, top + 19, label),
    ]


def _legend(picture: _Picture) -> list[str]:
    """Returns the meanings of the colors, and the left-out steps."""
    top = picture.head + _ROW * len(picture.ipus) + 14
    left = float(_MARGIN)
    lines = []
    for letters, meaning in grid.meanings(picture.schedule).items():
        lines.append(
            f'<rect fill="{_COLORS[letters]}" x="{_coordinate(left)}" y="{top}" width="14" '
            'height="14" rx="3"/>'
        )
        lines.append(_text("ink", left + 20, top + 11, f"{letters} {meaning}"))
        left += 20 + _CHARACTER * (len(letters) + len(meaning) + 3)
    return [*lines, _text("ink", left, top + 11, grid.note(picture.schedule))]


def _legend_text(schedule: Schedule) -> str:
    """Returns a text as long as the legend."""
    meanings = grid.meanings(schedule).items()
    return "".join(f"{key} {name}" + 5 * " " for key, name in meanings) + grid.note(schedule)


def _wrapped(title: str, longest: int = 100) -> list[str]:
    """Returns a title in lines that break after commas."""
    lines = [""]
    for fact in title.split(", "):
        separator = ", " if lines[-1] else ""
        if len(lines[-1] + separator + fact) > longest:
            lines[-1] += ","
            lines.append(fact)
        else:
            lines[-1] += separator + fact
    return lines


def _rectangle(paint: str, left: float, top: float, width: int) -> str:
    return (
        f'<rect {paint} x="{_coordinate(left + 1)}" y="{_coordinate(top + 1)}" '
        f'width="{width - 2}" height="{_ROW - 2}" rx="3"/>'
    )


def _text(classes: str, left: float, base: float, text: str) -> str:
    position = f'x="{_coordinate(left)}" y="{_coordinate(base)}"'
    return f'<text class="{classes}" {position}>{escape(text)}</text>'


def _coordinate(value: float) -> str:
    return f"{value:g}"
