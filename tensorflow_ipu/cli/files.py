"""Finds the report that a command is given, as a file or in a folder."""

from __future__ import annotations

from pathlib import Path

from tensorflow_ipu.profiler.report import Report

#: Name of a report in its folder.
REPORT = "report.json"


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
        )
    names = ", ".join(str(file.parent) for file in inside)
    raise ValueError(f"{path} has {len(inside)} reports, name one of them: {names}.")
