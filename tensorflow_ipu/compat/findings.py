"""Findings of a migration: changes to make in a file, and edits by positions of its bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.compat.bindings import Uses
from tensorflow_ipu.compat.generation import Generation

# --- Edits by positions ---


class Edit(NamedTuple):
    """A replacement of a part of a file.

    Args:
        start: start of the part in bytes.
        end: end of the part in bytes.
        text: the new text.
    """

    start: int
    end: int
    text: str


class SourceText:
    """The bytes of a file with its lines, as `ast` counts them.

    Args:
        content: the bytes, in UTF-8 or ASCII.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        # `ast` counts columns without the byte order mark, and lines by \\n, \\r\\n and \\r only.
        self._starts = [3 if content.startswith(b"\xef\xbb\xbf") else 0]
        for position, byte in enumerate(content):
            following = content[position + 1 : position + 2]
            if byte == 10 or (byte == 13 and following != b"\n"):
                self._starts.append(position + 1)
        self.newline = "\r\n" if b"\r\n" in content else "\n"

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Returns the start of a node in bytes."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.alias) -> int:
        """Returns the end of a node in bytes."""
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """Returns the text of a node."""
        return self.content[self.start(node) : self.end(node)].decode("utf-8", "replace")

    def line_start(self, node: ast.stmt) -> int:
        """Returns the start of a statement's first line, in bytes."""
        return self._starts[node.lineno - 1]

    def line_end(self, node: ast.stmt) -> int:
        """Returns the end of a statement's last line, in bytes, before the newline."""
        line = node.end_lineno or node.lineno
        end = self._starts[line] if line < len(self._starts) else len(self.content)
        return len(self.content[:end].rstrip(b"\r\n"))

    def indentation(self, node: ast.stmt) -> str | None:
        """Returns the white space before a statement; None if another statement is in front."""
        before = self.content[self.line_start(node) : self.start(node)]
        return before.decode() if not before.strip() else None

    def is_alone(self, node: ast.stmt) -> bool:
        """Returns whether the lines of a statement have no other text than a comment."""
        after = self.content[self.end(node) : self.line_end(node)].strip()
        return self.indentation(node) is not None and (not after or after.startswith(b"#"))

    def applied(self, edits: Iterable[Edit]) -> bytes:
        """Returns the file with changes.

        Args:
            edits: the changes; of several at one place each is made once, in their order.

        Raises:
            ValueError: two changes are about the same part.
        """
        result, position = b"", 0
        for edit in sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end)):
            if edit.start < position:
                raise ValueError(f"Two changes are about the same bytes, at {edit.start}.")
            result += self.content[position : edit.start] + edit.text.encode("utf-8")
            position = edit.end
        return result + self.content[position:]


# --- Findings ---


class Finding(NamedTuple):
    """A change to make in a file, with the reason.

    Args:
        line: number of the line.
        what: the present code.
        replacement: the new code, or an instruction.
        why: the reason.
        edits: the changes; none if the user has to make them.
    """

    line: int
    what: str
    replacement: str
    why: str
    edits: tuple[Edit, ...]

    def text(self, path: Path) -> str:
        """Returns one line about the finding."""
        by_hand = "" if self.edits else " (by hand)"
        return f"{path}:{self.line}: {self.what}: {self.replacement}{by_hand} [{self.why}]"


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
