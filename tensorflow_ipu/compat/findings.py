"""Findings of a migration: changes to make in a file of a program."""

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
        what: the present code.
        mend: the new code, or an instruction.
        why: the reason.
        edits: the changes; none if the user has to make them.
    """

    line: int
    what: str
    mend: str
    why: str
    edits: tuple[Edit, ...]

    def text(self, path: Path) -> str:
        """Returns one line about the finding."""
        by_hand = "" if self.edits else " (by hand)"
        return f"{path}:{self.line}: {self.what}: {self.mend}{by_hand} [{self.why}]"


class File(NamedTuple):
    """A file of a program.

    Args:
        path: its path.
        source: its bytes.
        tree: its syntax tree.
    """

    path: Path
    source: SourceText
    tree: ast.Module


class Subject(NamedTuple):
    """A file of a program, with its names and the generation of TensorFlow it was written for.

    Args:
        file: the file.
        uses: its imports and uses of imported names.
        wanted: the generation that its program was written for.
    """

    file: File
    uses: Uses
    wanted: Generation
