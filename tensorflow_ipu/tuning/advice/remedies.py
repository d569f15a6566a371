"""Remedies for a lack of memory, each with the saving found by planning again."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.tuning.advice.steps import Guide
from tensorflow_ipu.tuning.search import best_first
from tensorflow_ipu.tuning.search.candidates import Candidates
from tensorflow_ipu.tuning.search.choices import SUBJECTS, Choices, Space, Trial

# What saves no memory by itself.
_NO_REMEDY = ("replicas", "partials", "count")
# What is always planned alone, in a program of any size: what changes no more than the rounding of
# results, and what a user tries first.
_ALWAYS = ("recompute", "optimizer_state", "activations", "schedule", "batch")
# Plans for remedies: so many ops may be planned in all, which takes about a second. A few plans are
# made of any program.
_OPS, _FEWEST, _MOST = 15_000, 2, 24
# Combinations that are shown, besides single changes.
_COMBINATIONS = 3


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change of the user's program that saves memory, or several of them.

    Attributes:
        name: Name of the change.
        instruction: Lines to write in the program.
        saving: Bytes less on the worst tile of all IPUs.
        total_saving: Bytes less on the fullest IPU, all tiles.
        worst: Bytes on the worst tile then.
        fits: Whether the program fits then.
        cycles_ratio: IPU cycles for each element of data then, over those now; waiting IPUs count.
            None where that could not be modelled.
        label: Label of the bytes.
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

    @property
    def ratio_range(self) -> tuple[float, float] | None:
        """Range of `cycles_ratio` in which eight of ten measurements of the changed program lie."""
        if self.cycles_ratio is None:
            return None
        return throughput.interval(self.plan).of_time(self.cycles_ratio)


class Findings(NamedTuple):
    """Changes that make a program need less memory, and the subjects that were not tried.

    Args:
        remedies: the changes, those that suffice first.
        untried: subjects of `SUBJECTS` that could be changed, and of which no change was planned
            alone.
    """

    remedies: tuple[Remedy, ...]
    untried: tuple[str, ...]


def remedies(plan: Plan, plans: int | None = None) -> tuple[Remedy, ...]:
    """Finds changes that make a program need less memory: see `search`.

    Args:
        plan: of the program.
        plans: as for `search`.
    """
    return search(plan, plans).remedies


def search(plan: Plan, plans: int | None = None) -> Findings:
    """Finds changes that make a program need less memory.

    Single changes and combinations of them are planned anew, so a saving is net of its cost
    elsewhere.

    Args:
        plan: of the program.
        plans: limit of plans. None: about a second, besides the changes that are always tried:
            recomputation, offloading, schedules, smaller batches.

    Returns:
        The changes that save bytes on the worst tile. First come single changes and the best
        combinations that make the program fit, by cycles, then by saving. Then come single changes
        that do not suffice, by saving.
    """
    if not plan.workload.ops:
        return Findings((), ())
    if plans is None:
        return _latest(plan)
    return _search(plan, plans, ())


class _Latest:
    """The findings of the plan that was searched last: for its error and for its report."""

    def __init__(self) -> None:
        self._plan: weakref.ref[Plan] | None = None
        self._findings: Findings | None = None

    def __call__(self, plan: Plan) -> Findings:
        """Searches with the usual number of plans, unless this plan was the last."""
        if self._findings is None or self._plan is None or self._plan() is not plan:
            self._findings = _search(plan, budget_of(plan), _ALWAYS)
            self._plan = weakref.ref(plan, self._forget)
        return self._findings

    def _forget(self, _: object) -> None:
        """Drops the findings when the plan goes; at exit, the names of this module have gone."""
        self._plan = self._findings = None


_latest = _Latest()


def _search(plan: Plan, budget: int, always: Sequence[str]) -> Findings:
    """Searches with a number of plans, and with one for each of some subjects."""
    settings = plan.settings
    ipus = Machine(settings.chip).num_ipus * settings.instances
    candidates = Candidates(plan.workload, settings, ipus)
    subjects = [name for name in SUBJECTS if name not in _NO_REMEDY]
    space = Space(plan.workload, settings, candidates.structure, ipus, subjects, saving=True)
    searched = best_first.Search(plan, space, candidates, per_ipu=True)
    searched.run(budget, always)
    guide = Guide(plan, candidates.structure)
    found = sorted((_remedy(plan, guide, t) for t in _chosen(plan, searched)), key=_rank)
    return Findings(tuple(found), _untried(space, searched))


def budget_of(plan: Plan) -> int:
    """Returns the default limit of plans for remedies of a program.

    Args:
        plan: of the program.
    """
    return min(_MOST, max(_FEWEST, _OPS // max(1, len(plan.workload.ops))))


def _untried(space: Space, searched: best_first.Search) -> tuple[str, ...]:
    """Returns the subjects of which no single change was planned."""
    seen = [*searched.found.trials, *searched.found.failures.values()]
    tried = {choices.made()[0] for choices in seen if len(choices.made()) == 1}
    possible = dict.fromkeys(subject for subject, _ in space.neighbors(Choices()))
    return tuple(subject for subject in possible if subject not in tried)


def _chosen(plan: Plan, search: best_first.Search) -> list[Trial]:
    """Returns the best single changes, and the best combinations."""
    saving = [t for t in search.found.trials.values() if t.worst < plan.fullest.worst_bytes]
    chosen: dict[object, Trial] = {}

    def order(trial: Trial) -> tuple[int, float]:
        return (0, -search.value(trial)) if trial.fits else (1, trial.worst)

    for trial in saving:
        if len(trial.choices.made()) != 1:
            continue
        ((subject, value),) = trial.choices.items()
        # Of numbers the best one; where things are kept has names.
        key = (subject, value) if isinstance(value, str) else subject
        if key not in chosen or order(trial) < order(chosen[key]):
            chosen[key] = trial
    enough = [search.value(t) for t in chosen.values() if t.fits]
    combined = [
        t
        for t in search.different(_COMBINATIONS + len(enough))
        if len(t.choices.made()) > 1 and t in saving and search.value(t) > max(enough, default=0)
    ]
    return [*chosen.values(), *combined[:_COMBINATIONS]]


def _remedy(plan: Plan, guide: Guide, trial: Trial) -> Remedy:
    """Returns a configuration as a remedy: savings, cycles, and steps to it."""
    after, steps = trial.plan, guide.steps(trial)
    before = throughput.cycles_per_item(plan)
    return Remedy(
        " and ".join(step.name for step in steps),
        "\n".join(step.text for step in steps),
        plan.fullest.worst_bytes - after.fullest.worst_bytes,
        max(ipu.total for ipu in plan.memory) - max(ipu.total for ipu in after.memory),
        trial.worst,
        trial.fits,
        throughput.cycles_per_item(after) / before if before else None,
        trial.memory_label,
        after,
    )


def _rank(remedy: Remedy) -> tuple[int, float, int, str]:
    if remedy.fits:
        ratio = float("inf") if remedy.cycles_ratio is None else round(remedy.cycles_ratio, 6)
        return 0, ratio, -remedy.saving, remedy.name
    return 1, 0.0, -remedy.saving, remedy.name
