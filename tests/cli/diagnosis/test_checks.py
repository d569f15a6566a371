"""Tests of the comparison of installed packages with those that are needed, with made-up ones."""

from __future__ import annotations

import builtins
import os
import site
import stat
import sysconfig
import types
from importlib import metadata

import pytest

from tensorflow_ipu.cli.diagnosis import checks
from tensorflow_ipu.cli.diagnosis import checks as packages_lib
from tensorflow_ipu.cli.diagnosis.checks import Level
from tensorflow_ipu.import_hook.versions import built_for

NEEDED = ("tensorflow<2.16,>=2.15", "numpy<2,>=1.23.5", 'pytest>=8; extra == "test"')


FITTING = {"tensorflow_ipu": "1.0", "tensorflow": "2.15.1", "numpy": "1.26.4"}


@pytest.fixture
def install(monkeypatch):
    """Returns a function that makes an environment seem to have other packages."""

    def make(versions, needed=NEEDED, hollow=False):
        def version(name):
            if name not in versions:
                raise metadata.PackageNotFoundError(name)
            return versions[name]

        record = "" if hollow else "a,,\ntensorflow/__init__.py,sha256=x,1\n"
        found = types.SimpleNamespace(read_text=lambda _: record)
        monkeypatch.setattr(metadata, "distribution", lambda _: found)
        monkeypatch.setattr(metadata, "version", version)
        monkeypatch.setattr(metadata, "requires", lambda _: list(needed))

    return make


def test_packages_that_fit_are_one_line(install):
    install(FITTING)
    (finding,) = checks.requirements()
    assert finding.level is Level.OK and not finding.mend
    assert "tensorflow 2.15.1, numpy 1.26.4" in finding.text and "pytest" not in finding.text


@pytest.mark.parametrize(
    "versions, needed, level, words, mend",
    [
        (
            {**FITTING, "tensorflow": "2.18.1"},
            NEEDED,
            Level.PROBLEM,
            "tensorflow 2.18.1 is installed; expected <2.16,>=2.15",
            "pip install 'tensorflow<2.16,>=2.15'",
        ),
        (
            {"tensorflow_ipu": "1.0", "numpy": "1.26.4"},
            ["tensorflow==2.18.*"],
            Level.PROBLEM,
            "tensorflow is not installed; expected ==2.18.*",
            "pip install 'tensorflow==2.18.*'",
        ),
        (
            {**FITTING, "numpy": "2.1.0"},
            NEEDED,
            Level.WARNING,
            "numpy 2.1.0 is installed; expected <2,>=1.23.5",
            "pip install 'numpy<2,>=1.23.5'",
        ),
        (
            {**FITTING, "tensorflow-cpu": "2.15.0"},
            NEEDED,
            Level.WARNING,
            "tensorflow and tensorflow-cpu are both installed",
            "pip uninstall tensorflow-cpu",
        ),
        (
            {"tensorflow_ipu": "1.0", "tensorflow": "2.18.1"},
            ["tensorflow==2.18.*", "tf_keras==2.18.*"],
            Level.PROBLEM,
            "tf_keras is not installed; expected ==2.18.*",
            "pip install 'tf_keras==2.18.*'",
        ),
    ],
    ids=["another TensorFlow", "none", "another NumPy", "two TensorFlows", "no Keras 2"],
)
def test_misfit_has_line_that_mends_it(install, versions, needed, level, words, mend):
    install(versions, needed)
    (finding,) = checks.requirements()
    assert (finding.level, finding.mend) == (level, mend) and words in finding.text


@pytest.mark.parametrize("name", ["tensorflow-cpu", "tf-nightly"])
def test_other_distributions_are_tensorflow_too(install, name):
    install({"tensorflow_ipu": "1.0", name: "2.15.1", "numpy": "1.26.4"})
    assert checks.requirements()[0].level is Level.OK and checks.tensorflow() == "2.15.1"


def test_a_distribution_without_files_overwrites_none(install):
    install({**FITTING, "tensorflow-cpu": "2.15.1"}, hollow=True)
    assert [finding.level for finding in checks.requirements()] == [Level.OK]


@pytest.mark.parametrize("tensorflow", ["2.15.1", ""])
def test_a_folder_with_sources_has_no_requirements(install, tensorflow):
    install({"tensorflow": tensorflow} if tensorflow else {})
    first, *rest = checks.requirements()
    assert first.level is Level.WARNING and "not installed" in first.text
    assert [finding.level for finding in rest] == ([] if tensorflow else [Level.PROBLEM])


def test_nothing_is_compared_without_packaging(install, monkeypatch):
    real = builtins.__import__

    def importing(name, *rest, **options):
        if name.startswith("packaging"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *rest, **options)

    install(FITTING)
    monkeypatch.setattr(builtins, "__import__", importing)
    (finding,) = checks.requirements()
    assert finding.level is Level.WARNING and "packaging" in finding.text
    assert checks.python().level is Level.OK


@pytest.mark.parametrize(
    "wanted, level", [(">=3.9,<4", Level.OK), ("<3.9", Level.PROBLEM)], ids=["fits", "other"]
)
def test_python_is_compared_with_what_package_is_for(monkeypatch, wanted, level):
    monkeypatch.setattr(metadata, "metadata", lambda _: {"Requires-Python": wanted})
    finding = checks.python()
    assert finding.level is level and (level is Level.OK or wanted in finding.text)


# --- Plugin ---


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """The folders of packages of a made-up environment and of its user."""
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
    assert checks.plugin() == ("plugin", Level.OK, str(file), "")


def test_none_is_a_problem(packages):
    finding = checks.plugin()
    assert finding.level is Level.PROBLEM and str(packages[0]) in finding.text
    assert "--force-reinstall" in finding.mend


def test_two_are_a_problem_as_tensorflow_loads_both(packages):
    put(packages[0])
    second = put(packages[1])
    finding = checks.plugin()
    assert finding.level is Level.PROBLEM and finding.mend == f"rm {second}"


def test_link_to_same_file_is_no_second_one(packages):
    file = put(packages[0])
    link = packages[1] / "tensorflow-plugins" / built_for.LIBRARY
    link.parent.mkdir(parents=True)
    link.symlink_to(file)
    assert checks.plugin().level is Level.OK


@pytest.mark.parametrize(
    "recorded, installed, fits",
    [("2.15.1", "2.15.0", True), ("", "2.18.1", True), ("2.15.1", "2.18.1", False)],
    ids=["same", "not recorded", "other"],
)
def test_a_plugin_for_another_tensorflow(packages, monkeypatch, recorded, installed, fits):
    put(packages[0]).with_name(built_for.RECORD).write_text(f"{recorded}\n")
    monkeypatch.setattr(packages_lib, "tensorflow", lambda: installed)
    finding = checks.misfit()
    assert (finding is None) == fits
    if finding is not None:
        assert finding.level is Level.PROBLEM and "pip install --no-deps" in finding.mend
        assert recorded in finding.text and installed in finding.text


# --- Compiler, cache and folder ---


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
    finding = checks.compiler()
    assert finding.level is level and words in finding.text
    assert bool(finding.mend) == (level is not Level.OK)


class TestCache:
    def test_without_one_there_is_line_that_sets_it(self):
        finding = checks.cache("")
        assert finding.level is Level.OK and "--executable_cache_path=" in finding.mend

    def test_its_files_are_counted(self, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(bytes(1_500_000))
        assert "2 files, 3.0 MB" in checks.cache(str(tmp_path)).text

    def test_one_that_is_not_there_yet_is_made(self, tmp_path):
        finding = checks.cache(str(tmp_path / "new" / "folder"))
        assert finding.level is Level.OK and "is made" in finding.text

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "file").touch()
        assert checks.cache(str(tmp_path / "file")).level is Level.WARNING
        assert checks.cache(str(tmp_path / "file" / "below")).level is Level.WARNING

    def test_one_that_cannot_be_written_is_a_warning(self, tmp_path, monkeypatch):
        # Tests may run as root, who may write everywhere.
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert "cannot be written" in checks.cache(str(tmp_path)).text
        assert "cannot be made" in checks.cache(str(tmp_path / "new")).text


@pytest.mark.parametrize("name", ["tensorflow.py", "keras/__init__.py"])
def test_files_with_names_of_packages_hide_these(tmp_path, name):
    assert checks.hiding_files(tmp_path) is None
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    finding = checks.hiding_files(tmp_path)
    assert finding.level is Level.WARNING and finding.mend.startswith(f"mv {name.split('/')[0]} ")


def test_variables_of_poprun_make_programs_wait():
    variables = ("POPDIST_NUM_INSTANCES", "POPDIST_INSTANCE_INDEX")
    assert checks.instance({}, variables) is None
    finding = checks.instance({"POPDIST_NUM_INSTANCES": "2"}, variables)
    assert finding.level is Level.WARNING and finding.mend == "unset POPDIST_NUM_INSTANCES"


# --- Tests of the checks of environment variables, each with the line that mends it ---
