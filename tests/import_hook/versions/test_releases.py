"""The table of releases: against the metadata of the TensorFlow that is here, and its own order."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tensorflow_ipu.import_hook.versions import releases

ROOT = Path(__file__).resolve().parents[3]
PRINT_REQUIREMENTS = [sys.executable, str(ROOT / "build_backend" / "requirements.py")]
PYTHONS = [(3, minor) for minor in range(7, 16)]
# Releases of NumPy and protobuf at which some TensorFlow begins or ends.
NUMPY = ["1.22", "1.23.5", "1.26.4", "2.0.2", "2.1.3", "2.2.6", "2.5.5", "3.0"]
PROTOBUF = ["3.19.6", "3.20.3", "4.21.5", "4.25.9", "5.27", "5.29.6", "6.30", "6.33", "7.36", "8.0"]


@pytest.mark.parametrize(("package", "versions"), [("numpy", NUMPY), ("protobuf", PROTOBUF)])
def test_no_version_is_taken_that_installed_tensorflow_refuses(package, versions):
    release = releases.of_version(metadata.version("tensorflow"))
    ours = next(Requirement(r) for r in release.requirements() if r.startswith(package))
    theirs = [Requirement(text) for text in metadata.requires("tensorflow") or ()]
    theirs = [r for r in theirs if r.name == package and (not r.marker or r.marker.evaluate())]
    taken = [version for version in versions if ours.specifier.contains(version)]
    assert taken
    assert all(r.specifier.contains(version) for r in theirs for version in taken)


def test_the_installed_versions_are_among_the_requirements():
    release = releases.of_version(metadata.version("tensorflow"))
    for text in release.requirements():
        needed = Requirement(text)
        assert needed.specifier.contains(metadata.version(needed.name)), text
    python = ".".join(map(str, sys.version_info[:2]))
    assert SpecifierSet(release.requires_python).contains(python)


@pytest.mark.parametrize("release", releases.RELEASES, ids=lambda release: release.tensorflow)
def test_pythons_are_the_same_in_both_forms(release):
    written = SpecifierSet(release.requires_python)
    for python in PYTHONS:
        assert written.contains("{}.{}".format(*python)) == release.has_python(python)


@pytest.mark.parametrize(
    ("python", "default", "newest"),
    [
        ((3, 8), None, None),
        ((3, 9), "2.15", "2.20"),
        ((3, 11), "2.15", "2.21"),
        ((3, 12), "2.21", "2.21"),
        ((3, 13), "2.21", "2.21"),
        ((3, 14), None, None),
    ],
)
def test_each_python_has_its_release(python, default, newest):
    assert getattr(releases.default_for(python), "tensorflow", None) == default
    assert getattr(releases.newest_for(python), "tensorflow", None) == newest


def test_releases_are_found_by_the_version_of_tensorflow():
    assert releases.of_version("2.18.1").tensorflow == "2.18"
    assert releases.of_version("2.20.0rc0").tensorflow == "2.20"
    assert releases.of_version("2.1.8") is None
    assert releases.of_version("") is None


def test_keras_2_is_required_beside_keras_3():
    with_keras = [r.tensorflow for r in releases.RELEASES if "tf_keras" in str(r.requirements())]
    assert with_keras == ["2.16", "2.17", "2.18", "2.19", "2.20", "2.21"]


def test_makefile_gets_requirements_of_a_release_by_name():
    release = releases.newest_for(sys.version_info)
    command = [*PRINT_REQUIREMENTS, release.tensorflow]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == release.requirements()


def test_release_not_supported_is_error_with_those():
    process = subprocess.run([*PRINT_REQUIREMENTS, "2.14"], capture_output=True, text=True)
    assert process.returncode == 1
    assert re.search(r"no TensorFlow 2\.14 for Python 3\.\d+\. Take one of .*2\.21", process.stderr)


def test_the_page_has_every_release_with_its_pythons():
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (2\.[\d., ]+) \| ([\d.]+) to ([\d.]+) \|", page, re.MULTILINE)
    table = {name: (old, new) for names, old, new in lines for name in names.split(", ")}
    assert table == {release.tensorflow: release.pythons for release in releases.RELEASES}
