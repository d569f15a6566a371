"""Search for the fastest configuration of a program that fits on some IPUs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping

from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.sections import BACKWARD
from tensorflow_ipu.planner.program.structure import structure
from tensorflow_ipu.tuning.advice.steps import Guide
from tensorflow_ipu.tuning.advice.words import Step
from tensorflow_ipu.tuning.search.best_first import Found, Search
from tensorflow_ipu.tuning.search.choices import SUBJECTS, Choices
from tensorflow_ipu.tuning.search.maker import Maker
from tensorflow_ipu.tuning.search.space import Space
from tensorflow_ipu.tuning.search.trial import Trial

# Ops that all plans of a search have together, less than ten seconds; fewest and most plans.
_OPS, _FEWEST, _MOST = 90_000, 8, 150
# Configurations that are returned.
_SHOWN = 6


@dataclasses.dataclass(frozen=True)
class Fastest:
    """The result of a search for the fastest configuration.

    Attributes:
        now: The program as it is.
        ipus: Number of IPUs of the search.
        found: All configurations that were planned.
        ranked: The best configurations that fit, best first, without those that only add changes
            to a better one.
        guide: Writes the steps to a configuration.
        omitted: Why nothing of a subject can be changed, by its name.
        combinations: Number of combinations of changes, at most.
        tried_ipus: Numbers of IPUs on which no configuration fits.
        items: Elements of data that a weight update keeps; None where it may have others.
    """

    now: Trial
    ipus: int
    found: Found
    ranked: tuple[Trial, ...]
    guide: Guide = dataclasses.field(repr=False)
    omitted: Mapping[str, str]
    combinations: int
    tried_ipus: tuple[int, ...] = ()
    items: int | None = None

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
    keep_items: bool = False,
    planned: Callable[[int, int, int], None] | None = None,
) -> Fastest:
    """Searches the fastest configuration of a program that fits.

    Args:
        plan: of the program.
        ipus: number of IPUs for all replicas. None: the program's number, doubled until a
            configuration fits.
        plans: limit of plans for each number of IPUs; None for a limit of some seconds.
        subjects: subjects that may be changed.
        most_items: elements of data that a weight update may be made of; None for any number.
        keep_items: whether an update has to be made of as many elements of data as now (the
            effective batch size), so that the model learns the same.
        planned: called after each plan with the number of IPUs, of plans so far, and of all plans
            at most.

    Returns:
        The result, the same for equal arguments.

    Raises:
        ValueError: there are fewer IPUs than instances, more than machines have, or no such
            subject.
    """
    instances = plan.settings.instances
    most = Machine(plan.settings.chip).num_ipus * instances
    _check(ipus, instances, most, subjects)
    if plans is not None and plans < 1:
        raise ValueError(f"plans is a whole number from 1; received {plans}.")
    budget = budget_of(plan) if plans is None else plans
    now = Trial(Choices(), plan)
    items = _kept_items(now) if keep_items else None
    number = ipus if ipus is not None else min(most, now.ipus)
    without: list[int] = []
    while True:
        said = None if planned is None else functools.partial(planned, number)
        search, space, guide = _search(plan, number, subjects, most_items, items, said)
        found = search.run(budget)
        ranked = tuple(search.different(_SHOWN))
        if ranked or ipus is not None or number * 2 > most:
            return Fastest(
                now, number, found, ranked, guide, space.omitted, space.size, tuple(without), items
            )
        without.append(number)
        number *= 2


def budget_of(plan: Plan) -> int:
    """Returns the default limit of plans of a search.

    Args:
        plan: of the program.
    """
    return min(_MOST, max(_FEWEST, _OPS // max(1, len(plan.workload.ops))))


def _kept_items(now: Trial) -> int | None:
    """Returns the elements of data of an update; None for a program that does not train."""
    return now.update_items if BACKWARD in structure(now.plan.workload).sections else None


def _search(
    plan: Plan,
    ipus: int,
    subjects: Collection[str],
    most_items: int | None,
    items: int | None,
    planned: Callable[[int, int], None] | None,
) -> tuple[Search, Space, Guide]:
    settings = plan.settings
    if items is not None:  # the mini-batches of an update follow from the rest
        subjects = [name for name in subjects if name != "count"]
    maker = Maker(plan.workload, settings, ipus, fewer=True, items=items)
    space = Space(plan.workload, settings, maker.structure, ipus, subjects)
    search = Search(plan, space, maker, most_items=most_items, items=items, planned=planned)
    return search, space, Guide(plan, maker.structure)


def _check(ipus: int | None, instances: int, most: int, subjects: Collection[str]) -> None:
    """Raises if the arguments of a search are out of range."""
    if ipus is not None and not instances <= ipus <= most:
        raise ValueError(
            f"Expected {instances} to {most} IPUs for {instances} instance(s) of the program, "
            f"received {ipus}."
        )
    for name in subjects:
        if name not in SUBJECTS:
            raise ValueError(f"Unknown change {name!r}: choose from {', '.join(SUBJECTS)}.")
