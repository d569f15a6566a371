"""Steps of a row: their commands, and their ends. Nothing is downloaded."""

from __future__ import annotations

import os
import sys

import pytest

from tests.matrix import steps
from tests.matrix.rows import rows

XML = (
    '<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2"/>'
    '<testsuite tests="3" failures="0" errors="0" skipped="0"/></testsuites>'
)


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment whose Python is this one."""
    run = steps.Environment.run
    monkeypatch.setattr(steps.Environment, "run", lambda *args, **kwargs: "")
    made = steps.Environment(rows("2.15-py3.11")[0], sys.executable, tmp_path / "row")
    monkeypatch.setattr(steps.Environment, "run", run)
    made.python = sys.executable
    return made


def test_the_output_of_steps_is_kept_and_returned(environment):
    assert environment.run("one", [sys.executable, "-c", "print(1)"]) == "1\n"
    environment.run("two", [sys.executable, "-c", "print(2)"])
    lines = environment.log.read_text().splitlines()
    assert [line for line in lines if line in ("1", "2")] == ["1", "2"]


def test_failing_step_names_itself_and_output(environment):
    with pytest.raises(steps.StepError, match="build: exit code 3, see .*log"):
        environment.run("build", [sys.executable, "-c", "print('why'); raise SystemExit(3)"])
    assert "why" in environment.log.read_text()


def test_steps_do_not_see_environment_of_developer(environment, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("TF_DIR", "/somewhere")
    code = "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('TF_DIR'), "
    code += "os.environ['PATH'], os.environ['BUILD'])"
    shown = environment.run("show", [sys.executable, "-c", code], path="/only", BUILD="/objects")
    assert shown.split() == ["None", "None", "/only", "/objects"]
    shown = environment.run("show", [sys.executable, "-c", code], BUILD="x").split()
    assert shown[2] == os.environ["PATH"]


def test_an_environment_that_was_kept_is_taken_again(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(steps.Environment, "run", lambda self, step, command: made.append(step))
    row = rows("2.15-py3.11")[0]
    environment = steps.Environment(row, sys.executable, tmp_path / "row")
    (environment.venv / "bin").mkdir(parents=True)
    (environment.venv / "bin" / "python").touch()
    (environment.folder / "wheel").mkdir()
    steps.Environment(row, sys.executable, tmp_path / "row")
    assert made == ["venv"]
    assert not (environment.folder / "wheel").exists()  # of the last time


def test_program_of_readme_runs_in_own_folder(environment, tmp_path, monkeypatch):
    readme = tmp_path / "README.md"
    readme.write_text(
        "Text\n\n```\nmake\n```\n\n```python\nprint(__file__)\n```\n```python\n1 / 0\n```\n"
    )
    monkeypatch.setattr(steps, "README", readme)
    steps.run_program(environment)
    assert (environment.folder / "program" / "program.py").read_text() == "print(__file__)\n"


def test_the_readme_has_a_program():
    program = steps.first_program(steps.README.read_text(encoding="utf-8"))
    assert "from tensorflow.python import ipu" in program


def test_a_page_without_a_program_is_an_error():
    with pytest.raises(steps.StepError, match="no block of Python"):
        steps.first_program("```\nmake\n```\n")


def test_tests_are_counted_over_all_suites():
    assert steps.counts(XML) == {"passed": 6, "failed": 2, "skipped": 2}
