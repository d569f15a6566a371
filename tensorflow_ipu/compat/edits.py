"""Edits of a file by positions, which keep all other bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple


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
