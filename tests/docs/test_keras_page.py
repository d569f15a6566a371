"""Tests that what docs/keras.md shows is what its programs print."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

CHECK = """
import runpy, sys
sys.argv = [{path!r}, "--check", "keras.md"]
runpy.run_path({path!r}, run_name="__main__")
"""


def test_the_outputs_are_up_to_date(run_python):
    process = run_python(CHECK.format(path=str(DOCS / "make_outputs.py")), timeout=300)
    assert "could not transform" not in process.stderr, "AutoGraph has not found all sources"


def test_every_output_is_that_of_a_program():
    page = (DOCS / "keras.md").read_text(encoding="utf-8")
    outputs = len(re.findall(r"```\n\n```text\n", page))
    assert page.count("```text\n") == outputs > 12
    assert page.count("same weights: True") == 5
    assert not re.search("same.*False", page)
