"""Text of a compiled program's listing, with its totals."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tensorflow_ipu import op_names
from tensorflow_ipu.util.text import aligned, human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensorflow_ipu.compiler.listing.program_listing import OpRecord

_FLOPS_MARKS = {"exact": "", "modelled": "~", "assumed": "?"}
_TYPES_SHOWN = 8


class WorkTotal(NamedTuple):
    """The floating-point operations of one launch of a program on one replica.

    Args:
        flops: their number. Ops in loops of unknown trip count are counted as if run once, all
            branches as if taken.
        modelled: The modelled part of them.
        assumed: The assumed part of them.
        without_formula: types of the ops that have no formula, with how many ops of each there are.
        unknown_loops: number of loops whose trip count is not a constant.
        conditional: whether any op is in a branch.
    """

    flops: int
    modelled: int
    assumed: int
    without_formula: dict[str, int]
    unknown_loops: int
    conditional: bool


def work_total(records: Iterable[OpRecord]) -> WorkTotal:
    """Adds up the work of a listing.

    Args:
        records: the ops of a program.

    Returns:
        The total, each op multiplied by its number of executions.
    """
    by_label: Counter[str] = Counter()
    without: Counter[str] = Counter()
    unknown_loops = 0
    conditional = False
    for record in records:
        conditional = conditional or record.conditional
        if record.flops is None:
            without[record.type] += 1
        else:
            by_label[record.flops_label] += record.flops * _runs(record)
        if op_names.is_loop(record.type) and record.trip_count is None:
            unknown_loops += 1
        unknown_loops += record.type == "LoopCond"
    return WorkTotal(
        sum(by_label.values()),
        by_label["modelled"],
        by_label["assumed"],
        dict(sorted(without.items())),
        unknown_loops,
        conditional,
    )


def format_listing(records: Sequence[OpRecord]) -> str:
    """Returns a listing as an aligned table with totals.

    Args:
        records: the ops of a program, in order.

    Returns:
        One line for each op under a heading, then the totals. The pipeline stages have a column
        where there are any.
    """
    rows: list[tuple[str, ...]] = [("IPU", "op", "name", "in", "out", "flops", "source")]
    rows += [_row(record) for record in records]
    if any(record.stage is not None or record.phase for record in records):
        stages = ["stage", *(_stage(record) for record in records)]
        rows = [(*row[:-1], stage, row[-1]) for row, stage in zip(rows, stages)]
    return "\n".join([*aligned(rows, right=(0, 3, 4, 5)), "", *_totals(records)])


def _runs(record: OpRecord) -> int:
    """Returns the executions by which an op is counted."""
    return 1 if record.runs is None else record.runs


def _row(record: OpRecord) -> tuple[str, ...]:
    """Returns the cells of an op's row."""
    op_type = "  " * record.depth + record.type
    if record.trip_count is not None:
        op_type += f" x{record.trip_count}"
    flops = human_count(record.flops)
    return (
        ",".join(map(str, record.ipus)) or "host",
        op_type,
        record.name,
        human_bytes(record.bytes_in),
        human_bytes(record.bytes_out),
        _FLOPS_MARKS.get(record.flops_label, "") + flops,
        "" if record.source is None else str(record.source),
    )


def _stage(record: OpRecord) -> str:
    """Returns the cell of an op's pipeline stage and phase, as in `2 backward`."""
    return f"{'' if record.stage is None else record.stage} {record.phase}".strip()


def _totals(records: Sequence[OpRecord]) -> list[str]:
    """Returns the lines below the table."""
    total = work_total(records)
    types = Counter(record.type for record in records)
    shown = [f"{count} {name}" for name, count in types.most_common(_TYPES_SHOWN)]
    rest = len(types) - len(shown)
    lines = [
        f"ops: {len(records)} ({', '.join(shown)}{f', {rest} other types' if rest else ''})",
        f"flops of one launch: {human_count(total.flops)} ({human_count(total.modelled)} of them "
        f"modelled ~, {human_count(total.assumed)} assumed ?)",
    ]
    if total.without_formula:
        missing = ", ".join(f"{count} {name}" for name, count in total.without_formula.items())
        number = sum(total.without_formula.values())
        lines.append(f"not in that number: {number} ops that have no formula ({missing})")
    else:
        lines.append("every op has a formula")
    if total.unknown_loops:
        lines.append(f"counted as one iteration: {total.unknown_loops} loops of unknown trip count")
    if total.conditional:
        lines.append("counted as taken: every branch of every conditional")
    return lines
