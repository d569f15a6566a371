"""A schedule as a table of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.schedule import grid

if TYPE_CHECKING:
    from tensorflow_ipu.schedule.table import Schedule

_IDLE = "."
_GAP = ".."


def render(schedule: Schedule, max_steps: int) -> str:
    """Returns the facts of a schedule, its table, and the meanings of the letters.

    Args:
        schedule: the schedule.
        max_steps: greatest number of steps shown.
    """
    part = grid.window(schedule, max_steps)
    lines = [grid.title(schedule), *_table(schedule, part)]
    if part.elided:
        lines.append(f"steps {part.head} to {part.tail - 1} of {part.steps} are not shown")
    meanings = [f"{letters} {meaning}" for letters, meaning in grid.meanings(schedule).items()]
    legend = ", ".join([*meanings, f"{_IDLE} idle"])
    return "\n".join([*lines, f"{legend}; {grid.note(schedule)}"])


def _table(schedule: Schedule, part: grid.ShownSteps) -> list[str]:
    """Returns the rows of the table under a row of step numbers."""
    labels = {
        (entry.ipu, entry.step): grid.label(schedule, entry)
        for entry in grid.entries(schedule, part)
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
