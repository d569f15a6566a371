"""Search for the report that a command is given, as a file or in a folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tensorflow_ipu.cli.parsing import suggestion
from tensorflow_ipu.profiler.report import Report

#: Name of a report in its folder.
REPORT = "report.json"


# Reports that are named at most.
_NAMED = 6


def load(path: str) -> Report:
    """Reads a report.

    Args:
        path: a report, its folder, or a folder with the folder of one report in it.

    Raises:
        OSError: If there is no such file.
        ValueError: If it is no report, or the folder has none or several.
    """
    return Report.load(find(path))


def find(path: str) -> Path:
    """Returns the file of a report: see `load`."""
    given = Path(path)
    if not given.exists():
        there = [each.name for each in given.parent.glob("*.json")]
        meant = suggestion(given.name, there)
        raise FileNotFoundError(
            f"{path}: no such report or folder{meant or '.'}{'' if meant else _nearby(given)}"
        )
    if not given.is_dir():
        return given
    if (given / REPORT).is_file():
        return given / REPORT
    inside = sorted(given.glob(f"*/{REPORT}"))
    if len(inside) == 1:
        return inside[0]
    if not inside:
        raise ValueError(
            f"{path} has no {REPORT}. Give a report, or the folder that autoReport.directory named."
            f"{_nearby(given)}"
        )
    names = ", ".join(str(file.parent) for file in inside)
    raise ValueError(f"{path} has {len(inside)} reports, name one of them: {names}.")


def _nearby(given: Path) -> str:
    """Returns the reports near a path and in the current folder, newest first, as a sentence."""
    folders = dict.fromkeys(folder for folder in (given.parent, Path()) if folder.is_dir())
    found: dict[Path, float] = {}
    for folder in folders:
        for pattern in (REPORT, f"*/{REPORT}", f"*/*/{REPORT}"):
            with contextlib.suppress(OSError):
                found.update((file, file.stat().st_mtime) for file in folder.glob(pattern))
    newest = sorted(found, key=lambda file: -found[file])
    if not newest:
        return (
            " There are none nearby: programs write them with POPLAR_ENGINE_OPTIONS="
            '\'{"autoReport.all": "true", "autoReport.directory": "reports"}\'.'
        )
    more = f" and {len(newest) - _NAMED} more" if len(newest) > _NAMED else ""
    return f" Reports nearby: {', '.join(str(file.parent) for file in newest[:_NAMED])}{more}."
