"""`Finding`: the result of a check, with advice."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Level(enum.Enum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # programs run, perhaps not as their user thinks
    PROBLEM = "problem"  # programs do not run


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        subject: Subject of the check.
        level: Its severity.
        text: The result in words.
        mend: A shell command that corrects it; empty if there is none.
    """

    subject: str
    level: Level
    text: str
    mend: str = ""


def worst(found: Iterable[Finding]) -> Level:
    """Returns the level of the worst finding."""
    levels = {finding.level for finding in found}
    return next((level for level in reversed(Level) if level in levels), Level.OK)


def to_text(found: Sequence[Finding]) -> str:
    """Returns a line for each finding and each correcting command, and a summary line."""
    width = max(len(finding.subject) for finding in found)
    lines = []
    for finding in found:
        lines.append(f"{finding.level.value:<7}  {finding.subject:<{width}}  {finding.text}")
        if finding.mend:
            lines.append(f"{'':<7}  {'':<{width}}    {finding.mend}")
    counts = {
        level: sum(finding.level is level for finding in found)
        for level in (Level.PROBLEM, Level.WARNING)
    }
    return "\n".join([*lines, "", ", ".join(_counted(*item) for item in counts.items())])


def to_dict(found: Sequence[Finding]) -> dict[str, Any]:
    """Returns the findings as data for JSON."""
    return {
        "level": worst(found).value,
        "findings": [finding._asdict() | {"level": finding.level.value} for finding in found],
    }


def _counted(level: Level, number: int) -> str:
    return f"{number or 'no'} {level.value}{'' if number == 1 else 's'}"
