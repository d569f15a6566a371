"""`what_if`: plans a program with other settings, without running it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.planner.workload import Workload
from tensorflow_ipu.tuning import variations
from tensorflow_ipu.tuning.advice.capacity import number
from tensorflow_ipu.util.text import aligned, fitted

#: Most combinations of one call. Each is a plan, which takes up to seconds for a large program.
MOST = 256


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Figures for one combination of changes. Numbers are None where it is not possible.

    Attributes:
        changes: The changes by name.
        worst: Bytes on the fullest tile.
        capacity: Bytes that a tile can hold.
        fits: Whether no tile exceeds its memory.
        cycles: Of one launch.
        seconds: Of one launch.
        items_per_second: Elements of data of all replicas per second.
        range_per_second: Range of these in which eight of ten measured programs lie.
        ipus: IPUs of all replicas, rounded up to a device's powers of two.
        bubble_share: Idle share of a pipeline's IPU time, 0 to 1; None without a pipeline.
        label: Label of the numbers.
        error: Why the combination is not possible; empty if it is.
    """

    changes: Mapping[str, Any]
    worst: int | None = None
    capacity: int | None = None
    fits: bool | None = None
    cycles: float | None = None
    seconds: float | None = None
    items_per_second: float | None = None
    range_per_second: tuple[float, float] | None = None
    ipus: int | None = None
    bubble_share: float | None = None
    label: Label = Label.MODELLED
    error: str = ""


def outcomes(
    workload: Workload, settings: Settings, changes: Mapping[str, Sequence[Any]]
) -> tuple[Outcome, ...]:
    """Plans a program with every combination of some changes.

    Args:
        workload: the program.
        settings: the present chip, replicas and options.
        changes: values to try, by the name of a change, one of `variations.NAMES`.

    Returns:
        An outcome for each combination, the last change varying fastest.

    Raises:
        ValueError: there is no such change, a change has no values or one that is never possible,
            or there are more than `MOST` combinations.
    """
    checked = variations.checked(changes)
    total = 1
    for values in checked.values():
        total *= len(values)
    if total > MOST:
        sizes = " x ".join(f"{len(values)} {name}" for name, values in checked.items())
        raise ValueError(
            f"Expected at most {MOST} combinations, received {total}: {sizes}. Ask for fewer."
        )
    combinations = [dict(zip(checked, values)) for values in itertools.product(*checked.values())]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, combination in enumerate(combinations):
        groups.setdefault(variations.same_program(combination), []).append(index)
    found: dict[int, Outcome] = {}
    for indices in groups.values():
        members = [combinations[index] for index in indices]
        found.update(zip(indices, _of_one_program(workload, settings, members)))
    return tuple(found[index] for index in range(total))


def to_dicts(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Returns outcomes as plain data for JSON.

    Args:
        found: the outcomes.
    """
    return [
        {
            **{field.name: getattr(outcome, field.name) for field in dataclasses.fields(Outcome)},
            "changes": dict(outcome.changes),
            "label": outcome.label.value,
        }
        for outcome in found
    ]


def to_text(found: Sequence[Outcome]) -> str:
    """Returns outcomes as a table with a line for each, reasons of impossible ones below it.

    Args:
        found: the outcomes of one call.
    """
    if not found:
        return ""
    names = list(found[0].changes)
    figures = ["IPUs", "worst tile", "fits", "cycles", "ms", "items/s", "range", "bubble", "label"]
    rows = [[*names, *figures]]
    notes: list[str] = []
    for outcome in found:
        cells = [_value(outcome.changes[name]) for name in names]
        if outcome.error:
            if outcome.error not in notes:
                notes.append(outcome.error)
            why = f"not possible [{notes.index(outcome.error) + 1}]"
            rows.append([*cells, "", why, *[""] * (len(figures) - 2)])
        else:
            rows.append([*cells, *_figures(outcome)])
    right = [len(names) + place for place in (0, 1, 3, 4, 5, 6, 7)]
    lines = aligned(rows, right, spare=("label", "bubble", "range", "ms"))
    return "\n".join([*lines, *(fitted(f"[{i}] {note}") for i, note in enumerate(notes, 1))])


def _of_one_program(
    workload: Workload, settings: Settings, combinations: Sequence[Mapping[str, Any]]
) -> Iterator[Outcome]:
    """Plans combinations that make the same program."""
    planner = None
    for changes in combinations:
        try:
            target = variations.changed_settings(settings, changes)
            if planner is None:
                changed = variations.changed_program(workload, settings, target, changes)
                planner = Planner(changed)
            plan = planner.plan(target)
        except ValueError as error:
            yield Outcome(changes, error=str(error))
        else:
            yield _outcome(changes, plan)


def _outcome(changes: Mapping[str, Any], plan: Plan) -> Outcome:
    """Returns the figures of a possible combination."""
    return Outcome(
        changes,
        plan.fullest.worst_bytes,
        plan.fullest.capacity,
        plan.fits,
        plan.timeline.cycles,
        plan.timeline.seconds,
        throughput.items_per_second(plan),
        throughput.range_per_second(plan),
        throughput.reserved_ipus(plan.workload.ipus) * plan.settings.replicas,
        plan.timeline.bubble_share,
        worst([throughput.memory_label(plan), plan.timeline.label]),
    )


def _figures(outcome: Outcome) -> list[str]:
    bubble = "" if outcome.bubble_share is None else f"{100 * outcome.bubble_share:.1f} %"
    return [
        str(outcome.ipus),
        number(outcome.worst or 0),
        "yes" if outcome.fits else "no",
        f"{outcome.cycles or 0:,.0f}",
        f"{1000 * (outcome.seconds or 0):.3f}",
        f"{outcome.items_per_second or 0:,.1f}",
        "{:,.0f} - {:,.0f}".format(*(outcome.range_per_second or (0, 0))),
        bubble,
        outcome.label.value,
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
