"""Tests of the help of `tensorflow-ipu`: its examples run, and slips get suggestions."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tensorflow_ipu import cli
from tensorflow_ipu.cli.main import COMMANDS, main, parser
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.profiler.report import Report
from tests.support.planner import layered_workloads

# Start processes, which other tests do with programs of theirs.
_ONLY_PARSED = ("doctor", "passes", "plan", "run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that examples name."""
    path = tmp_path_factory.mktemp("examples")
    for name, width in (("before", 64), ("after", 128)):
        plan = planning.plan(layered_workloads.dense([64, width, 10]), Settings())
        Report.from_plan(plan).save(path / f"{name}.json")
    (path / "train.py").write_text("import tensorflow as tf\n\nprint(tf.__version__)\n")
    return path


def helped(capsys, *arguments):
    """The help of the tool, or of a command."""
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--help"])
    return capsys.readouterr().out


def refused(capsys, *arguments):
    """The last line of a usage error."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_examples_of_a_command_run(capsys, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    examples = re.findall(r"^  (tensorflow-ipu .+)$", helped(capsys, command.name), re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        tool, *words = shlex.split(example.partition(" > ")[0])
        assert tool == "tensorflow-ipu" and command.name in words
        if command.name in _ONLY_PARSED:
            parser().parse_args(words)
        else:
            assert main(words) in (0, 1), capsys.readouterr().err
    assert all(
        "\n  " + example + "\n      " in helped(capsys, command.name) for example in examples
    )


def test_help_has_every_command_with_what_it_does(capsys):
    text = " ".join(helped(capsys).split())
    assert all(f"{command.name} {command.summary}" in text for command in COMMANDS)
    # A module of the folder with arguments is a command.
    modules = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    assert {command.name for command in COMMANDS} <= modules


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert re.fullmatch(r"tensorflow_ipu \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments, meant",
    [
        (["reprot", "before.json"], "'report'"),
        (["--tracebak", "report", "before.json"], "'--traceback'"),
        (["report", "before.json", "--ouput", "x"], "'--output'"),
        (["report", "before.json", "--ouput=x"], "'--output'"),
        (["split", "before.json", "--stagse", "2"], "'--stages'"),
        (["run", "--quite", "train.py"], "'--quiet'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_slip_gets_a_suggestion(capsys, arguments, meant):
    error = refused(capsys, *arguments)
    assert error.startswith("tensorflow-ipu") and f"did you mean {meant}?" in error


@pytest.mark.parametrize("arguments", [["xyz"], ["report", "before.json", "--xyz"]], ids=str)
def test_what_is_like_nothing_gets_none(capsys, arguments):
    error = refused(capsys, *arguments)
    assert "did you mean" not in error and arguments[-1] in error


def test_options_of_program_run_are_its_own():
    options = parser().parse_args(["run", "train.py", "--quite", "--tracebak"])
    assert options.arguments == ["--quite", "--tracebak"]


def test_a_command_loads_no_others(run_python):
    process = run_python(
        "import sys; from tensorflow_ipu.cli.main import main; main(['devices'])\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'tensorflow'}),\n"
        "      *sorted(name for name in sys.modules if 'ipu.profiler' in name), sep=',')",
        env={**os.environ},
    )
    assert process.stdout.splitlines()[-1] == ""


def test_the_tool_alone_prints_its_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert all(
        command.summary.split(",")[0] in " ".join(printed.out.split()) for command in COMMANDS
    )
