"""Tables and numbers of the text report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tensorflow_ipu.planner.op_groups import groups_at_peak
from tensorflow_ipu.profiler import breakdown
from tensorflow_ipu.profiler.views.bounds import BOUNDS
from tensorflow_ipu.util.text import aligned, human_bytes, human_count

if TYPE_CHECKING:
    from tensorflow_ipu.profiler.report import Report

#: Rows of tables at most.
TOP = 10


def cycles_text(cycles: float) -> str:
    """Returns cycles as a whole number with separators."""
    return f"{round(cycles):,}"


def percent(part: float, whole: float) -> str:
    """Returns a part of a whole as a percentage."""
    return f"{100 * part / whole if whole else 0.0:.1f} %"


def seconds_text(seconds: float) -> str:
    """Returns a time in a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale or unit == "us":
            return f"{seconds / scale:.3f} {unit}"
    raise AssertionError


def pairs_lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Returns lines of names and values.

    Args:
        pairs: each a name and a value.
    """
    return [line.rstrip() for line in aligned(list(pairs), right=())]


def table(
    rows: Sequence[tuple[str, ...]],
    right: tuple[int, ...],
    spare: Sequence[str] = (),
    wrap: bool = False,
) -> list[str]:
    """Returns a table under its heading, nothing without rows.

    Args:
        rows: the heading, then the rows.
        right: columns that are aligned to the right.
        spare: headings of columns to leave out first where there is too little room.
        wrap: break texts of the last column into lines instead of cutting them.
    """
    return aligned(rows, right, spare, wrap) if len(rows) > 1 else []


def largest(report: Report) -> list[str]:
    """Returns the table of the largest tensors at the peak of the fullest IPU.

    Args:
        report: the report.
    """
    memory = report.plan.fullest
    live = breakdown.tensors_at_peak(memory)[:TOP]
    groups = groups_at_peak(report.workload, memory, live)
    rows = [("tensor", "category", "bytes", "layer", "source")]
    rows += [
        (item.name, item.category, f"{item.num_bytes:,}", layer, item.source)
        for item, layer in zip(live, groups)
    ]
    return table(rows, right=(2,), spare=("layer",))


def top_operations(report: Report) -> list[str]:
    """Returns tables of bounds, of the dearest op types, and of the dearest operations.

    Args:
        report: the report.
    """
    tables = [each for each in (_bounds(report), _types(report), _operations(report)) if each]
    lines = [line for number, each in enumerate(tables) for line in ([""] if number else []) + each]
    return [*sum_note(report), *lines] if lines else []


def sum_note(report: Report) -> list[str]:
    """Returns the line that distinguishes sums over IPUs from a launch; none for one IPU.

    Args:
        report: the report.
    """
    ipus = report.workload.ipus
    if ipus == 1:
        return []
    cycles = cycles_text(sum(row.cycles for row in report.operations()))
    launch = cycles_text(report.plan.timeline.cycles)
    return [
        f"Cycles are sums over the {ipus} IPUs of a replica: {cycles} in all, "
        f"beside {launch} of a launch"
    ]


def _bounds(report: Report) -> list[str]:
    """Returns the table of cycles by bound."""
    sums = dict.fromkeys(BOUNDS, 0.0)
    for row in report.operations():
        sums[row.bound] += row.cycles
    total = sum(sums.values())
    rows = [("bound by", "cycles", "share", "")]
    rows += [
        (bound, cycles_text(cycles), percent(cycles, total), BOUNDS[bound])
        for bound, cycles in sorted(sums.items(), key=lambda item: -item[1])
        if cycles
    ]
    return table(rows, right=(1, 2), wrap=True)


def _types(report: Report) -> list[str]:
    """Returns the table of op types."""
    total = sum(row.cycles for row in report.operations())
    rows = [("type", "ops", "runs", "cycles", "share")]
    rows += [
        (
            row.type,
            str(row.ops),
            f"{row.runs:,}",
            cycles_text(row.cycles),
            percent(row.cycles, total),
        )
        for row in breakdown.type_rows(report.ops())[:TOP]
    ]
    return table(rows, right=(1, 2, 3, 4))


def _operations(report: Report) -> list[str]:
    """Returns the table of ops and transfers, with bound, roofline share and partition."""
    names = ("cycles", "share", "bound by", "of roof", "type", "partition", "IPU", "runs", "label")
    rows = [(*names, "operation", "layer", "source")]
    rows += [
        (
            cycles_text(row.cycles),
            percent(row.share, 1),
            row.bound,
            "-" if row.roofline is None else percent(row.roofline, 1),
            f"{row.type} (map of {len(row.fused) + 1})" if row.fused else row.type,
            row.partition or "-",
            str(row.ipu),
            f"{row.runs:,}",
            row.label,
            row.name,
            row.layer,
            row.source,
        )
        for row in report.operations()[:TOP]
    ]
    spare = ("partition", "label", "runs", "of roof", "IPU", "type", "layer")
    return table(rows, right=(0, 1, 3, 6, 7), spare=spare)


def top_layers(report: Report) -> list[str]:
    """Returns the layers that take most cycles.

    Args:
        report: the report.
    """
    layers = sorted(report.layers(), key=lambda row: -row.cycles)[:TOP]
    names = ("layer", "forward", "backward", "update", "variables", "activations", "flops")
    rows = [(*names, "label")]
    rows += [
        (
            row.layer,
            cycles_text(row.forward_cycles),
            cycles_text(row.backward_cycles),
            cycles_text(row.update_cycles),
            human_bytes(row.variable_bytes),
            human_bytes(row.activation_bytes),
            human_count(row.flops),
            row.label,
        )
        for row in layers
    ]
    return (
        [*sum_note(report), *table(rows, (1, 2, 3, 4, 5, 6), ("label", "flops"))] if layers else []
    )
