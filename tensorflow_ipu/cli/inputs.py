"""Arguments of several commands: numbers with their ranges, and reports."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from tensorflow_ipu.cli.console import suggestion
from tensorflow_ipu.configs.ranges import shown
from tensorflow_ipu.profiler.report import Report

# --- Numbers ---

# Larger sizes, or numbers of bytes made of them, exceed the range of plans.
_MOST = 10**12

# The schedule of a pipeline is made for each mini-batch: more would take minutes and gigabytes.
_MOST_MINI_BATCHES = 100_000


def whole(text: str) -> int:
    """Reads a whole number in the range of plans.

    Args:
        text: the text of the argument.

    Raises:
        argparse.ArgumentTypeError: it is no whole number, or too large.
    """
    return _at_most(text, _MOST)


def some(text: str) -> int:
    """Reads a whole number from 1; see `whole`."""
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {number}")
    return number


def count(text: str) -> int:
    """Reads a number of mini-batches; see `whole`."""
    return _at_most(text, _MOST_MINI_BATCHES)


def _at_most(text: str, most: int) -> int:
    """Reads a whole number with an upper limit."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {shown(text)}") from None
    if number > most:
        raise argparse.ArgumentTypeError(f"expected at most {most:,}, got {shown(number)}")
    return number


# --- Reports ---

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
