"""Each row of the tables in a program: run as it stands, and migrated and run by plain Python.

All rows of one kind of program are in one, as each needs a process with TensorFlow in it. What the
programs print are the real names of what they got, by each row.
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys

import pytest

from tensorflow_ipu.cli.main import main
from tensorflow_ipu.compat import finder, tables
from tensorflow_ipu.compat.rows import KERAS_2, is_below

SHOW = """\
def show(old, value):
    module = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    print(old, module, getattr(value, "__qualname__", type(value).__name__))

"""


def real_name(value):
    module = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return f"{module} {getattr(value, '__qualname__', type(value).__name__)}"


def lines_of(names):
    """Returns lines that use names as attributes and import them, with the output of each."""
    lines, expected = [], []
    for number, row in enumerate(names):
        module, _, name = row.old.rpartition(".")
        printed = f"{row.old} {real_name(finder.resolve(row.new))}"
        # The code of TensorFlow is imported, not found in `tf`.
        if not is_below(row.old, "tensorflow.python"):
            lines.append(f"show({row.old!r}, {row.old.replace('tensorflow.', 'tf.', 1)})")
            expected.append(printed)
        lines.append(f"from {module} import {name} as name_{number}")
        lines.append(f"show({row.old!r}, name_{number})")
        expected.append(printed)
    return lines, expected


def class_of(row):
    """Returns a name that a module of the tables has."""
    for name in row.new:
        module = importlib.import_module(name)
        for key, value in sorted(vars(module).items()):
            known = inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)
            if key[0].isalpha() and key != "tf" and known:
                return key, value
    raise AssertionError(f"{row.new} have no names")


def lines_of_modules(rows):
    """Returns lines that import modules and their names, with the output of each."""
    lines, expected = [], []
    for number, row in enumerate(rows):
        name, value = class_of(row)
        lines.append(f"from {row.old} import {name} as value_{number}")
        lines.append(f"show({row.old!r}, value_{number})")
        expected.append(f"{row.old} {real_name(value)}")
        if len(row.new) == 1:
            lines.append(f"import {row.old} as module_{number}")
            lines.append(f"show({row.old!r}, module_{number}.{name})")
            expected.append(expected[-1])
    return lines, expected


def programs():
    """Returns programs by name: the text and its output."""
    small = [row for row in tables.NAMES.values() if not is_below(row.old, "tensorflow")]
    small = [row for row in small if not is_below(row.old, KERAS_2)]
    roots = sorted({row.old.split(".")[0] for row in small})
    contrib = [row for row in tables.NAMES.values() if is_below(row.old, "tensorflow.contrib")]
    rest = [
        row
        for row in tables.NAMES.values()
        if is_below(row.old, "tensorflow") and row not in contrib
    ]
    modules = [
        row for row in tables.MODULES.values() if not is_below(row.old, "tensorflow.contrib")
    ]
    found = {}
    for name, imports, parts in (
        ("python", roots, [lines_of(small)]),
        ("contrib", ["tensorflow as tf"], [lines_of(contrib)]),
        ("keras", ["tensorflow as tf"], [lines_of(rest), lines_of_modules(modules)]),
    ):
        lines = [line for part, _ in parts for line in part]
        expected = [line for _, part in parts for line in part]
        head = "".join(f"import {one}\n" for one in imports)
        found[name] = (head + SHOW + "\n".join(lines) + "\n", expected)
    return found


@pytest.fixture(scope="module")
def texts():
    return programs()


def output_of(*command):
    process = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines(), process.stderr


@pytest.mark.process
@pytest.mark.parametrize("name", ["python", "contrib", "keras"])
def test_every_row_of_tables_works_in_a_program(texts, tmp_path, capsys, name):
    text, expected = texts[name]
    path = tmp_path / "program.py"
    path.write_text(text)
    lines, errors = output_of("-m", "tensorflow_ipu.cli", "run", str(path))
    assert lines == expected
    assert f"{path}:" in errors and "shims used\n" in errors
    assert main(["migrate", "--write", str(path)]) == 0, capsys.readouterr().out
    changed = path.read_bytes()
    assert output_of(str(path))[0] == expected
    assert main(["migrate", "--write", str(path)]) == 0
    assert main(["migrate", str(path)]) == 0
    assert path.read_bytes() == changed
