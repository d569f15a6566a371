"""Search for the fastest configuration of a program that fits on some IPUs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from tensorflow_ipu.configs.machine import Machine
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.program.structure import BACKWARD, structure
from tensorflow_ipu.tuning.advice.steps import Guide, RemedyStep
from tensorflow_ipu.tuning.search.best_first import Found, Search
from tensorflow_ipu.tuning.search.candidates import Candidates
from tensorflow_ipu.tuning.search.choices import SUBJECTS, Choices, Space, Trial
from tensorflow_ipu.util.text import aligned, exact_bytes, fitted

# --- Search for the fastest configuration of a program that fits on some IPUs ---

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

    def steps(self) -> tuple[RemedyStep, ...]:
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
    candidates = Candidates(plan.workload, settings, ipus, fewer=True, items=items)
    space = Space(plan.workload, settings, candidates.structure, ipus, subjects)
    search = Search(plan, space, candidates, most_items=most_items, items=items, planned=planned)
    return search, space, Guide(plan, candidates.structure)


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


# --- Text and data of a search for the fastest configuration ---

# Single changes and failures that are shown.
_SINGLES, _FAILURES = 12, 8
_HEAD = ("IPUs", "items/s", "label", "worst tile", "label", "fits", "items/update", "changes")
_RIGHT = (0, 1, 3, 6)

# Columns to leave out first where there is too little room.
_SPARE = ("label", "fits", "items/update")


def to_text(result: Fastest) -> str:
    """Returns the result of a search as text: before and after, changes, alternatives, limits.

    Args:
        result: the result of the search.
    """
    parts = [*_head(result), *_changes(result), *_others(result), *map(fitted, _limits(result))]
    return "\n".join(parts)


def to_dict(result: Fastest) -> dict[str, Any]:
    """Returns the result of a search as plain data for JSON.

    Args:
        result: the result of the search.
    """
    return {
        "now": _figures(result.now),
        "ipus": result.ipus,
        "best": None if result.best is None else _described(result, result.best),
        "others": [_described(result, trial) for trial in result.ranked[1:]],
        "single_changes": [_described(result, trial) for trial in _singles(result)],
        "plans": len(result.found.trials),
        "combinations": result.combinations,
        "seen_and_not_planned": result.found.left,
        "impossible": list(result.found.failures),
        "nothing_to_change": dict(result.omitted),
        "tried_ipus": list(result.tried_ipus),
        "kept_items_of_an_update": result.items,
    }


def _figures(trial: Trial) -> dict[str, Any]:
    """Returns the numbers of a configuration."""
    return {
        "ipus": trial.ipus,
        "replicas": trial.plan.settings.replicas,
        "items_per_second": trial.speed,
        "time_label": trial.time_label.value,
        "worst_bytes": trial.worst,
        "capacity": int(trial.plan.fullest.capacity),
        "memory_label": trial.memory_label.value,
        "fits": trial.fits,
        "items_of_an_update": trial.update_items,
        "cycles": trial.plan.timeline.cycles,
    }


def _described(result: Fastest, trial: Trial) -> dict[str, Any]:
    """Returns the numbers of a configuration and the steps to it."""
    steps = [
        {"name": step.name, "options": dict(step.options), "lines": list(step.lines)}
        for step in result.guide.steps(trial)
    ]
    return {**_figures(trial), "choices": dict(trial.choices.items()), "steps": steps}


def _head(result: Fastest) -> Iterator[str]:
    """Yields the lines before and after."""
    for ipus in result.tried_ipus:
        yield f"Nothing that was planned fits on {ipus} IPU{'s'[: ipus != 1]}."
    rows = [("", *_HEAD[:-1]), ("now", *_row(result.now))]
    if result.best is not None:
        rows.append(("best", *_row(result.best)))
    yield from aligned(rows, [1 + place for place in _RIGHT], _SPARE)
    if result.best is None:
        yield f"Nothing that was planned fits on {result.ipus} IPU{'s'[: result.ipus != 1]}."
    elif not result.best.choices.made():
        yield "Nothing that was planned is faster and fits."


def _row(trial: Trial) -> tuple[str, ...]:
    return (
        str(trial.ipus),
        f"{trial.speed:,.1f}",
        trial.time_label.value,
        exact_bytes(trial.worst),
        trial.memory_label.value,
        "yes" if trial.fits else "no",
        f"{trial.update_items:,}",
    )


def _changes(result: Fastest) -> Iterator[str]:
    """Yields the steps to the best configuration."""
    for place, step in enumerate(result.steps(), 1):
        if place == 1:
            yield "\nChanges:"
        yield f"  {place}. {step.name}"
        yield from (f"     {line}" for line in step.text.splitlines())


def _others(result: Fastest) -> Iterator[str]:
    """Yields tables of other configurations that fit, and of single changes."""
    others = result.ranked[1:]
    if others:
        yield "\nOthers that fit:"
        yield from _table(result, others)
    singles = _singles(result)
    if singles:
        yield "\nChanges alone:"
        yield from _table(result, singles)


def _singles(result: Fastest) -> list[Trial]:
    """Returns single changes that save memory or time: first those that fit, then by bytes."""
    now = result.now
    found = [
        trial
        for trial in result.found.trials.values()
        if len(trial.choices.made()) == 1
        and (trial.worst < now.worst or (trial.fits and trial.speed > now.speed))
    ]
    found.sort(key=lambda t: (not t.fits, -t.speed if t.fits else t.worst))
    return found[:_SINGLES]


def _table(result: Fastest, trials: Iterable[Trial]) -> list[str]:
    rows = [_HEAD]
    for trial in trials:
        names = ", ".join(step.name for step in result.guide.steps(trial))
        rows.append((*_row(trial), names or "as it is"))  # type: ignore[arg-type]
    return ["  " + line for line in aligned(rows, _RIGHT, _SPARE, wrap=True)]


def _limits(result: Fastest) -> Iterator[str]:
    """Yields the number of combinations planned and not planned, and the reasons."""
    yield (
        f"\nPlanned {len(result.found.trials):,} of at most {result.combinations:,} combinations "
        f"for {result.ipus} IPU{'s'[: result.ipus != 1]}; seen and not planned: "
        f"{result.found.left:,}."
    )
    if result.items is not None:
        yield (
            f"An update keeps its {result.items:,} elements of data, and the model learns as it "
            "does: --most-items N allows others."
        )
    for name, reason in result.omitted.items():
        yield f"Nothing to change of {name}: {reason}."
    failures = list(result.found.failures)
    for reason in failures[:_FAILURES]:
        yield f"Not possible: {reason}"
    if len(failures) > _FAILURES:
        yield f"and {len(failures) - _FAILURES} more that are not possible"
