"""Tests of the search for the file of the plugin."""

from __future__ import annotations

import site
import sysconfig

import pytest

from tensorflow_ipu.cli.diagnosis import packages as packages_lib
from tensorflow_ipu.cli.diagnosis import plugin
from tensorflow_ipu.cli.diagnosis.findings import Level
from tensorflow_ipu.versions import built_for


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """The folder of packages of a made-up environment, and that of the user."""
    folders = [tmp_path / "environment" / "site-packages", tmp_path / "user" / "site-packages"]
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(folders[0]))
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(folders[0])])
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "USER_SITE", str(folders[1]))
    monkeypatch.setattr("sys.path", [])
    return folders


def put(folder):
    file = folder / "tensorflow-plugins" / built_for.LIBRARY
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_one_file_is_right(packages):
    file = put(packages[0])
    assert plugin.check() == ("plugin", Level.OK, str(file), "")


def test_none_is_a_problem(packages):
    finding = plugin.check()
    assert finding.level is Level.PROBLEM and str(packages[0]) in finding.text
    assert "--force-reinstall" in finding.mend


def test_two_are_a_problem_as_tensorflow_loads_both(packages):
    put(packages[0])
    second = put(packages[1])
    finding = plugin.check()
    assert finding.level is Level.PROBLEM and finding.mend == f"rm {second}"


def test_a_link_to_the_same_file_is_no_second_one(packages):
    file = put(packages[0])
    link = packages[1] / "tensorflow-plugins" / built_for.LIBRARY
    link.parent.mkdir(parents=True)
    link.symlink_to(file)
    assert plugin.check().level is Level.OK


@pytest.mark.parametrize(
    "recorded, installed, fits",
    [("2.15.1", "2.15.0", True), ("", "2.18.1", True), ("2.15.1", "2.18.1", False)],
    ids=["same", "not recorded", "other"],
)
def test_a_plugin_for_another_tensorflow(packages, monkeypatch, recorded, installed, fits):
    put(packages[0]).with_name(built_for.RECORD).write_text(f"{recorded}\n")
    monkeypatch.setattr(packages_lib, "tensorflow", lambda: installed)
    finding = plugin.misfit()
    assert (finding is None) == fits
    if finding is not None:
        assert finding.level is Level.PROBLEM and "pip install --no-deps" in finding.mend
        assert recorded in finding.text and installed in finding.text
