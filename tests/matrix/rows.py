"""Rows of the matrix: pairs of a TensorFlow and a Python, and where that Python is."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.import_hook.versions.releases import RELEASES, Release, default_for, newest_for

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")


class Row(NamedTuple):
    """One environment.

    Attributes:
        release: the TensorFlow.
        python: the Python, such as "3.12".
    """

    release: Release
    python: str

    @property
    def name(self) -> str:
        """Returns the row's name in folders, patterns and messages."""
        return f"{self.release.tensorflow}-py{self.python}"


def rows(patterns: str) -> list[Row]:
    """Returns the rows to run, from the oldest TensorFlow on.

    Args:
        patterns: patterns of names, such as "2.15-* 2.21-py3.13"; without one, each Python with the
            TensorFlow that a checkout takes, and each TensorFlow with its newest Python.

    Raises:
        ValueError: a pattern fits no row.
    """
    every = [Row(release, python) for release in RELEASES for python in _pythons(release)]
    chosen = patterns.split()
    for pattern in chosen:
        if not fnmatch.filter([row.name for row in every], pattern):
            names = ", ".join(row.name for row in every)
            raise ValueError(f"MATRIX_ROWS={pattern!r} fits none of these: {names}.")
    if chosen:
        return [row for row in every if any(fnmatch.fnmatch(row.name, p) for p in chosen)]
    return [row for row in every if _is_default(row)]


def interpreter(python: str) -> str | None:
    """Returns the path of a Python on this machine, or None.

    Args:
        python: its version, such as "3.12".
    """
    name = f"python{python}"
    root = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    installed = sorted(Path(root, "versions").glob(f"{python}.*/bin/python"), reverse=True)
    for candidate in (shutil.which(name), *map(str, installed)):
        # One of pyenv's own may be there and refuse to run.
        if candidate and _runs(candidate, python):
            return candidate
    return None


def newest() -> tuple[str, str]:
    """Returns the newest TensorFlow for the newest Python on this machine, and the path of that.

    Raises:
        LookupError: there is no Python that has one.
    """
    for python in reversed(PYTHONS):
        path, release = interpreter(python), newest_for(_numbers(python))
        if path is not None and release is not None:
            return release.tensorflow, path
    raise LookupError(f"There is none of these here: Python {', '.join(PYTHONS)}.")


def _pythons(release: Release) -> list[str]:
    return [python for python in PYTHONS if release.has_python(_numbers(python))]


def _is_default(row: Row) -> bool:
    of_checkout = default_for(_numbers(row.python))
    return row.release == of_checkout or row.python == _pythons(row.release)[-1]


def _numbers(python: str) -> tuple[int, ...]:
    return tuple(int(part) for part in python.split("."))


def _runs(candidate: str, python: str) -> bool:
    code = f"import ensurepip, sys; sys.exit(sys.version_info[:2] != {_numbers(python)!r})"
    return subprocess.run([candidate, "-c", code], capture_output=True).returncode == 0
