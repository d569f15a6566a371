"""Tests that pages become pages of the site: their includes, their links, empty shelves."""

from __future__ import annotations

import pytest
from sphinx_ext import sources

from tests.support.checkout.repository import ROOT


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    (tmp_path / "docs" / "guides" / "debugging.md").touch()
    (tmp_path / "README.md").write_text("[k](docs/keras.md) [C](CHANGELOG.md)", encoding="utf-8")
    return tmp_path / "docs"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[what changed](../CHANGELOG.md)", "[what changed](/changelog.md)"),
        ("[how](../../CONTRIBUTING.md#rules)", "[how](/contributing.md#rules)"),
        ("[keras.md](keras.md)", "[](keras.md)"),
        ("[docs/keras.md](keras.md#fit)", "[](keras.md#fit)"),
        ("[a page](keras.md)", "[a page](keras.md)"),
        ("```{include} ../README.md\n```\n", "[k](keras.md) [C](/changelog.md)\n"),
    ],
)
def test_links_and_includes_hold_on_the_site(folder, text, expected):
    assert sources.mended(text, folder) == expected


def test_shelves_without_pages_are_left_out(folder):
    text = "guides/*\nnotebooks/*\nkeras\n"
    assert sources.without_empty_shelves(text, folder) == "guides/*\nkeras\n"


@pytest.mark.parametrize("name", sources.ELSEWHERE)
def test_what_is_shown_elsewhere_exists(name):
    assert (ROOT / f"{name}.md").exists()
    page = (ROOT / "docs" / f"{sources.ELSEWHERE[name]}.md").read_text(encoding="utf-8")
    assert f"../{name}.md" in page
