"""Remedies for a lack of memory, each with the saving found by planning again."""

from __future__ import annotations

import dataclasses
import itertools

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.alternatives import changes
from tensorflow_ipu.planner.alternatives.changes import Candidate, Change
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.time import throughput


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change of the user's program that saves memory.

    Attributes:
        name: What is changed.
        instruction: What to write in the program, in one or more lines.
        saving: Bytes less on the worst tile of all IPUs.
        total_saving: Bytes less on the fullest IPU, all tiles.
        worst: Bytes on the worst tile then.
        fits: Whether the program fits then.
        cycles_ratio: IPU cycles for each element of data then, over those now; waiting IPUs count.
            None where that could not be modelled.
        label: How far the bytes can be trusted.
        plan: The program with the change.
    """

    name: str
    instruction: str
    saving: int
    total_saving: int
    worst: int
    fits: bool
    cycles_ratio: float | None
    label: Label
    plan: Plan = dataclasses.field(repr=False)


def remedies(plan: Plan) -> tuple[Remedy, ...]:
    """Finds changes that make a program need less memory.

    Each is planned anew, so its saving includes what it costs elsewhere. If none suffices, the best
    pair of them that does is added.

    Args:
        plan: of the program.

    Returns:
        Those that save something on the worst tile. First those that make the program fit: those
        that cost the fewest cycles first, then those that save most. Then the rest, by saving.
    """
    candidate = Candidate(Planner(plan.workload), plan.settings)
    tried = [(change, _tried(plan, candidate, change)) for change in changes.possible(candidate)]
    found = [(change, remedy) for change, remedy in tried if remedy and remedy.saving > 0]
    single = [remedy for _, remedy in found]
    if not plan.fits and not any(remedy.fits for remedy in single):
        ordered = [change for change, _ in sorted(found, key=lambda pair: _rank(pair[1]))]
        single += _pairs(plan, candidate, ordered)
    return tuple(sorted(single, key=_rank))


# Of the best changes, how many are tried in pairs: planning takes a while.
_PAIRED = 4


def _pairs(plan: Plan, candidate: Candidate, best: list[Change]) -> list[Remedy]:
    """The best pair that suffices, if one does."""
    found = []
    for first, second in itertools.combinations(best[:_PAIRED], 2):
        if first.kind == second.kind:
            continue
        remedy = _tried(plan, candidate, first.then(second))
        if remedy and remedy.fits:
            found.append(remedy)
    return sorted(found, key=_rank)[:1]


def _tried(plan: Plan, candidate: Candidate, change: Change) -> Remedy | None:
    """Plans a change; None if it cannot be made."""
    try:
        changed = change.apply(candidate)
        if changed is None:
            return None
        after = changed.plan()
    except ValueError:
        return None
    before = throughput.cycles_per_item(plan)
    ratio = throughput.cycles_per_item(after) / before if before else None
    return Remedy(
        changed.name or change.name,
        changed.instruction or change.instruction,
        plan.fullest.worst_bytes - after.fullest.worst_bytes,
        max(ipu.total for ipu in plan.memory) - max(ipu.total for ipu in after.memory),
        after.fullest.worst_bytes,
        after.fits,
        ratio,
        throughput.memory_label(after),
        after,
    )


def _rank(remedy: Remedy) -> tuple[int, float, int, str]:
    if remedy.fits:
        ratio = float("inf") if remedy.cycles_ratio is None else round(remedy.cycles_ratio, 6)
        return 0, ratio, -remedy.saving, remedy.name
    return 1, 0.0, -remedy.saving, remedy.name
