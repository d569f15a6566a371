"""Tests of `tensorflow-ipu doctor` as a whole: here, and where TensorFlow is broken or missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tensorflow_ipu
from tensorflow_ipu.cli import doctor
from tensorflow_ipu.cli.diagnosis import checks
from tensorflow_ipu.cli.diagnosis.checks import Finding, Level
from tensorflow_ipu.cli.main import main

CODE = (
    "import sys\n"
    "from tensorflow_ipu.cli.main import main\n"
    "code = main(['doctor', '--json'])\n"
    "print(code, bool({'tensorflow', 'keras', 'tf_keras'} & set(sys.modules)), file=sys.stderr)\n"
)


def test_this_installation_is_in_order(run_python, tmp_path):
    process = run_python(CODE, cwd=tmp_path)
    data = json.loads(process.stdout)
    assert process.stderr.splitlines()[-1] == "0 False", process.stdout
    assert not [entry for entry in data["findings"] if entry["level"] == "problem"]
    subjects = {entry["subject"] for entry in data["findings"]}
    assert subjects >= {"Python", "packages", "plugin", "TensorFlow", "ipu", "Keras", "program"}


def test_broken_tensorflow_is_problem_and_rest_is_checked(run_python, tmp_path):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text("raise ImportError('damaged')")
    variables = {"PYTHONPATH": str(tmp_path), "TF_POPLAR_FLAGS": "--use_ipu_model"}
    process = run_python(CODE, cwd=tmp_path, env=variables)
    assert process.stderr.splitlines()[-1] == "1 False"
    found = [Finding(*entry.values()) for entry in json.loads(process.stdout)["findings"]]
    (problem,) = [finding for finding in found if finding.level == "problem"]
    assert problem.subject == "TensorFlow" and "ImportError: damaged" in problem.text
    assert problem.mend.startswith("pip install")
    assert {"TF_POPLAR_FLAGS", "cache", "compiler", "folder"} <= {each.subject for each in found}


def test_without_packages_it_reports_missing_ones(run_python, tmp_path):
    folder = str(Path(tensorflow_ipu.__file__).parents[1])
    process = run_python(f"import sys; sys.path.append({folder!r})\n{CODE}", "-S", cwd=tmp_path)
    assert process.stderr.splitlines()[-1] == "1 False"
    found = [Finding(*entry.values()) for entry in json.loads(process.stdout)["findings"]]
    assert ("packages", "problem", "tensorflow is not installed") in {each[:3] for each in found}
    (unread,) = [finding for finding in found if finding.subject == "variables"]
    assert unread.level == "warning" and "not checked" in unread.text


@pytest.mark.parametrize(
    "levels, code, last",
    [
        ([Level.OK], 0, "no problems, no warnings"),
        ([Level.OK, Level.WARNING], 0, "no problems, 1 warning"),
        ([Level.PROBLEM, Level.WARNING, Level.PROBLEM], 1, "2 problems, 1 warning"),
    ],
    ids=["ok", "warning", "problem"],
)
def test_the_exit_code_is_that_of_the_worst(capsys, monkeypatch, levels, code, last):
    found = [Finding("part", level, "text", "mend it") for level in levels]
    monkeypatch.setattr("tensorflow_ipu.cli.doctor.examine", lambda *_: found)
    assert main(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{levels[0].value:<7}  part  text" and lines[-1] == last
    assert lines[1].strip() == "mend it"
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["level"] == checks.worst(found).value


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "inf", "nan"])
def test_a_time_limit_is_a_number_of_seconds(capsys, seconds):
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", "--timeout", seconds])
    assert "more than 0" in capsys.readouterr().err


def test_a_check_without_its_packages_is_a_warning(monkeypatch, tmp_path):
    def missing():
        raise ModuleNotFoundError("No module named 'absl'")

    monkeypatch.setattr(doctor.checks, "requirements", missing)
    monkeypatch.setattr(doctor.checks, "tensorflow", lambda: "")
    (finding,) = [each for each in doctor.examine(1.0, {}, tmp_path) if each.subject == "packages"]
    assert finding.level is Level.WARNING and "absl" in finding.text


def test_command_whose_packages_are_missing_names_the_doctor(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_ipu.cli.devices", None)
    assert main(["devices"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "`tensorflow-ipu doctor`" in error
    with pytest.raises(ImportError):
        main(["--traceback", "devices"])
