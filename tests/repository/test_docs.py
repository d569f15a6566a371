"""Tests that the documentation is true of the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", ["make_options", "make_popart_options"])
def test_the_pages_of_options_are_up_to_date(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PATH.read_text(encoding="utf-8") == module.render(), (
        f"{module.PATH.name} is out of date: run python docs/{name}.py"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]*)`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    missing = [
        name
        for name in named
        if not any((base / name).exists() for base in (ROOT, page.parent, ROOT / "tensorflow_ipu"))
        and not name.startswith(("tensorflow-plugins", "build/"))
    ]
    assert not missing


def test_programs_of_the_readme_print_what_they_say(run_program, tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    expected = [re.search(r"^ *print\(.*\)  # (.+)$", each, re.MULTILINE)[1] for each in programs]
    # AutoGraph reads the source of functions, so they need files.
    for number, program in enumerate(programs):
        (tmp_path / f"program{number}.py").write_text(program, encoding="utf-8")
    imports = "; ".join(f"import program{number}" for number in range(len(programs)))
    output = run_program(imports, cwd=tmp_path).stdout
    assert "simulated Mk2" in output
    assert [line for line in output.splitlines() if line in expected] == expected
