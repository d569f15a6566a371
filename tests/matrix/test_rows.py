"""Which rows the matrix has, and where it finds Pythons."""

from __future__ import annotations

import sys

import pytest

from tensorflow_ipu.import_hook.versions.releases import RELEASES
from tests.matrix import rows

HERE = "{}.{}".format(*sys.version_info[:2])


def test_rows_cover_each_release_and_python():
    names = [row.name for row in rows.rows("")]
    assert names[:4] == ["2.15-py3.9", "2.15-py3.10", "2.15-py3.11", "2.16-py3.12"]
    assert names[-2:] == ["2.21-py3.12", "2.21-py3.13"]
    assert {name.partition("-")[0] for name in names} == {r.tensorflow for r in RELEASES}
    assert {name.partition("-py")[2] for name in names} == {*rows.PYTHONS}


def test_patterns_choose_rows_among_all_that_there_are():
    names = [row.name for row in rows.rows("2.2?-py3.13 2.15-py3.9 2.16-*")]
    sixteen = [f"2.16-py{python}" for python in ("3.9", "3.10", "3.11", "3.12")]
    assert names == ["2.15-py3.9", *sixteen, "2.20-py3.13", "2.21-py3.13"]
    assert len(rows.rows("*")) == 28


def test_a_pattern_without_a_row_is_an_error():
    with pytest.raises(ValueError, match=r"MATRIX_ROWS='2\.15-py3\.13' fits none of these: 2\.15-"):
        rows.rows("2.16-* 2.15-py3.13")


def test_a_python_is_found_by_its_version(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert rows.interpreter(HERE) is None
    folder = tmp_path / "versions" / f"{HERE}.99" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    assert rows.interpreter(HERE) == str(folder / "python")
    # One with another version, such as a command of pyenv that refuses to run.
    other = tmp_path / "versions" / "3.8.1" / "bin"
    other.mkdir(parents=True)
    (other / "python").symlink_to(sys.executable)
    assert rows.interpreter("3.8") is None


def test_newest_has_the_newest_python_that_is_here(monkeypatch):
    here = {"3.9": "/old/python", "3.11": "/new/python"}
    monkeypatch.setattr(rows, "interpreter", here.get)
    assert rows.newest() == ("2.21", "/new/python")
    del here["3.11"]
    assert rows.newest() == ("2.20", "/old/python")
    here.clear()
    with pytest.raises(LookupError, match=r"Python 3\.9, 3\.10"):
        rows.newest()
