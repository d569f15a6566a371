"""Text and data of a search for the fastest configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tensorflow_ipu.tuning.advice.capacity_text import number
from tensorflow_ipu.tuning.advice.fastest import Fastest
from tensorflow_ipu.tuning.search.trial import Trial
from tensorflow_ipu.util.text import aligned, fitted

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
        number(trial.worst),
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
