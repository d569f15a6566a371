"""Profiles that C++ programs write with `autoReport`: JSON in a `profile.pop`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

#: The name of the file in the directory of the option autoReport.directory.
FILE = "profile.pop"

_FORMAT = b'"format":"tensorflow_ipu poplar profile"'


class Profile(NamedTuple):
    """A profile of a Poplar program.

    Args:
        json: all of it.
        summary: its text, as `Engine::printProfileSummary` prints it.
    """

    json: str
    summary: str


def read(path: str) -> Profile | None:
    """Returns the profile of a Poplar program, or None if the file is another report.

    Args:
        path: a `profile.pop`, or the directory with it.
    """
    file = Path(path)
    if file.is_dir():
        file /= FILE
    if not file.is_file():
        return None
    data = file.read_bytes()
    if _FORMAT not in data:
        return None
    text = data.decode()
    return Profile(text, json.loads(text)["summary"].rstrip())
