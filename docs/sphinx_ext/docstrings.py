"""Docstrings are written with little Markdown; this makes the reStructuredText of autodoc of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Code, which is kept as it is, or a character that means something in reStructuredText.
_PIECE = re.compile(r"(?P<code>``.+?``|`[^`]+`)(?P<after>\w?)|(?P<special>[*|\\]|(?<=\w)_(?!\w))")
# What a function returns; `napoleon` would take the words before a colon for a type.
_RESULT = re.compile(
    r"^(?P<margin> *)(?P<what>Returns|Yields):\n(?P<text>(?:(?P=margin) +.*\n?|\n)+)", re.MULTILINE
)
# Of these `napoleon` takes the words before a colon for the type, too.
_VALUES = ("attribute", "data", "property")
_COLON = re.compile(r"(?P<code>``.+?``)|:(?= )")
_BULLET = re.compile(r"( *)[*-] ")


def connect(app: Sphinx) -> None:
    """Has docstrings changed before `napoleon` reads their sections."""
    app.connect("autodoc-process-docstring", _process, priority=100)


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = fields(restructured("\n".join(lines))).split("\n")
    if what in _VALUES:
        lines[0] = without_type(lines[0])


def restructured(text: str) -> str:
    """Returns a docstring as reStructuredText.

    Args:
        text: the docstring.
    """
    return "\n".join(_spaced([_PIECE.sub(_piece, line) for line in text.split("\n")]))


def _piece(match: re.Match[str]) -> str:
    if match["special"]:
        is_bullet = _BULLET.match(match.string) and not match.string[: match.start()].strip()
        return match["special"] if is_bullet else f"\\{match['special']}"
    code = match["code"].strip("`")
    return f"``{code}``" + (f"\\ {match['after']}" if match["after"] else "")


def _spaced(lines: list[str]) -> list[str]:
    """Puts an empty line before each list, which Markdown does not need."""
    result: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        if bullet and result and result[-1].strip() and not _BULLET.match(result[-1]):
            before = len(result[-1]) - len(result[-1].lstrip())
            if before <= len(bullet[1]):
                result.append("")
        result.append(line)
    return result


def fields(text: str) -> str:
    """Turns the sections on results into fields."""

    def field(match: re.Match[str]) -> str:
        margin = match["margin"]
        return f"{margin}:{match['what'].lower()}: {match['text'].lstrip()}"

    return _RESULT.sub(field, text)


def without_type(line: str) -> str:
    """Returns the first line of the docstring of a value, with no colon that stands for a type."""
    return _COLON.sub(lambda match: match["code"] or " \N{EN DASH}", line)
