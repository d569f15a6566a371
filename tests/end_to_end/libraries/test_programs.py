"""Tests that the programs on the page of other libraries print the output shown there.

They are skipped where a package is absent. `pip install -e '.[libraries]'` installs them all.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.support.checkout import repository

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "guides/libraries.md").read_text(encoding="utf-8")

sys.path.insert(0, str(DOCS))
try:
    _spec = importlib.util.spec_from_file_location("make_libraries", DOCS / "make_libraries.py")
    make_libraries = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(make_libraries)
finally:
    sys.path.remove(str(DOCS))

SECTIONS = make_libraries.sections(PAGE)

CHECK = """
import runpy, sys
sys.path.insert(0, {docs!r})
sys.argv = ["make_libraries.py", "--check", {title!r}]
runpy.run_path({docs!r} + "/make_libraries.py", run_name="__main__")
"""


@pytest.mark.parametrize("title", SECTIONS)
def test_the_programs_print_what_is_on_the_page(run_python, title):
    absent = make_libraries.missing(SECTIONS[title])
    if absent:
        pytest.skip(f"needs {', '.join(absent)}: pip install -e '.[libraries]'")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    run_python(CHECK.format(docs=str(DOCS), title=title), env=quiet, timeout=580)


def test_every_program_has_output_and_equals_stock_keras():
    pair = re.compile(r"^stock: *(.*)\n(?:IPU|pipeline): *(\S.*?\]|\{.*\})", re.MULTILINE)
    compared = 0
    for title, section in SECTIONS.items():
        outputs = "".join(re.findall(r"```\n\n```text\n(.*?)```", section, re.DOTALL))
        assert section.count("```text\n") == section.count("```\n\n```text\n") > 0, title
        assert "False" not in outputs, title
        pairs = pair.findall(outputs)
        assert all(stock == on_ipu for stock, on_ipu in pairs), title
        compared += len(pairs)
    assert compared >= 7


def test_packages_of_the_extra_are_in_the_table():
    text = (repository.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (extra,) = re.findall(r"^libraries = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    # What only keeps others from versions that do not go together is no library of the page.
    packages = set(re.findall(r'^    "([\w-]+)', extra.split("# Keep")[0], re.MULTILINE))
    in_table = set(re.findall(r"^\| `([\w.-]+)`", PAGE, re.MULTILINE))
    assert packages <= in_table
