"""`tensorflow-ipu migrate` and `run` on the command line: output, exit codes, bad input."""

from __future__ import annotations

import random
import re

import pytest

from tensorflow_ipu.cli.main import main
from tests.cli import mutations

PROGRAM = """\
import numpy as np
import tensorflow as tf
from collections import (Mapping,
                         OrderedDict)
from keras.layers.recurrent import GRU

x = tf.placeholder(tf.float32, [8 / 2, int(3)])  # a comment: np.int
y = tf.contrib.layers.flatten(x).astype(np.float)
z = tf.contrib.slim.conv2d if thread.isAlive() else json.loads("[1]", encoding="utf-8")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def run(capsys, *arguments):
    """Runs the tool; returns the exit code and both streams."""
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_every_use_has_a_line(capsys, program):
    code, out, _ = run(capsys, "migrate", "program.py")
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("program.py:2: import tensorflow as tf: import tensorflow.compat.v1")
    assert [line.split(":")[1] for line in lines[:-1]] == [*"235788 9 9".replace(" ", "")]
    assert any("(by hand)" in line and "tf_slim" in line for line in lines)
    assert lines[-1] == "8 uses to change, 1 by hand; --write makes the changes that it can"
    assert program.read_text() == PROGRAM


def test_diff_shows_what_write_does(capsys, program):
    code, out, _ = run(capsys, "migrate", "--diff", "program.py")
    assert code == 1 and program.read_text() == PROGRAM
    added = [line[1:] for line in out.splitlines() if line[0] == "+" and line[1:3] != "++"]
    program.chmod(0o640)
    code, out, _ = run(capsys, "migrate", "--write", "program.py")
    assert code == 1
    assert out.splitlines()[0] == "wrote program.py: 7 changed"
    assert "tf_slim" in out.splitlines()[1] and len(out.splitlines()) == 2
    assert program.stat().st_mode & 0o777 == 0o640
    changed = program.read_text().splitlines()
    assert [line for line in changed if line not in PROGRAM.splitlines()] == added
    assert "[8 // 2, int(3)])  # a comment: np.int" in program.read_text()
    assert run(capsys, "migrate", "--write", "program.py")[0] == 1
    assert program.read_text().splitlines() == changed


def test_a_file_without_changes_is_not_written(capsys, program):
    program.write_text("x = 1\n")
    before = program.stat()
    assert run(capsys, "migrate", "--write", "program.py") == (0, "", "")
    assert run(capsys, "migrate", "program.py") == (0, "nothing to change\n", "")
    after = program.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_folder_is_all_files_in_it(capsys, program):
    (program.parent / "package").mkdir()
    (program.parent / "package" / "part.py").write_text("import tensorflow as tf\n")
    out = run(capsys, "migrate", ".")[1]
    assert "package/part.py:1: import tensorflow as tf: import tensorflow.compat.v1 as tf" in out
    out = run(capsys, "migrate", "--tensorflow", "2", ".")[1]
    assert "package/part.py" not in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["migrate", "nothing.py"], "nothing.py: no such file"),
        (["migrate", "report.json"], "report.json is no Python file: expected a program"),
        (["migrate", "empty"], "empty: no Python file in this folder"),
        (["migrate", "old.py"], "old.py:1: not Python 3: .* This is Python 2"),
        (["migrate", "program.py", "old.py", "--write"], "old.py:1: not Python 3"),
        (["run", "nothing.py"], "No such file or directory: 'nothing.py'"),
        (["run", "empty"], "empty is a folder without a file __main__.py"),
        (["run", "-m", "nothing.at_all"], "No module named nothing.at_all"),
        (["run", "-m", "_json"], "No module named _json with Python source"),
    ],
)
def test_bad_input_is_one_line(capsys, program, arguments, words):
    (program.parent / "empty").mkdir()
    (program.parent / "old.py").write_text("print 'a'\n")
    (program.parent / "report.json").write_text("{}\n")
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith(f"tensorflow-ipu {arguments[0]}: ")
    assert re.search(words, err)
    assert program.read_text() == PROGRAM


def test_damaged_programs_are_migrated_or_refused(tmp_path):
    """Files that parse are migrated to files that parse; other files stay unchanged."""
    path = tmp_path / "program.py"
    codes = set()
    for number in range(150):
        draw = random.Random(number)
        content = bytearray(PROGRAM.encode())
        for _ in range(draw.choice((1, 1, 2, 5))):
            place = draw.randrange(len(content))
            size = draw.choice((0, 1, 1, 8))
            content[place : place + size] = bytes(
                draw.choices(b"()\n .,#=ab'/\xff\0", k=size // 2 + 1)
            )
        path.write_bytes(content)
        for options in ([], ["--diff"], ["--write"], ["--write"]):
            outcome = mutations.run(["migrate", *options, str(path)])
            assert not outcome.problem, f"case {number}: {outcome.problem}"
            codes.add(outcome.code)
        if outcome.code == 2:
            assert path.read_bytes() == content
        else:
            compile(path.read_bytes(), "program.py", "exec", dont_inherit=True)
    assert codes == {0, 1, 2}
