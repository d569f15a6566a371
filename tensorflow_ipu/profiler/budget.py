"""A budget: how much memory and time a program may take, kept in a file beside its tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu import private_files
from tensorflow_ipu.profiler.comparison import Change, differences, format_changes
from tensorflow_ipu.profiler.snapshot import Snapshot

SCHEMA_VERSION = 1

# How much more than the budget is let pass unless the budget says otherwise, in percent.
_DEFAULT_TOLERANCE = 0.0
_PERCENT = 100
_FIELDS = {"schema_version", "report", "tolerance_percent", "limits", "layers"}


class Budget(NamedTuple):
    """Upper limits for the numbers of a report.

    Args:
        limits: what each number of the whole program may be at most; others are free.
        layers: the same for layers; layers that are not named are free.
        tolerance: how much more is let pass, in percent.
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

    exceeded: tuple[Change, ...]
    unknown: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the report keeps to the budget."""
        return not self.exceeded and not self.unknown


def of_snapshot(snapshot: Snapshot, tolerance: float = _DEFAULT_TOLERANCE) -> Budget:
    """Returns the budget that a report uses up exactly.

    Args:
        snapshot: the numbers of the report.
        tolerance: how much more is let pass, in percent.

    Raises:
        ValueError: If the tolerance is no number from 0.
    """
    _check_numbers("budget", {"tolerance_percent": tolerance})
    return Budget(
        dict(snapshot.totals), {k: dict(v) for k, v in snapshot.layers.items()}, tolerance
    )


def check(budget: Budget, snapshot: Snapshot) -> Verdict:
    """Compares a report with a budget.

    Args:
        budget: the limits.
        snapshot: the numbers of the report.

    Returns:
        What grew beyond its limit. Layers of the budget that the program does not have are no
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
    """Returns a verdict as text: what grew, or one line that all is within the budget.

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
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a budget: expected JSON, {error}.") from error
    _check_fields(path, data)
    layers = data.get("layers", {})
    for limits in (data["limits"], *layers.values()):
        _check_numbers(path, limits)
    tolerance = data.get("tolerance_percent", _DEFAULT_TOLERANCE)
    _check_numbers(path, {"tolerance_percent": tolerance})
    return Budget(data["limits"], layers, tolerance, data.get("report", ""))


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


def _check_fields(path: str | Path, data: Any) -> None:
    """Refuses what is not the JSON object of a budget."""
    if not isinstance(data, dict) or not isinstance(data.get("limits"), dict):
        raise ValueError(
            f"{path} is not a budget: expected a JSON object with 'limits', such as "
            '{"schema_version": 1, "limits": {"cycles": 100000}}. '
            "Make one with `tensorflow-ipu check BUDGET --report FILE --update`."
        )
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has schema_version {version!r}, but this release reads {SCHEMA_VERSION}. Make "
            "it again with `tensorflow-ipu check BUDGET --report FILE --update`."
        )
    unknown = sorted(set(data) - _FIELDS)
    if unknown:
        raise ValueError(f"{path} has unknown fields {unknown}: expected {sorted(_FIELDS)}.")
    if not isinstance(data.get("report", ""), str):
        raise ValueError(
            f"{path}: 'report' must be the file of a report in quotes, got {data['report']!r}."
        )
    layers = data.get("layers", {})
    if not isinstance(layers, dict) or not all(isinstance(v, dict) for v in layers.values()):
        raise ValueError(f"{path}: 'layers' must map the name of each layer to its limits.")


def _check_numbers(path: str | Path, limits: Mapping[str, Any]) -> None:
    """Refuses limits that are no numbers from 0, or larger than what a float can hold."""
    for name, limit in limits.items():
        if (
            isinstance(limit, bool)
            or not isinstance(limit, (int, float))
            or not 0 <= limit <= sys.float_info.max
        ):
            # Whole numbers of thousands of digits cannot be printed.
            got = "a larger one" if isinstance(limit, int) and limit > 0 else repr(limit)
            raise ValueError(
                f"{path}: the limit {name!r} must be a number from 0 to {sys.float_info.max:.0e}, "
                f"got {got}."
            )
