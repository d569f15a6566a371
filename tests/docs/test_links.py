"""Tests that links between the pages of the repository lead to files and headings that exist."""

from __future__ import annotations

import collections
import re
from pathlib import Path

import pytest

from tests.support.checkout.repository import ROOT

NOT_PAGES = {"build", "dist"}  # made by make, not in git
PAGES = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not any(part[0] == "." or part in NOT_PAGES for part in path.relative_to(ROOT).parts)
]
CODE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def prose(path: Path) -> str:
    """Returns a page without its code."""
    return CODE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Returns the link targets of a page: its headings, as viewers of Markdown make anchors."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: collections.Counter[str] = collections.Counter()
    names = set(re.findall(r"<a (?:id|name)=\"([\w-]+)\"", text))
    names |= set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for heading in re.findall(r"^#+ +(.+?) *#*$", text, re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return names


def is_broken(page: Path, link: str) -> bool:
    """Whether a link to a file of the repository, or to a heading of a page, leads nowhere."""
    name, _, anchor = link.partition("#")
    target = (page.parent / name) if name else page
    if not target.exists() or not target.resolve().is_relative_to(ROOT):
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_page_lead_to_files_and_headings(page):
    links = [link for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]
    broken = [link for link in links if is_broken(page, link)]
    assert not broken, "links to files or headings that do not exist"


def test_pages_with_most_links_are_among_those_tested():
    names = {page.relative_to(ROOT).as_posix() for page in PAGES}
    assert names >= {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/index.md"}


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("other.md", False),
        ("other.md#the-page-2-of-3", False),
        ("other.md#twice-1", False),
        ("#here", False),
        ("other.md#not-there", True),
        ("other.md#in-code", True),
        ("missing.md", True),
        ("#nowhere", True),
        ("../../../../../../../../etc/hostname", True),
    ],
)
def test_links_that_lead_nowhere_are_found(tmp_path, monkeypatch, link, broken):
    monkeypatch.setitem(globals(), "ROOT", tmp_path.resolve())
    (tmp_path / "other.md").write_text(
        "# The `page` (2 of 3)!\n## Twice\n## Twice\n```\n# In code\n```\n", encoding="utf-8"
    )
    page = tmp_path / "page.md"
    page.write_text("# Here\n", encoding="utf-8")
    assert is_broken(page, link) is broken


def test_shelves_of_the_site_name_pages_that_exist():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    shelves = re.findall(r"```{toctree}\n(?::.*\n)*((?:.+\n)*)```", text)
    entries = [entry for shelf in shelves for entry in shelf.split()]
    folder = ROOT / "docs"
    pages = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")}
    generated = {"api/index"}
    fixed = {entry for entry in entries if "*" not in entry}
    assert fixed - generated <= pages
    assert len(entries) == len(set(entries)) > 20


def test_every_page_of_top_folder_is_on_shelf():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    missing = {page for page in pages if not re.search(rf"^{page}$", text, re.MULTILINE)}
    patterns = re.findall(r"^(\w+)\*$", text, re.MULTILINE)
    assert {page for page in missing if not page.startswith(tuple(patterns))} == set()
