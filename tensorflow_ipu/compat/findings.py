"""Findings of a migration: what to change in a file of a program."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.compat.bindings import Uses
from tensorflow_ipu.compat.edits import Edit, SourceText
from tensorflow_ipu.compat.generation import Generation


class Finding(NamedTuple):
    """A change to make in a file, with the reason.

    Args:
        line: number of the line.
        what: what is there.
        mend: what to write in its place, or to do.
        why: what has become of it.
        edits: the changes; none where it is for the user to make them.
    """

    line: int
    what: str
    mend: str
    why: str
    edits: tuple[Edit, ...]

    def text(self, path: Path) -> str:
        """Returns one line about it."""
        by_hand = "" if self.edits else " (by hand)"
        return f"{path}:{self.line}: {self.what}: {self.mend}{by_hand} [{self.why}]"


class File(NamedTuple):
    """A file of a program.

    Args:
        path: its path.
        source: its bytes.
        tree: what they say.
    """

    path: Path
    source: SourceText
    tree: ast.Module


class Subject(NamedTuple):
    """A file of a program, with its names and what it was written for.

    Args:
        file: the file.
        uses: what it imports and uses.
        wanted: what its program was written for.
    """

    file: File
    uses: Uses
    wanted: Generation
