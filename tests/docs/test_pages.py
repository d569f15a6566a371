"""Tests that the pages show the output of their programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.checkout.versions import needs_tensorflow

DOCS = Path(__file__).parents[2] / "docs"

CHECK = """
import runpy, sys
sys.argv = [{path!r}, "--check", {page!r}]
runpy.run_path({path!r}, run_name="__main__")
"""

# NumPy 2 prints types with numbers, and Python 3.12 has other frames on the stack.
OUTPUTS = needs_tensorflow("<2.16", "outputs are those of TensorFlow 2.15 and its NumPy")

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
# Pages that share a process which has imported TensorFlow, each in a fork of it.
FOLDERS = ("concepts", "guides", "tutorial")
SHORT = ["errors.md", "migration_popart.md", "migration_popxl.md"]
SHORT += [f"{top}/{path.name}" for top in FOLDERS for path in sorted((DOCS / top).glob("*.md"))]
# Pages whose programs start processes that import TensorFlow, which takes longer than all others.
DISTRIBUTED = [page for page in SHORT if "--instances" in (DOCS / page).read_text(encoding="utf-8")]


@OUTPUTS
@pytest.mark.parametrize("page", [page for page, _, _ in PAGES])
def test_the_outputs_are_up_to_date(run_program, page):
    code = CHECK.format(path=str(DOCS / "make_outputs.py"), page=page)
    process = run_program(code, timeout=300)
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
    pages = [page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")]
    pictures = re.compile(r"!\[.+\]\((?:\.\./)?pictures/([\w.]+)\)")
    shown = {name for text in pages for name in pictures.findall(text)}
    assert shown == {path.name for path in (DOCS / "pictures").iterdir()}


@OUTPUTS
def test_outputs_of_short_pages_are_up_to_date(run_program):
    _check(run_program, [page for page in SHORT if page not in DISTRIBUTED])


@OUTPUTS
@pytest.mark.large
def test_outputs_of_pages_with_processes_are_current(run_program):
    _check(run_program, ["distributed.md", *DISTRIBUTED])


def _check(run_program, pages):
    path = str(DOCS / "make_outputs.py")
    code = f"import runpy, sys\nsys.argv = [{path!r}, '--check', *{pages!r}]\n"
    process = run_program(f"{code}runpy.run_path({path!r}, run_name='__main__')", timeout=600)
    assert "could not transform" not in process.stderr, "AutoGraph has not found all sources"


@pytest.mark.parametrize("page", SHORT)
def test_short_page_outputs_come_from_programs(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text.count("```text\n") == len(re.findall(r"```\n\n```text\n", text))
    assert "```text\n```" not in text, f"run python docs/make_outputs.py {page}"
