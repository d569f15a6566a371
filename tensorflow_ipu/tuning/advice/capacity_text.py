"""Error report on a program that does not fit on the chip."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.planner.op_groups import groups_at_peak
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.tuning.advice.remedies import Remedy
from tensorflow_ipu.tuning.search.choices import SUBJECT_NAMES
from tensorflow_ipu.util.text import aligned, human_bytes

_TENSORS = 8
_WIDTH = 44


def report(
    plan: Plan, exact_fits: bool, remedies: Sequence[Remedy], untried: Sequence[str] = ()
) -> str:
    """Returns the text about a plan that does not fit: memory, largest tensors, remedies.

    Args:
        plan: of the program.
        exact_fits: whether the exact resident bytes fit.
        remedies: changes that help, best first.
        untried: subjects of changes of which none was planned.
    """
    memory = plan.fullest
    lines = [
        *_head(plan, memory, exact_fits),
        "",
        f"Memory of IPU {memory.ipu} by category:",
        *_categories(memory),
        "",
        f"Largest live tensors at the peak{_peak(plan, memory)}:",
        *_tensors(plan, memory),
        "",
        *_remedies(remedies),
        *_untried(untried),
    ]
    return "\n".join(lines)


def number(num_bytes: float) -> str:
    """Returns bytes as `1,234,567 B`."""
    return f"{int(num_bytes):,} B"


def _head(plan: Plan, memory: IpuMemory, exact_fits: bool) -> list[str]:
    chip = plan.settings.chip
    over = int((memory.peak > memory.capacity).sum())
    certain = (
        "This is what the model of the chip says; the variables alone would fit."
        if exact_fits
        else "What is always live, such as variables, does not fit: no model is needed to see that."
    )
    share = 100 * memory.worst_bytes / memory.capacity
    return [
        f"The program {plan.workload.name} is out of memory on IPU {memory.ipu} of "
        f"{plan.workload.ipus} ({chip.title}): {over:,} of {len(memory.peak):,} tiles have more "
        f"than the {number(memory.capacity)} that fit.",
        f"Worst tile {memory.worst_tile}: {number(memory.worst_bytes)} of "
        f"{number(memory.capacity)} ({share:.0f} %). All tiles: {human_bytes(memory.total)} of "
        f"{human_bytes(memory.capacity * len(memory.peak))}.",
        certain,
    ]


def _categories(memory: IpuMemory) -> list[str]:
    worst = memory.worst_tile
    rows = [("category", "live", "all tiles", "worst tile", "label")]
    rows += [
        (
            category.name,
            "always" if category.always_live else "at times",
            human_bytes(category.total),
            number(category.tiles[worst]),
            category.label.value,
        )
        for category in sorted(memory.categories, key=lambda c: -c.total)
        if category.total
    ]
    return ["  " + line for line in aligned(rows, right=(2, 3))]


def _peak(plan: Plan, memory: IpuMemory) -> str:
    if memory.peak_op is None:
        return ""
    op = plan.workload.ops[memory.peak_op]
    layer = f" of the layer {op.layer}" if op.layer else ""
    place = f" ({op.source})" if op.source else ""
    return f", in the op {op.name}{layer}{place}"


def _tensors(plan: Plan, memory: IpuMemory) -> list[str]:
    if not memory.at_peak:
        return ["  none"]
    largest = memory.at_peak[:_TENSORS]
    rows = [
        (human_bytes(live.num_bytes), _short(live.name), live.category, layer, live.source)
        for live, layer in zip(largest, groups_at_peak(plan.workload, memory, largest))
    ]
    lines = ["  " + line for line in aligned(rows, right=(0,))]
    rest = memory.at_peak[_TENSORS:]
    if rest:
        size = human_bytes(sum(live.num_bytes for live in rest))
        lines.append(f"  and {len(rest):,} more with {size}")
    return lines


def _remedies(remedies: Sequence[Remedy]) -> list[str]:
    if not remedies:
        return ["Remedies: smaller mini-batches, more IPUs, recomputation; see docs/capacity.md."]
    lines = ["Remedies, those that suffice first:"]
    for place, remedy in enumerate(remedies, 1):
        fits = "fits" if remedy.fits else "does not fit alone"
        lines.append(
            f"  {place}. {remedy.name}: worst tile {number(remedy.worst)}, saves "
            f"{number(remedy.saving)} there, {human_bytes(remedy.total_saving)} in all; {fits}"
            f"{_ratio(remedy)}, {remedy.label.value}"
        )
        lines += [f"     {line}" for line in remedy.instruction.splitlines()]
    return lines


def _untried(untried: Sequence[str]) -> list[str]:
    if not untried:
        return []
    names = ", ".join(SUBJECT_NAMES[name] for name in untried)
    more = "`tensorflow-ipu remedies` searches these, and combinations"
    return [f"Not tried alone: {names}. {more}."]


def _ratio(remedy: Remedy) -> str:
    if remedy.cycles_ratio is None or remedy.ratio_range is None:
        return ""
    low, high = remedy.ratio_range
    return (
        f"; {remedy.cycles_ratio:.2f} ({low:.2f} to {high:.2f}) times the IPU cycles for each "
        "element"
    )


def _short(name: str) -> str:
    """Returns the end of a long name, its most specific part."""
    return name if len(name) <= _WIDTH else "..." + name[3 - _WIDTH :]
