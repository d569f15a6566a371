"""Mends the texts of pages for the site: they are written for viewers of Markdown first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Pages of the repository outside `docs/` -> the pages that show them here.
ELSEWHERE = {
    "CHANGELOG": "changelog",
    "CONTRIBUTING": "contributing",
    "README": "overview",
    "RELEASING": "releasing",
}

_INCLUDE = re.compile(r"```{include} \.\./(\w+)\.md\n```")
_LINK = re.compile(rf"\]\((?:\.\./)*({'|'.join(ELSEWHERE)})\.md")
# A link whose text is the name of a file: the site shows the title of the page instead.
_FILE_NAME = re.compile(r"\[[\w./-]+\.md\]\((/?[\w./-]+\.md(?:#[\w-]+)?)\)")


def connect(app: Sphinx) -> None:
    """Has the text of each page changed before it is parsed."""
    app.connect("source-read", _read)


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    folder = Path(app.srcdir)
    for outside, inside in ELSEWHERE.items():
        if name == inside:
            app.env.note_dependency(folder.parent / f"{outside}.md")
    content[0] = mended(content[0], folder)
    if name == app.config.root_doc:
        content[0] = without_empty_shelves(content[0], folder)


def mended(text: str, folder: Path) -> str:
    """Returns a page with its includes expanded and its links valid on the site.

    Args:
        text: the page.
        folder: of all pages; what they include is in the folder above it.
    """

    def included(match: re.Match[str]) -> str:
        page = (folder.parent / f"{match[1]}.md").read_text(encoding="utf-8")
        return page.replace("](docs/", "](")

    text = _INCLUDE.sub(included, text)
    text = _LINK.sub(lambda match: f"](/{ELSEWHERE[match[1]]}.md", text)
    return _FILE_NAME.sub(r"[](\1)", text)


def without_empty_shelves(text: str, folder: Path) -> str:
    """Returns the first page without lines of its shelves (`guides/*`) that no page fits.

    Args:
        text: the page.
        folder: of all pages.
    """
    lines = text.split("\n")
    return "\n".join(line for line in lines if "*" not in line or any(folder.glob(line)))
