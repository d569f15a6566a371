"""Tests that the classes of the glossary exist, and that their names have one meaning."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.support.checkout.repository import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
FOLDERS = ("configs", "ops", "keras_layers", "estimators", "tensorflow_ipu")


def _rows(heading: str) -> Iterator[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


@functools.cache
def _classes() -> Mapping[str, list[str]]:
    """The files of each public class of a module."""
    found: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if path.resolve().relative_to(ROOT).as_posix() != name:
                continue  # a link, such as tensorflow_ipu/configs
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(name)
    return found


def _class_names(cell: str) -> list[str]:
    return re.findall(r"`([A-Z]\w+)`", cell)


def _folders(*cells: str) -> list[str]:
    return re.findall(r"`([\w-]+/[\w/.-]*)`", " ".join(cells))


DEFINED = [
    (name, _folders(row[2]))
    for heading in ("Nouns of the architecture", "Words of the field")
    for row in _rows(heading)
    for name in _class_names(row[2])
]
SHARED = {
    name: _folders(row[1], row[2])
    for row in _rows("Words with several meanings")
    for name in _class_names(row[0])
}
NOUNS = [name for row in _rows("Nouns of the architecture") for name in _class_names(row[2])]


@pytest.mark.parametrize(("name", "folders"), DEFINED, ids=[name for name, _ in DEFINED])
def test_classes_stand_where_named(name, folders):
    places = _classes().get(name, [])
    assert any(place.startswith(tuple(folders)) for place in places), (
        f"glossary.md: {name} in {folders}, but it is defined in {places}"
    )


@pytest.mark.parametrize("name", sorted({*NOUNS, *SHARED}))
def test_shared_names_are_listed(name):
    folders = SHARED.get(name, [])
    places = _classes().get(name, [])
    unlisted = [place for place in places if not place.startswith(tuple(folders))]
    limit = 0 if name in SHARED else 1
    assert len(unlisted) <= limit, f"glossary.md: rename, or list the meaning of {name}: {unlisted}"
    assert all(any(place.startswith(folder) for place in places) for folder in folders)
