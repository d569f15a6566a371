"""Finds the fastest configuration of a program that fits on some IPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.planner.alternatives.search.best_first import Found, Search
from tensorflow_ipu.planner.alternatives.search.choices import SUBJECTS, Choices
from tensorflow_ipu.planner.alternatives.search.maker import Maker
from tensorflow_ipu.planner.alternatives.search.space import Space
from tensorflow_ipu.planner.alternatives.search.steps import Guide
from tensorflow_ipu.planner.alternatives.search.trial import Trial
from tensorflow_ipu.planner.alternatives.words import Step
from tensorflow_ipu.planner.plan import Plan

# Plans of a search: so many ops may be planned in all, which takes about half a minute.
_OPS, _FEWEST, _MOST = 600_000, 30, 200
# Configurations that are returned.
_SHOWN = 6


@dataclasses.dataclass(frozen=True)
class Fastest:
    """What a search for the fastest configuration has found.

    Attributes:
        now: The program as it is.
        ipus: How many IPUs it is for.
        found: All that was planned.
        ranked: The best configurations that fit, best first, without those that only add changes
            to a better one.
        guide: Says how to get a configuration.
        omitted: Why nothing of a subject can be changed, by its name.
        combinations: How many combinations of changes there are at most.
        tried_ipus: Numbers of IPUs on which nothing was found to fit.
    """

    now: Trial
    ipus: int
    found: Found
    ranked: tuple[Trial, ...]
    guide: Guide = dataclasses.field(repr=False)
    omitted: Mapping[str, str]
    combinations: int
    tried_ipus: tuple[int, ...] = ()

    @property
    def best(self) -> Trial | None:
        """The fastest configuration that fits; None if none does."""
        return self.ranked[0] if self.ranked else None

    def steps(self) -> tuple[Step, ...]:
        """Returns the changes that lead to the best configuration."""
        return () if self.best is None else self.guide.steps(self.best)


def fastest(
    plan: Plan,
    ipus: int | None = None,
    plans: int | None = None,
    subjects: Collection[str] = SUBJECTS,
    most_items: int | None = None,
) -> Fastest:
    """Searches the fastest configuration of a program that fits.

    Args:
        plan: of the program.
        ipus: how many IPUs there are for all replicas; None for those that it has, or twice, four
            times ... as many if nothing fits on them.
        plans: how many plans to make at most, for each number of IPUs; None for as many as take
            about half a minute.
        subjects: what may be changed.
        most_items: elements of data that a weight update may be made of; None for any number.

    Returns:
        What was found, the same each time.

    Raises:
        ValueError: there are fewer IPUs than instances, more than machines have, or no such
            subject.
    """
    instances = plan.settings.instances
    most = Machine(plan.settings.chip).num_ipus * instances
    _check(ipus, instances, most, subjects)
    budget = budget_of(plan) if plans is None else plans
    now = Trial(Choices(), plan)
    number = ipus if ipus is not None else min(most, now.ipus)
    without: list[int] = []
    while True:
        search, space, guide = _search(plan, number, subjects, most_items)
        found = search.run(budget)
        ranked = tuple(search.different(_SHOWN))
        if ranked or ipus is not None or number * 2 > most:
            return Fastest(
                now, number, found, ranked, guide, space.omitted, space.size, tuple(without)
            )
        without.append(number)
        number *= 2


def budget_of(plan: Plan) -> int:
    """Returns how many plans a search makes at most, unless it is told.

    Args:
        plan: of the program.
    """
    return min(_MOST, max(_FEWEST, _OPS // max(1, len(plan.workload.ops))))


def _search(
    plan: Plan, ipus: int, subjects: Collection[str], most_items: int | None
) -> tuple[Search, Space, Guide]:
    settings = plan.settings
    maker = Maker(plan.workload, settings, ipus, fewer=True)
    space = Space(plan.workload, settings, maker.structure, ipus, subjects)
    search = Search(plan, space, maker, most_items=most_items)
    return search, space, Guide(plan, maker.structure)


def _check(ipus: int | None, instances: int, most: int, subjects: Collection[str]) -> None:
    """Checks what a search is asked for."""
    if ipus is not None and not instances <= ipus <= most:
        raise ValueError(
            f"Expected {instances} to {most} IPUs for {instances} instance(s) of the program, "
            f"received {ipus}."
        )
    for name in subjects:
        if name not in SUBJECTS:
            raise ValueError(f"Unknown change {name!r}: choose from {', '.join(SUBJECTS)}.")
