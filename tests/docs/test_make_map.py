"""Tests that the map of the folders is that of the files, and says something of each."""

from __future__ import annotations

import re
import runpy

from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "map.md"
MAKER = runpy.run_path(str(ROOT / "docs" / "make_map.py"))


def test_the_map_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == MAKER["render"](), (
        "docs/map.md is out of date: run python docs/make_map.py"
    )


def test_every_file_and_folder_has_a_line():
    assert re.findall(r"^\| `(.+)` \| +\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == []
    assert "\n\n.\n" not in PAGE.read_text(encoding="utf-8")


def test_every_folder_of_the_root_is_on_the_map():
    text = PAGE.read_text(encoding="utf-8")
    unseen = {"build", "dist"}  # made by make, not in git
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."}
    folders = {name for name in folders - unseen if not name.endswith(".egg-info")}
    assert {name for name in folders if f"`{name}/" not in text} == set()
