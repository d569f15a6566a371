"""The table of the matrix: lines, and its place in pages."""

from __future__ import annotations

import json

import pytest

from tests.matrix import __main__ as matrix
from tests.matrix import steps, table

GOOD = {
    "tensorflow": "2.18.1",
    "python": "3.12.1",
    "wheel": "installs",
    "program": "runs",
    "passed": 12,
    "failed": 0,
    "skipped": 3,
    "when": "2026-01-02",
}
FAILED = {"tensorflow": "2.21", "python": "3.13", "wheel": "fails", "error": "build: exit code 1"}


def test_each_row_is_line_with_empty_remainder():
    assert table.render([GOOD, FAILED]).splitlines()[2:] == [
        "| 2.18.1 | 3.12.1 | installs | runs | 12 | 0 | 3 | 2026-01-02 |",
        "| 2.21 | 3.13 | fails | - | - | - | - | - |",
    ]
    assert table.is_good(GOOD) and not table.is_good(FAILED)
    assert not table.is_good({**GOOD, "failed": 1})


def test_table_takes_place_that_page_has_for_it():
    page = f"Before\n\n{table.BEGIN}\nold\n{table.END}\n\nAfter\n"
    text = table.put_into(page, "new \\1\n")
    assert text == f"Before\n\n{table.BEGIN}\nnew \\1\n{table.END}\n\nAfter\n"
    assert table.put_into(text, "new \\1\n") == text
    assert table.put_into("No place\n", "new\n") == "No place\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the matrix with steps of the test; returns the exit code and which rows have run."""
    monkeypatch.setattr(steps, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(matrix, "interpreter", lambda python: None if python == "3.9" else "python")

    def run(*arguments, failing=()):
        ran = []

        def fake_steps(environment, options, tests, result):
            ran.append(environment.row.name)
            if environment.row.name in failing:
                raise steps.StepError("build: exit code 1")
            result.update(GOOD, passed=len(tests))

        monkeypatch.setattr(matrix, "_steps", fake_steps)
        monkeypatch.setattr(steps.Environment, "run", lambda *args, **kwargs: "")
        code = matrix.main(["--folder", str(tmp_path), *arguments])
        return code, ran

    return run


def test_failed_row_runs_again_without_stopping_others(run, tmp_path):
    rows = ["--rows", "2.15-* 2.20-py3.13"]
    assert run(*rows, failing=["2.15-py3.10"]) == (
        1,
        ["2.15-py3.10", "2.15-py3.11", "2.20-py3.13"],
    )
    assert json.loads((tmp_path / "2.15-py3.10.json").read_text())["error"] == "build: exit code 1"
    assert run(*rows) == (0, ["2.15-py3.10"])
    assert run(*rows) == (0, [])
    assert run(*rows, "--again") == (0, ["2.15-py3.10", "2.15-py3.11", "2.20-py3.13"])


def test_other_arguments_are_those_of_pytest(run, capsys):
    assert run("--rows", "2.15-py3.11", "tests/feeds", "-k", "outfeed")[0] == 0
    assert (
        "| 2.18.1 | 3.12.1 | installs | runs | 3 | 0 | 3 | 2026-01-02 |" in capsys.readouterr().out
    )
