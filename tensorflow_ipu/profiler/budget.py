"""Budgets: limits on a program's memory and time, kept in a file beside its tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu.configs.ranges import FOLDER
from tensorflow_ipu.profiler import json_schema
from tensorflow_ipu.profiler.comparison import Difference, Snapshot, differences, format_changes
from tensorflow_ipu.util import private_files

SCHEMA_VERSION = 1

# How much more than the budget is let pass unless the budget says otherwise, in percent.
_DEFAULT_TOLERANCE = 0.0
_PERCENT = 100

_LIMIT = {"type": "number", "minimum": 0, "maximum": 1e300}
_LIMITS = {"type": "object", "additionalProperties": _LIMIT}
_PROPERTIES: dict[str, Any] = {
    "schema_version": {"type": "integer", "enum": [SCHEMA_VERSION]},
    "report": {"type": "string"},
    "tolerance_percent": _LIMIT,
    "limits": _LIMITS,
    "layers": {"type": "object", "additionalProperties": _LIMITS},
}

#: The schema of budgets, in the words of JSON Schema (draft 7).
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schema_version", "limits"],
    "properties": _PROPERTIES,
    "propertyNames": {"enum": list(_PROPERTIES)},
}
_ADVICE = "Make one with `tensorflow-ipu check BUDGET --report FILE --update`."


class Budget(NamedTuple):
    """Upper limits for the numbers of a report.

    Args:
        limits: upper limit of each number of the whole program; others are free.
        layers: the same for layers; layers that are not named are free.
        tolerance: allowed excess over each limit, in percent.
        report: file of the report that the budget is for, relative to the budget's folder; empty
            when it is given at each check.
    """

    limits: Mapping[str, float]
    layers: Mapping[str, Mapping[str, float]]
    tolerance: float = _DEFAULT_TOLERANCE
    report: str = ""


class Verdict(NamedTuple):
    """The result of a check.

    Args:
        exceeded: limits that were exceeded, of the program and of layers.
        unknown: names of limits for which the report has no number.
    """

    exceeded: tuple[Difference, ...]
    unknown: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the report keeps to the budget."""
        return not self.exceeded and not self.unknown


def of_snapshot(snapshot: Snapshot, tolerance: float = _DEFAULT_TOLERANCE) -> Budget:
    """Returns the budget whose limits are the numbers of a report.

    Args:
        snapshot: the numbers of the report.
        tolerance: allowed excess over each limit, in percent.

    Raises:
        ValueError: If the tolerance is no number from 0.
    """
    json_schema.check(tolerance, _LIMIT, "tolerance_percent")
    return Budget(
        dict(snapshot.totals), {k: dict(v) for k, v in snapshot.layers.items()}, tolerance
    )


def check(budget: Budget, snapshot: Snapshot) -> Verdict:
    """Compares a report with a budget.

    Args:
        budget: the limits.
        snapshot: the numbers of the report.

    Returns:
        The numbers beyond their limits. Layers of the budget that the program does not have are no
        growth; a number that the report does not have is a mistake in the budget.
    """
    limits = Snapshot(budget.limits, budget.layers)
    factor = 1 + budget.tolerance / _PERCENT
    exceeded = [
        change
        for change in differences(limits, snapshot)
        if change.before is not None
        and change.after is not None
        and change.after > change.before * factor
    ]
    unknown = [name for name in budget.limits if name not in snapshot.totals]
    for layer, numbers in snapshot.layers.items():
        unknown += [
            f"{layer}: {name}" for name in budget.layers.get(layer, ()) if name not in numbers
        ]
    return Verdict(tuple(exceeded), tuple(unknown))


def format_verdict(verdict: Verdict) -> str:
    """Returns a verdict as text: the exceeded limits, or one line if there are none.

    Args:
        verdict: the result of a check.
    """
    if verdict.passed:
        return "within budget"
    parts = []
    if verdict.exceeded:
        parts.append(f"over budget (before: the limit)\n{format_changes(verdict.exceeded)}")
    if verdict.unknown:
        parts.append(
            "the report has no such numbers, so remove their limits: " + ", ".join(verdict.unknown)
        )
    return "\n".join(parts)


def load(path: str | Path) -> Budget:
    """Reads a budget.

    Args:
        path: its file, JSON with `limits` and, each optional, `layers`, `tolerance_percent` and
            `report`.

    Raises:
        OSError: If there is no such file.
        ValueError: If it is not a budget.
    """
    data = json_schema.read(path, "a budget", _ADVICE)
    try:
        json_schema.check(data, SCHEMA, "budget")
        FOLDER.check("budget.report", data.get("report", ""))
    except ValueError as error:
        raise ValueError(f"{path} is not a budget: {error}. {_ADVICE}") from None
    return Budget(
        data["limits"],
        data.get("layers", {}),
        data.get("tolerance_percent", _DEFAULT_TOLERANCE),
        data.get("report", ""),
    )


def save(budget: Budget, path: str | Path) -> None:
    """Writes a budget.

    Args:
        budget: the limits.
        path: file to write.
    """
    data: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    if budget.report:
        data["report"] = budget.report
    data |= {
        "tolerance_percent": budget.tolerance,
        "limits": dict(budget.limits),
        "layers": {name: dict(limits) for name, limits in budget.layers.items()},
    }
    private_files.write_text(path, json.dumps(data, indent=2) + "\n")
