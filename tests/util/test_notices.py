"""Warnings are said once, and none is left that is said again and again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tensorflow_ipu.util.notices import warn_once
from tests.support.checkout import repository

ROOT = Path(__file__).resolve().parents[2]
_WARNS = {"warning", "warn", "warning_once", "log_first_n", "log_every_n", "log_if"}

# Warnings that are no `warn_once`, each with what they are said once for.
SAID_ONCE_FOR = {
    "tensorflow_ipu/util/notices.py": "a text, in a process",
    "tensorflow_ipu/frontends/common/executable_cache.py": "a file of another program, in the log",
    "tensorflow_ipu/frontends/popart/session_options.py": "an option, in PopART's log",
    "tensorflow_ipu/frontends/popart/session/state.py": "a call, in PopART's log",
    "tensorflow_ipu/frontends/popxl/tensor.py": "a variable, in PopART's log",
    "tensorflow_ipu/frontends/popxl_addons/module.py": "a call of a module",
    "tensorflow_ipu/frontends/popxl_addons/task_session.py": "a checkpoint that is loaded",
    "keras_layers/partial_batches.py": "a model, which remembers it",
    "keras_layers/pipelining/pipeline_programs.py": "a model, which remembers it",
    "tensorflow_ipu/compiler/store.py": "a damaged file, which is replaced",
    "tensorflow_ipu/runtime/system.py": "a change of configuration, as in the original",
    "tensorflow_ipu/distributed/popdist_strategy.py": "a strategy's reduction that is traced",
    "tensorflow_ipu/profiler/recorder.py": "a profile that asks for threads and has none",
    "tensorflow_ipu/serving/export.py": "an exported model",
}


def test_each_text_is_logged_once(caplog):
    for number in (1, 2, 1, 2, 1):
        warn_once("Number %d.", number)
    assert [record.message for record in caplog.records] == ["Number 1.", "Number 2."]


def test_one_of_a_kind_is_logged(caplog):
    for number in range(3):
        warn_once("Number %d.", number, key="number")
    assert [record.message for record in caplog.records] == ["Number 0."]


def test_notice_is_logged_at_the_callers_line(caplog):
    warn_once("Look.")
    (record,) = caplog.records
    assert (record.filename, record.funcName) == (
        "test_notices.py",
        "test_notice_is_logged_at_the_callers_line",
    )


def _warnings(path: Path) -> list[int]:
    """The lines of a file in which something is logged as a warning."""
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in _WARNS
    ]


@pytest.mark.parametrize("folder", repository.FOLDERS)
def test_warnings_go_through_warn_once(folder):
    """A new one does, or gets a line in the table that says why it is not said again and again."""
    others = {
        name: lines
        for path in (ROOT / folder).rglob("*.py")
        for name, lines in [(path.relative_to(ROOT).as_posix(), _warnings(path))]
        if lines and name not in SAID_ONCE_FOR
    }
    assert not others


def test_the_table_of_warnings_names_files_that_warn():
    assert all(_warnings(ROOT / name) for name in SAID_ONCE_FOR)
