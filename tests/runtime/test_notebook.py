"""Displays of a program in a notebook, with a stand-in for IPython."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from tensorflow_ipu.compiler.observers import Progress
from tensorflow_ipu.compiler.source_map import SourceLocation
from tensorflow_ipu.runtime import notebook

CELL = "/tmp/ipykernel_7/1869184465.py"


class Handle:
    """The handle that `display` returns: it keeps all shown objects."""

    def __init__(self, shown: Any) -> None:
        self.shown = [shown]

    def update(self, shown: Any) -> None:
        self.shown.append(shown)


class Compiler:
    """IPython's compiler of cells, which knows one."""

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        return ("Cell", "In[3]") if name == CELL else None


@pytest.fixture
def displays(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """Puts the program into a notebook; returns its displays."""
    made: list[Handle] = []

    def display(shown: Any, *, display_id: bool) -> Handle:
        assert display_id
        made.append(Handle(shown))
        return made[-1]

    shell = types.SimpleNamespace(kernel=object(), compile=Compiler())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return made


def test_a_script_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not notebook.is_running()
    assert notebook.cell_of(CELL) is None


def test_ipython_terminal_has_cells_but_no_notebook(
    displays: list[Handle], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = types.SimpleNamespace(compile=Compiler())
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    assert not notebook.is_running()
    assert notebook.cell_of(CELL) == "In[3]"


def test_ipython_that_is_imported_by_script_changes_nothing(
    displays: list[Handle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not notebook.is_running()
    assert notebook.cell_of(CELL) is None


def test_lines_of_notebook_are_those_of_its_cells(displays: list[Handle]) -> None:
    assert notebook.is_running()
    assert str(SourceLocation(CELL, 4, "stage")) == "In[3]:4 (stage)"
    assert str(SourceLocation("/home/user/train.py", 4, "stage")) == "train.py:4 (stage)"


def test_compilation_is_bar_that_moves_in_its_place(
    displays: list[Handle], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress("cluster<1>", 4, "auto")
    for _ in range(4):
        progress.advance()
    (handle,) = displays
    assert [repr(state) for state in handle.shown[:4]] == [
        f"Compiling cluster<1>: {share}%" for share in (0, 25, 50, 75)
    ]
    assert repr(handle.shown[4]).startswith("Compiled cluster<1> in ")
    assert 'value="0.500"' in handle.shown[2]._repr_html_()
    assert "cluster&lt;1&gt;" in handle.shown[2]._repr_html_()
    assert "<progress" not in handle.shown[4]._repr_html_()
    assert capsys.readouterr() == ("", "")


def test_the_flag_turns_the_bar_off(displays: list[Handle]) -> None:
    Progress("cluster", 1, "false").advance()
    assert not displays


def test_a_script_has_its_bar_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    Progress("cluster", 2, "auto").advance()
    assert capsys.readouterr() == ("", "")  # no terminal
    progress = Progress("cluster", 2, "true")
    progress.advance()
    progress.advance()
    shown = capsys.readouterr().err
    assert shown.startswith("Compiling module cluster:\n\r[####") and "100%" in shown
    assert shown.endswith(" s\n")
