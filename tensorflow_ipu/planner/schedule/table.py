"""`Schedule`: the table of each IPU's work in each step, its sums, its text and its picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.planner.schedule.description import Phase, PipelineDescription
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.short_repr import shows


def idle_share(busy: Sequence[float], total: float) -> float:
    """Returns the idle share of the time of some IPUs, 0 to 1; 0 of no time.

    The one definition of a bubble: in plans with cycles, in tables of schedules with steps.

    Args:
        busy: busy time of each IPU.
        total: total time of all IPUs, in the same unit.
    """
    return 1 - sum(busy) / (total * len(busy)) if total and busy else 0.0


# --- The part of a schedule that its text and its picture show: steps, letters, labels, title ---

# Letters and meaning of the kinds of work; a fused backward pass is a kind of its own.
FUSED = "RB"


LETTERS = {
    Phase.FORWARD: "F",
    Phase.RECOMPUTE: "R",
    Phase.BACKWARD: "B",
    Phase.UPDATE: "U",
}


MEANINGS = {
    "F": "forward",
    "R": "recompute",
    "B": "backward",
    FUSED: "recompute and backward",
    "U": "weight update",
}


class ShownSteps(NamedTuple):
    """The steps that are shown: before `head`, and from `tail` on.

    Args:
        head: end of the first part.
        tail: start of the second part, the same as `head` if nothing is left out.
        steps: number of steps of the schedule.
    """

    head: int
    tail: int
    steps: int

    @property
    def elided(self) -> int:
        """Number of steps left out."""
        return self.tail - self.head

    def shown(self) -> list[int]:
        """Returns the steps that are shown."""
        return [*range(self.head), *range(self.tail, self.steps)]


def window(schedule: Schedule, max_steps: int) -> ShownSteps:
    """Returns the steps of a schedule to show.

    Args:
        schedule: the schedule.
        max_steps: limit of steps.

    Raises:
        ValueError: If that is less than 2.
    """
    if max_steps < 2:
        raise ValueError(f"max_steps must be at least 2, to show both ends, got {max_steps}.")
    if schedule.steps <= max_steps:
        return ShownSteps(schedule.steps, schedule.steps, schedule.steps)
    head = (max_steps + 1) // 2
    return ShownSteps(head, schedule.steps - (max_steps - head), schedule.steps)


def entries(schedule: Schedule, part: ShownSteps) -> Iterator[Entry]:
    """Yields the entries of the steps that are shown."""
    steps = schedule.table["step"]
    yield from type(schedule)(
        schedule.description, schedule.table[(steps < part.head) | (steps >= part.tail)]
    )


def kind(entry: Entry) -> str:
    """Returns the letters for the kind of work of an entry."""
    return FUSED if entry.fused else LETTERS[entry.phase]


def entry_label(schedule: Schedule, entry: Entry) -> str:
    """Returns the text in the cell of an entry, as in `F3`; `1:F3` if IPUs have many stages."""
    number = "" if entry.phase is Phase.UPDATE else str(entry.mini_batch)
    stage = f"{entry.stage}:" if shares_ipus(schedule) else ""
    return stage + kind(entry) + number


def shares_ipus(schedule: Schedule) -> bool:
    """Returns whether some IPU has more than one stage."""
    ipus = schedule.description.ipus_of_stages
    return sum(map(len, ipus)) > len(schedule.description.ipus)


def title(schedule: Schedule) -> str:
    """Returns the facts of a schedule in one line."""
    description = schedule.description
    each = description.batch_serialization_iterations
    recomputation = description.resolved_recomputation
    facts = [
        _number(description.stages, "stage"),
        _number(len(description.ipus), "IPU"),
        f"count {description.count}" + (f" x {each} serialized" if each > 1 else ""),
        *([_number(description.repeat_count, "execution")] * (description.repeat_count > 1)),
        _number(schedule.steps, "step"),
        f"bubble {100 * schedule.bubble_share:.1f} %",
        f"stash depth per stage {' '.join(map(str, schedule.stash_depths()))}",
        *([recomputation.name] if recomputation else []),
    ]
    purpose = "training" if description.training else "inference"
    return f"{description.schedule.name} {purpose}: {', '.join(facts)}"


def letter_meanings(schedule: Schedule) -> dict[str, str]:
    """Returns the kinds of work that a schedule has, with their meaning."""
    table = schedule.table
    present = {LETTERS[Phase(phase)] for phase in set(table["phase"][~table["fused"]].tolist())}
    present |= {FUSED} if table["fused"].any() else set()
    return {letters: meaning for letters, meaning in MEANINGS.items() if letters in present}


def note(schedule: Schedule) -> str:
    """Returns the meaning of the numbers in the cells."""
    return "number: mini-batch" + (", stage before the colon" if shares_ipus(schedule) else "")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")


# --- A schedule as a table of text ---

_IDLE = "."


_GAP = ".."


def render_text(schedule: Schedule, max_steps: int) -> str:
    """Returns the facts of a schedule, its table, and the meanings of the letters.

    Args:
        schedule: the schedule.
        max_steps: greatest number of steps shown.
    """
    part = window(schedule, max_steps)
    lines = [title(schedule), *_table(schedule, part)]
    if part.elided:
        lines.append(f"steps {part.head} to {part.tail - 1} of {part.steps} are not shown")
    meanings = [f"{letters} {meaning}" for letters, meaning in letter_meanings(schedule).items()]
    legend = ", ".join([*meanings, f"{_IDLE} idle"])
    return "\n".join([*lines, f"{legend}; {note(schedule)}"])


def _table(schedule: Schedule, part: ShownSteps) -> list[str]:
    """Returns the rows of the table under a row of step numbers."""
    labels = {
        (entry.ipu, entry.step): entry_label(schedule, entry) for entry in entries(schedule, part)
    }
    rows = [["step", *map(str, part.shown())]]
    for ipu in schedule.description.ipus:
        cells = [labels.get((ipu, step), _IDLE) for step in part.shown()]
        rows.append([f"IPU {ipu}", *cells])
    if part.elided:
        for row in rows:
            row.insert(part.head + 1, _GAP)
    first = max(len(row[0]) for row in rows)
    width = max((len(cell) for row in rows for cell in row[1:]), default=0)
    return [
        " ".join([row[0].ljust(first), *(cell.ljust(width) for cell in row[1:])]).rstrip()
        for row in rows
    ]


# --- A schedule as SVG ---

_MARGIN = 16


_ROW = 30


_PICTURE_GAP = 26


# Room for the title and the step numbers above the rows, and for the legend below them.
_HEAD = 62


_FOOT = 44


# Greatest width of a character in the fonts used.
_CHARACTER = 7.5


# Cells are light with dark letters on them, on a light or a dark page. The picture has its own
# background, as a page may be dark when the reader's system is light.
_COLORS = {"F": "#9ecae9", "R": "#f5e08c", "B": "#f2ab84", FUSED: "#f4c07f", "U": "#a9d6a0"}


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
        self.part = window(schedule, max_steps)
        self.ipus = schedule.description.ipus
        self.entries = list(entries(schedule, self.part))
        labels = [entry_label(schedule, entry) for entry in self.entries]
        self.cell = max(30, round(_CHARACTER * max(map(len, labels), default=0)) + 8)
        self.left = _MARGIN + round(_CHARACTER * len(f"IPU {self.ipus[-1]}")) + 8
        self.lines = _wrapped(title(schedule))
        self.head = _HEAD + 16 * (len(self.lines) - 1)
        columns = len(self.part.shown()) * self.cell + (_PICTURE_GAP if self.part.elided else 0)
        text = max(len(line) for line in [*self.lines, _legend_text(schedule)])
        self.width = max(self.left + columns, _MARGIN + round(_CHARACTER * text)) + _MARGIN
        self.height = self.head + _ROW * len(self.ipus) + _FOOT

    def x(self, step: int) -> int:
        """Returns the left end of a step's column."""
        if step < self.part.head:
            return self.left + step * self.cell
        gap = _PICTURE_GAP if self.part.elided else 0
        return self.left + (step - self.part.elided) * self.cell + gap

    def y(self, ipu: int) -> int:
        """Returns the top of an IPU's row."""
        return self.head + self.ipus.index(ipu) * _ROW


def render_svg(schedule: Schedule, max_steps: int) -> str:
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
        f"<title>{escape(title(schedule))}</title>",
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
    meanings = ", ".join(f"{key} {name}" for key, name in letter_meanings(picture.schedule).items())
    stage = "the stage and a colon, " if shares_ipus(picture.schedule) else ""
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
        middle = picture.x(picture.part.head - 1) + picture.cell + _PICTURE_GAP / 2
        for ipu in picture.ipus:
            lines.append(_text("ink step", middle, picture.y(ipu) + 18, "..."))
    return lines


def _cells(picture: _Picture) -> list[str]:
    """Returns the cells of the entries."""
    return [line for entry in picture.entries for line in _cell(picture, entry)]


def _cell(picture: _Picture, entry: Entry) -> list[str]:
    left, top = picture.x(entry.step), picture.y(entry.ipu)
    color = f'fill="{_COLORS[kind(entry)]}"'
    label = entry_label(picture.schedule, entry)
    return [
        _rectangle(color, left, top, picture.cell),
        _text("cell", left + picture.cell / 2, top + 19, label),
    ]


def _legend(picture: _Picture) -> list[str]:
    """Returns the meanings of the colors, and the left-out steps."""
    top = picture.head + _ROW * len(picture.ipus) + 14
    left = float(_MARGIN)
    lines = []
    for letters, meaning in letter_meanings(picture.schedule).items():
        lines.append(
            f'<rect fill="{_COLORS[letters]}" x="{_coordinate(left)}" y="{top}" width="14" '
            'height="14" rx="3"/>'
        )
        lines.append(_text("ink", left + 20, top + 11, f"{letters} {meaning}"))
        left += 20 + _CHARACTER * (len(letters) + len(meaning) + 3)
    return [*lines, _text("ink", left, top + 11, note(picture.schedule))]


def _legend_text(schedule: Schedule) -> str:
    """Returns a text as long as the legend."""
    meanings = letter_meanings(schedule).items()
    return "".join(f"{key} {name}" + 5 * " " for key, name in meanings) + note(schedule)


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


# --- `Schedule`: the table of each IPU's work in each step, and its sums ---

# Stands in the table for the mini-batch of a weight update, which has none.
NO_MINI_BATCH = -1


_INTEGERS = ("slot", "step", "ipu", "stage", "mini_batch", "phase")


TABLE_TYPE = np.dtype([*((name, np.int32) for name in _INTEGERS), ("fused", np.bool_)])


class Entry(NamedTuple):
    """One cell of a schedule: the work of one IPU in one step.

    Args:
        slot: stretch of steps at whose end all IPUs wait for each other, from 0.
        step: time step, from 0.
        ipu: IPU within the replica.
        stage: pipeline stage.
        mini_batch: mini-batch of the execution, or -1 in an update.
        phase: kind of work.
        fused: whether a backward pass recomputes activations on the way.
    """

    slot: int
    step: int
    ipu: int
    stage: int
    mini_batch: int
    phase: Phase
    fused: bool


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The order of one execution of a pipeline; all executions are alike. Made by `build`.

    Attributes:
        description: The pipeline.
        table: NumPy array of type `TABLE_TYPE`, a row for each entry, ordered by step and IPU. A
            stage with several IPUs has an entry on each of them.
    """

    description: PipelineDescription
    table: np.ndarray = dataclasses.field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Entry]:
        for slot, step, ipu, stage, mini_batch, phase, fused in self.table.tolist():
            yield Entry(slot, step, ipu, stage, mini_batch, Phase(phase), fused)

    __repr__ = shows(
        lambda self: {
            "": self.description.schedule,
            "ipus_of_stages": self.description.ipus_of_stages,
            "mini_batches": self.description.mini_batches,
            "training": self.description.training,
            "steps": self.steps,
        }
    )

    def __str__(self) -> str:
        return self.text()

    @property
    def steps(self) -> int:
        """Number of steps of one execution."""
        return int(self.table["step"].max(initial=-1)) + 1

    @property
    def bubble_share(self) -> float:
        """Idle share of the table's cells, with a row per used IPU and a column per step.

        Exact for the table: every step counts as one, the update's too. `timed` weights steps with
        costs.
        """
        entries = np.bincount(self.table["ipu"], minlength=max(self.description.ipus) + 1)
        return idle_share(entries[list(self.description.ipus)].tolist(), self.steps)

    def in_flight(self) -> tuple[int, ...]:
        """Returns the most mini-batches in flight in each stage, measured in the table.

        Exact. The number is highest when a forward pass starts: then those are in flight whose
        forward pass started and whose backward pass has not ended.
        """
        return tuple(self._in_flight_in(stage) for stage in range(self.description.stages))

    def stash_depths(self) -> tuple[int, ...]:
        """Returns the most mini-batches in the stash of each stage: see `slots.stash_depths`."""
        return tuple(max(number - 1, 0) for number in self.in_flight())

    def text(self, max_steps: int = 24) -> str:
        """Returns the table as text, IPUs as rows and steps as columns.

        Args:
            max_steps: greatest number of steps shown, at least 2. The middle of a longer schedule
                is left out.
        """
        return render_text(self, max_steps)

    def svg(self, max_steps: int = 24) -> str:
        """Returns the table as a self-contained picture in SVG.

        Args:
            max_steps: as for `text`.
        """
        return render_svg(self, max_steps)

    def write_svg(self, path: str | Path, max_steps: int = 24) -> None:
        """Writes the picture to a file.

        Args:
            path: the file.
            max_steps: as for `text`.
        """
        private_files.write_text(path, self.svg(max_steps))

    def _repr_svg_(self) -> str:
        """Returns the picture for notebooks."""
        return self.svg()

    def _in_flight_in(self, stage: int) -> int:
        """Returns the number of mini-batches in flight in one stage."""
        ipu = self.description.ipus_of_stages[stage][0]
        rows = self.table[(self.table["stage"] == stage) & (self.table["ipu"] == ipu)]
        forward = rows["step"][rows["phase"] == Phase.FORWARD]
        if not self.description.training:
            return min(len(forward), 1)
        backward = rows["step"][rows["phase"] == Phase.BACKWARD]
        started = np.arange(1, len(forward) + 1)
        ended = np.searchsorted(backward, forward, side="left")
        return int((started - ended).max(initial=0))
