"""Tests of the checks of what is around a program: compiler, cache, files that hide packages."""

from __future__ import annotations

import os
import stat

import pytest

from tensorflow_ipu.cli.diagnosis import machine
from tensorflow_ipu.cli.diagnosis.findings import Level


def compiler(folder, script):
    """Makes a compiler that is a script."""
    file = folder / "g++"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    "script, level, words",
    [
        ("echo 'g++ 13.2'; echo more", Level.OK, "g++ 13.2"),
        ("exit 1", Level.WARNING, "does not run"),
        (None, Level.WARNING, "g++ is not there"),
    ],
    ids=["there", "broken", "missing"],
)
def test_the_compiler_is_needed_for_custom_operations_only(
    tmp_path, monkeypatch, script, level, words
):
    if script is not None:
        compiler(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = machine.compiler()
    assert finding.level is level and words in finding.text
    assert bool(finding.mend) == (level is not Level.OK)


class TestCache:
    def test_without_one_there_is_a_line_that_sets_it(self):
        finding = machine.cache("")
        assert finding.level is Level.OK and "--executable_cache_path=" in finding.mend

    def test_its_files_are_counted(self, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(bytes(1_500_000))
        assert "2 files, 3.0 MB" in machine.cache(str(tmp_path)).text

    def test_one_that_is_not_there_yet_is_made(self, tmp_path):
        finding = machine.cache(str(tmp_path / "new" / "folder"))
        assert finding.level is Level.OK and "is made" in finding.text

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "file").touch()
        assert machine.cache(str(tmp_path / "file")).level is Level.WARNING
        assert machine.cache(str(tmp_path / "file" / "below")).level is Level.WARNING

    def test_one_that_cannot_be_written_is_a_warning(self, tmp_path, monkeypatch):
        # Tests may run as root, who may write everywhere.
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "cannot be written" in machine.cache(str(tmp_path)).text
        assert "cannot be made" in machine.cache(str(tmp_path / "new")).text


@pytest.mark.parametrize("name", ["tensorflow.py", "keras/__init__.py"])
def test_files_with_names_of_packages_hide_these(tmp_path, name):
    assert machine.hiding_files(tmp_path) is None
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    finding = machine.hiding_files(tmp_path)
    assert finding.level is Level.WARNING and finding.mend.startswith(f"mv {name.split('/')[0]} ")


def test_variables_of_poprun_make_programs_wait():
    variables = ("POPDIST_NUM_INSTANCES", "POPDIST_INSTANCE_INDEX")
    assert machine.instance({}, variables) is None
    finding = machine.instance({"POPDIST_NUM_INSTANCES": "2"}, variables)
    assert finding.level is Level.WARNING and finding.mend == "unset POPDIST_NUM_INSTANCES"
