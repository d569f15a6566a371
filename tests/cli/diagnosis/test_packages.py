"""Tests of the comparison of installed packages with those that are needed, with made-up ones."""

from __future__ import annotations

import builtins
import types
from importlib import metadata

import pytest

from tensorflow_ipu.cli.diagnosis import packages
from tensorflow_ipu.cli.diagnosis.findings import Level

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
    (finding,) = packages.check()
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
def test_what_does_not_fit_has_a_line_that_mends_it(install, versions, needed, level, words, mend):
    install(versions, needed)
    (finding,) = packages.check()
    assert (finding.level, finding.mend) == (level, mend) and words in finding.text


@pytest.mark.parametrize("name", ["tensorflow-cpu", "tf-nightly"])
def test_other_distributions_are_tensorflow_too(install, name):
    install({"tensorflow_ipu": "1.0", name: "2.15.1", "numpy": "1.26.4"})
    assert packages.check()[0].level is Level.OK and packages.tensorflow() == "2.15.1"


def test_a_distribution_without_files_overwrites_none(install):
    install({**FITTING, "tensorflow-cpu": "2.15.1"}, hollow=True)
    assert [finding.level for finding in packages.check()] == [Level.OK]


@pytest.mark.parametrize("tensorflow", ["2.15.1", ""])
def test_a_folder_with_sources_has_no_requirements(install, tensorflow):
    install({"tensorflow": tensorflow} if tensorflow else {})
    first, *rest = packages.check()
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
    (finding,) = packages.check()
    assert finding.level is Level.WARNING and "packaging" in finding.text
    assert packages.python().level is Level.OK


@pytest.mark.parametrize(
    "wanted, level", [(">=3.9,<4", Level.OK), ("<3.9", Level.PROBLEM)], ids=["fits", "other"]
)
def test_python_is_compared_with_what_the_package_is_for(monkeypatch, wanted, level):
    monkeypatch.setattr(metadata, "metadata", lambda _: {"Requires-Python": wanted})
    finding = packages.python()
    assert finding.level is level and (level is Level.OK or wanted in finding.text)
