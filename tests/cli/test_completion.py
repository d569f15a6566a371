"""Tests of completion: completions of a real bash, and scripts that have all commands."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

import pytest

from tensorflow_ipu.cli.main import COMMANDS, main, parser

# Prints what each line on the standard input would be completed to, as bash calls the function.
_DRIVER = """
source "$1"
function=$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
while IFS= read -r line; do
  read -ra COMP_WORDS <<< "$line"
  [[ "$line" == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  COMPREPLY=()
  "$function"
  echo "${COMPREPLY[*]}"
done
"""


def script(capsys, shell, *more):
    assert main(["completion", shell, *more]) == 0
    return capsys.readouterr().out


def completed(folder, text, program, lines):
    """Returns the completions of lines by a bash in a folder."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (folder / "completion").write_text(text)
    process = subprocess.run(
        ["bash", "--norc", "-c", _DRIVER, "bash", "completion", program],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
    )
    assert process.returncode == 0 and not process.stderr, process.stderr
    return [sorted(found.split()) for found in process.stdout.splitlines()]


def test_bash_completes_commands_options_values_and_files(capsys, tmp_path):
    (tmp_path / "before.json").touch()
    (tmp_path / "train.py").touch()
    cases = {
        "tensorflow-ipu doc": ["doctor"],
        "tensorflow-ipu re": ["remedies", "report"],
        "tensorflow-ipu --tr": ["--traceback"],
        "tensorflow-ipu report --fo": ["--format"],
        "tensorflow-ipu report --format h": ["html"],
        "tensorflow-ipu report bef": ["before.json"],
        "tensorflow-ipu diff before.json bef": ["before.json"],
        "tensorflow-ipu report before.json -o bef": ["before.json"],
        "tensorflow-ipu run tr": ["train.py"],
        "tensorflow-ipu completion ": ["bash", "zsh"],
    }
    found = completed(tmp_path, script(capsys, "bash"), "tensorflow-ipu", cases)
    assert dict(zip(cases, found)) == cases


@pytest.mark.parametrize(
    "program, cases",
    [
        ("gc-info", {"gc-info --ipu-": ["--ipu-arch", "--ipu-count"]}),
        ("poprun", {"poprun --num-i": ["--num-instances"], "poprun tra": ["train.py"]}),
    ],
)
def test_bash_completes_the_other_programs(capsys, tmp_path, program, cases):
    (tmp_path / "train.py").touch()
    text = script(capsys, "bash", "--program", program)
    assert dict(zip(cases, completed(tmp_path, text, program, cases))) == cases


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_script_has_every_command_and_every_option(capsys, shell):
    text = script(capsys, shell)
    assert all(command.name in text for command in COMMANDS)
    (subparsers,) = (action for action in parser()._actions if action.dest == "command")
    for each in subparsers.choices.values():
        for action in each._actions:
            if action.help != argparse.SUPPRESS:
                assert all(option in text for option in action.option_strings)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_script_is_valid(capsys, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    text = script(capsys, shell)
    assert subprocess.run([shell, "-n"], input=text, text=True, timeout=60).returncode == 0


def test_without_writer_package_line_mends_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'shtab" in capsys.readouterr().err


def test_another_shell_is_a_usage_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "powershell"])
    assert "bash" in capsys.readouterr().err
