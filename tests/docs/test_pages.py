"""Tests that what the pages show is what their programs print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

CHECK = """
import runpy, sys
sys.argv = [{path!r}, "--check", {page!r}]
runpy.run_path({path!r}, run_name="__main__")
"""

# Page, outputs on it at least, and how often it says that weights are the same.
PAGES = [
    ("parallelism.md", 20, None),
    ("keras.md", 12, 9),
    ("estimators.md", 8, 3),
    ("reports.md", 4, None),
    ("capacity.md", 0, None),
    ("command_line.md", -1, None),
    ("migration.md", 0, None),
    ("pva.md", 4, None),
]


@pytest.mark.parametrize("page", [page for page, _, _ in PAGES])
def test_the_outputs_are_up_to_date(run_python, page):
    code = CHECK.format(path=str(DOCS / "make_outputs.py"), page=page)
    process = run_python(code, timeout=300)
    assert "could not transform" not in process.stderr, "AutoGraph has not found all sources"


@pytest.mark.parametrize(("page", "least", "same"), PAGES)
def test_every_output_is_that_of_a_program(page, least, same):
    text = (DOCS / page).read_text(encoding="utf-8")
    outputs = len(re.findall(r"```\n\n```text\n", text))
    assert text.count("```python\n") >= outputs > least
    assert text.count("```text\n") == outputs
    assert same is None or text.count("same weights: True") == same
    assert not re.search("same.*False", text)


def test_every_picture_is_on_a_page():
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    shown = {name for text in pages for name in re.findall(r"!\[.+\]\(pictures/([\w.]+)\)", text)}
    assert shown == {path.name for path in (DOCS / "pictures").iterdir()}
