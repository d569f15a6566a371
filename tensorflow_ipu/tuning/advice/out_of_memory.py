"""Check whether a plan fits on the chip, with an error or a warning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.configs.flags import CAPACITY_POLICIES
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.details import groups_at_peak
from tensorflow_ipu.planner.plan import IpuMemory, Plan
from tensorflow_ipu.tuning.advice.remedies import Remedy, search
from tensorflow_ipu.tuning.search.choices import SUBJECT_NAMES
from tensorflow_ipu.util.text import aligned, exact_bytes, human_bytes

# --- Error report on a program that does not fit on the chip ---

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
        f"than the {exact_bytes(memory.capacity)} that fit.",
        f"Worst tile {memory.worst_tile}: {exact_bytes(memory.worst_bytes)} of "
        f"{exact_bytes(memory.capacity)} ({share:.0f} %). All tiles: {human_bytes(memory.total)} "
        f"of {human_bytes(memory.capacity * len(memory.peak))}.",
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
            exact_bytes(category.tiles[worst]),
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
            f"  {place}. {remedy.name}: worst tile {exact_bytes(remedy.worst)}, saves "
            f"{exact_bytes(remedy.saving)} there, {human_bytes(remedy.total_saving)} in all; {fits}"
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


# --- Check whether a plan fits on the chip, with an error or a warning ---

DEFAULT, RAISE, WARN, MARK = CAPACITY_POLICIES


@dataclasses.dataclass(frozen=True)
class CapacityVerdict:
    """The result of a capacity check: whether a plan fits, the action, and remedies.

    Attributes:
        fits: Whether no tile exceeds its memory.
        exact_fits: Whether no tile exceeds its memory with exact resident bytes only, such as
            variables. If not, the program cannot run, without any model.
        action: `raise`, `warn`, or empty for none.
        message: The report; empty without an action.
        remedies: Changes that help, best first; empty without an action.
    """

    fits: bool
    exact_fits: bool
    action: str = ""
    message: str = ""
    remedies: tuple[Remedy, ...] = ()


def check(plan: Plan, policy: str = DEFAULT) -> CapacityVerdict:
    """Checks whether a program fits.

    Args:
        plan: of the program.
        policy: `raise`, `warn`, `mark` (do nothing), or `default`: raise if exact resident bytes
            alone exceed the chip, else warn.

    Returns:
        The verdict, with the report if there is an action.

    Raises:
        ValueError: there is no such policy.
    """
    if policy not in CAPACITY_POLICIES:
        raise ValueError(
            f"Unknown capacity policy {policy!r}: choose one of {', '.join(CAPACITY_POLICIES)}."
        )
    exact_fits = all(int(exact_tiles(ipu).max(initial=0)) <= ipu.capacity for ipu in plan.memory)
    action = _action(plan.fits, exact_fits, policy)
    if not action:
        return CapacityVerdict(plan.fits, exact_fits)
    found = search(plan)
    message = report(plan, exact_fits, found.remedies, found.untried)
    return CapacityVerdict(plan.fits, exact_fits, action, message, found.remedies)


def exact_tiles(memory: IpuMemory) -> np.ndarray:
    """Returns the exact resident bytes on each tile, int64.

    Args:
        memory: of one IPU.
    """
    parts: Sequence[np.ndarray] = [
        category.tiles
        for category in memory.categories
        if category.always_live and category.label is Label.EXACT
    ]
    if not parts:
        return np.zeros(len(memory.peak), np.int64)
    total: np.ndarray = np.sum(parts, axis=0)
    return total


def _action(fits: bool, exact_fits: bool, policy: str) -> str:
    """Returns the action: `raise`, `warn`, or empty for none."""
    if fits and exact_fits:
        return ""
    if policy == DEFAULT:
        return WARN if exact_fits else RAISE
    return "" if policy == MARK else policy
