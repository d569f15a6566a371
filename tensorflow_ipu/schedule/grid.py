"""The part of a schedule that its text and its picture show: steps, letters, labels, title."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tensorflow_ipu.schedule.modes import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensorflow_ipu.schedule.table import Entry, Schedule

# Letters and meaning of the kinds of work; a fused backward pass is a kind of its own.
FUSED = "RB"
LETTERS = {
    Phase.FORWARD: "F",
    Phase.RECOMPUTE: "R",
    Phase.BACKWARD: "B",
    Phase.UPDATE: "U",
}
MEANINGS = {
    "F": "forward",
    "R": "recompute",
    "B": "backward",
    FUSED: "recompute and backward",
    "U": "weight update",
}


class ShownSteps(NamedTuple):
    """The steps that are shown: before `head`, and from `tail` on.

    Args:
        head: end of the first part.
        tail: start of the second part, the same as `head` if nothing is left out.
        steps: number of steps of the schedule.
    """

    head: int
    tail: int
    steps: int

    @property
    def elided(self) -> int:
        """Number of steps left out."""
        return self.tail - self.head

    def shown(self) -> list[int]:
        """Returns the steps that are shown."""
        return [*range(self.head), *range(self.tail, self.steps)]


def window(schedule: Schedule, max_steps: int) -> ShownSteps:
    """Returns the steps of a schedule to show.

    Args:
        schedule: the schedule.
        max_steps: limit of steps.

    Raises:
        ValueError: If that is less than 2.
    """
    if max_steps < 2:
        raise ValueError(f"max_steps must be at least 2, to show both ends, got {max_steps}.")
    if schedule.steps <= max_steps:
        return ShownSteps(schedule.steps, schedule.steps, schedule.steps)
    head = (max_steps + 1) // 2
    return ShownSteps(head, schedule.steps - (max_steps - head), schedule.steps)


def entries(schedule: Schedule, part: ShownSteps) -> Iterator[Entry]:
    """Yields the entries of the steps that are shown."""
    steps = schedule.table["step"]
    yield from type(schedule)(
        schedule.description, schedule.table[(steps < part.head) | (steps >= part.tail)]
    )


def kind(entry: Entry) -> str:
    """Returns the letters for the kind of work of an entry."""
    return FUSED if entry.fused else LETTERS[entry.phase]


def label(schedule: Schedule, entry: Entry) -> str:
    """Returns the text in the cell of an entry, as in `F3`; `1:F3` if IPUs have many stages."""
    number = "" if entry.phase is Phase.UPDATE else str(entry.mini_batch)
    stage = f"{entry.stage}:" if shares_ipus(schedule) else ""
    return stage + kind(entry) + number


def shares_ipus(schedule: Schedule) -> bool:
    """Returns whether some IPU has more than one stage."""
    ipus = schedule.description.ipus_of_stages
    return sum(map(len, ipus)) > len(schedule.description.ipus)


def title(schedule: Schedule) -> str:
    """Returns the facts of a schedule in one line."""
    description = schedule.description
    each = description.batch_serialization_iterations
    recomputation = description.resolved_recomputation
    facts = [
        _number(description.stages, "stage"),
        _number(len(description.ipus), "IPU"),
        f"count {description.count}" + (f" x {each} serialized" if each > 1 else ""),
        *([_number(description.repeat_count, "execution")] * (description.repeat_count > 1)),
        _number(schedule.steps, "step"),
        f"bubble {100 * schedule.bubble_share:.1f} %",
        f"stash depth per stage {' '.join(map(str, schedule.stash_depths()))}",
        *([recomputation.name] if recomputation else []),
    ]
    purpose = "training" if description.training else "inference"
    return f"{description.schedule.name} {purpose}: {', '.join(facts)}"


def meanings(schedule: Schedule) -> dict[str, str]:
    """Returns the kinds of work that a schedule has, with their meaning."""
    table = schedule.table
    present = {LETTERS[Phase(phase)] for phase in set(table["phase"][~table["fused"]].tolist())}
    present |= {FUSED} if table["fused"].any() else set()
    return {letters: meaning for letters, meaning in MEANINGS.items() if letters in present}


def note(schedule: Schedule) -> str:
    """Returns the meaning of the numbers in the cells."""
    return "number: mini-batch" + (", stage before the colon" if shares_ipus(schedule) else "")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")
