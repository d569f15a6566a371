"""The printed comparison."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence

import numpy as np

from . import across_chips, distinct, judged, leave_out, memory, residuals, scaling, whole_models
from .predict import Outcome
from .prediction import Prediction
from .statistics import Statistics, statistics

#: Head of the table of groups.
HEAD = ("group", "rows", "predicted / measured", "median error", "90th percentile", "rank corr.")

#: Head of the table of configurations.
CONFIGURATIONS = ("group", "rows", "configurations", "median error", "90th percentile")
#: Head of the table of fitted figures.
LEFT_OUT = (
    "figure",
    "configurations",
    "median error",
    "left out",
    "90th percentile, left out",
    "figure / figure in use",
)


def text(outcome: Outcome, malformed: int = 0, every_row: bool = False) -> str:
    """Returns the comparison as text; the last line is the summary.

    Args:
        outcome: of the rows.
        malformed: lines of the file that are no rows; they count as not expressible.
        every_row: whether each row is printed.
    """
    parts = []
    if every_row:
        parts.append("\n".join(_line(prediction) for prediction in outcome.predictions))
    parts.append(_aligned([judged.HEAD, *judged.cells(judged.judged(outcome))]))
    parts.append(_aligned([HEAD, *table(outcome.predictions)]))
    parts.append(_aligned([CONFIGURATIONS, *configurations(outcome.predictions)]))
    parts.append(_aligned([HEAD, *checks(outcome.predictions)]))
    sizes = scaling.by_size(outcome.predictions)
    if sizes:
        parts.append(_aligned([scaling.SIZES, *sizes]))
        parts.append(_aligned([scaling.HEAD, *scaling.table(outcome.predictions)]))
    parts.append(_aligned([LEFT_OUT, *left_out_cells(outcome.predictions)]))
    found = residuals.checked(outcome.predictions)
    parts.append(_aligned([residuals.HEAD, *residuals.cells(found)]))
    parts += filter(None, [residuals.sums(outcome.predictions, found)])
    across = across_chips.across(outcome.predictions)
    parts += [_aligned([across_chips.HEAD, *across_chips.cells(across)])] if across else []
    reasons = by_reason(outcome)
    if reasons:
        lines = [f"  {count:4}  {reason}" for reason, count in reasons]
        parts.append("not expressible:\n" + "\n".join(lines))
    lines = [judged.headline(judged.judged(outcome)), off_the_line(outcome)]
    parts.append("\n".join([*lines, summary(outcome, malformed)]))
    return "\n\n".join(parts)


def memory_text() -> str:
    """Returns the table of programs whose memory is known to suffice, or not to; compiles them."""
    return "memory:\n" + _aligned([memory.HEAD, *memory.table()])


def summary(outcome: Outcome, malformed: int = 0) -> str:
    """Returns the line that says it all."""
    found = statistics(outcome.predictions)
    return (
        f"median error {_percent(found.median)}, 90th percentile {_percent(found.percentile)}, "
        f"rank correlation {found.correlation:.2f} over {found.rows} rows "
        f"({len(outcome.refused) + malformed} not expressible)"
    )


def off_the_line(outcome: Outcome) -> str:
    """Returns the line that says the same without the straight line of products on a tile."""
    found = statistics(distinct.off_the_line(outcome.predictions))
    return (
        f"without the straight line: median error {_percent(found.median)}, "
        f"90th percentile {_percent(found.percentile)}, "
        f"rank correlation {found.correlation:.2f} over {found.rows} rows"
    )


def configurations(predictions: Sequence[Prediction]) -> list[tuple[str, ...]]:
    """Returns the errors of each group, every configuration counted once, and of all."""
    found = []
    for name, members in (*groups(predictions).items(), *_sums(predictions)):
        once = distinct.distinct(members)
        errors = np.array([one.error for one in once] or [np.nan])
        found.append(
            (
                name,
                str(len(members)),
                str(len(once)),
                _percent(float(np.median(errors))),
                _percent(float(np.percentile(errors, 90))),
            )
        )
    return found


def _sums(predictions: Sequence[Prediction]) -> list[tuple[str, list[Prediction]]]:
    """Groups of groups."""
    models = [one for one in predictions if whole_models.is_whole_model(one)]
    return [
        ("whole models", models),
        ("all but the straight line", distinct.off_the_line(predictions)),
    ]


def left_out_cells(predictions: Sequence[Prediction]) -> list[tuple[str, ...]]:
    """Returns the rows of the table of fitted figures with a configuration left out."""
    return [
        (
            one.figure,
            str(one.configurations),
            _percent(one.fitted),
            _percent(one.median),
            _percent(one.percentile),
            f"{one.low:.2f} - {one.high:.2f}",
        )
        for one in leave_out.left_out(predictions)
    ]


def groups(predictions: Iterable[Prediction]) -> dict[str, list[Prediction]]:
    """Returns predictions by group, in the order of their first rows."""
    found: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        found.setdefault(prediction.group, []).append(prediction)
    return found


def table(predictions: Sequence[Prediction]) -> list[tuple[str, ...]]:
    """Returns the rows of the table of groups, and one for all."""
    found = [cells(name, statistics(members)) for name, members in groups(predictions).items()]
    return [*found, cells("all", statistics(predictions))]


def checks(predictions: Sequence[Prediction]) -> list[tuple[str, ...]]:
    """Returns a table that tells groups that figures were fitted to from those that check them."""
    found = []
    for name, kind in (("fitted: ", True), ("check: ", False)):
        members = [prediction for prediction in predictions if prediction.fitted is kind]
        by_chip: dict[str, list[Prediction]] = {}
        for prediction in members:
            models = whole_models.is_whole_model(prediction)
            what = "whole models" if models else prediction.group
            by_chip.setdefault(f"{what}, {prediction.chip.title}", []).append(prediction)
        found += [cells(name + key, statistics(rows)) for key, rows in by_chip.items()]
    return found


def cells(name: str, found: Statistics) -> tuple[str, ...]:
    """Returns one row of a table of statistics."""
    correlation = "-" if math.isnan(found.correlation) else f"{found.correlation:.2f}"
    return (
        name,
        str(found.rows),
        f"{found.ratio:.2f}",
        _percent(found.median),
        _percent(found.percentile),
        correlation,
    )


def by_reason(outcome: Outcome) -> list[tuple[str, int]]:
    """Returns why rows are not expressible and how many, most first."""
    return collections.Counter(reason for _, reason in outcome.refused).most_common()


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _line(prediction: Prediction) -> str:
    row = prediction.row
    return f"{prediction.ratio:8.3f}  {prediction.value:12.6g} / {row.value:<12g} {row.unit}  {row}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table in columns; the first is flush left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )
