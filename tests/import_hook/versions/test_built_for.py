"""A native library for another TensorFlow: found out before TensorFlow loads it."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import tensorflow_ipu
from tensorflow_ipu.import_hook.versions import built_for, releases

ROOT = Path(__file__).resolve().parents[3]
HERE = metadata.version("tensorflow")
VERSION = tensorflow_ipu.__version__
PYTHON = ".".join(map(str, sys.version_info[:3]))
IMPORT_TENSORFLOW = """
import sys, sysconfig
get_path = sysconfig.get_path
# Where the library is. TensorFlow itself stays where it is.
sysconfig.get_path = lambda name: sys.argv[1] if name in ("platlib", "purelib") else get_path(name)
try:
    import tensorflow
except ImportError as error:
    print(error, "tensorflow" in sys.modules)
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The folder of plugins of an environment that has nothing else."""
    folder = tmp_path / "tensorflow-plugins"
    folder.mkdir()
    monkeypatch.setattr(built_for.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(built_for.site, "ENABLE_USER_SITE", False)
    return folder


def install(plugins, record):
    (plugins / built_for.LIBRARY).touch()
    if record is not None:
        (plugins / built_for.RECORD).write_text(f"{record}\n")


def tensorflow(folder, version, name="tensorflow"):
    """Makes the folder of a TensorFlow, with its distribution and others beside it."""
    for distribution in (f"{name}-{version}", "tensorflow_estimator-2.9.0", "tensorflow_ipu-9.9"):
        (folder / f"{distribution}.dist-info").mkdir(parents=True)
    return folder / "tensorflow"


def test_importing_tensorflow_names_versions_without_loading(run_python, tmp_path):
    (tmp_path / "tensorflow-plugins").mkdir()
    install(tmp_path / "tensorflow-plugins", "2.14.1")
    message = run_python(IMPORT_TENSORFLOW, args=[str(tmp_path)]).stdout
    assert (
        f"The native library of tensorflow_ipu {VERSION} here was built for TensorFlow 2.14.1, and "
        f"this is TensorFlow {HERE} (Python {PYTHON})." in message
    )
    assert message.endswith(" False\n")


def test_the_installed_library_is_for_the_installed_tensorflow():
    folder = (
        Path(sys.modules["tensorflow"].__file__).parent if "tensorflow" in sys.modules else None
    )
    if folder is not None:
        built_for.check(folder)
    assert releases.of_version(built_for.recorded() or HERE) == releases.of_version(HERE)


@pytest.mark.parametrize("distribution", ["tensorflow", "tensorflow_cpu", "tensorflow_cpu_aws"])
def test_another_release_is_an_error(plugins, tmp_path, distribution):
    install(plugins, "2.15.1")
    with pytest.raises(ImportError, match=r"for TensorFlow 2\.15\.1, and .* TensorFlow 2\.18\.1 "):
        built_for.check(tensorflow(tmp_path / "site", "2.18.1", distribution))


@pytest.mark.parametrize(
    ("record", "version"),
    [
        ("2.15.1", "2.15.0.post1"),
        ("2.21.0", "2.21.1rc0"),
        (None, "2.18.1"),  # a library of an earlier tensorflow_ipu
    ],
)
def test_library_of_same_release_or_unrecorded_passes(plugins, tmp_path, record, version):
    install(plugins, record)
    built_for.check(tensorflow(tmp_path / "site", version))


def test_tensorflow_without_a_distribution_and_no_library_pass(plugins, tmp_path):
    built_for.check(tensorflow(tmp_path / "site", "2.18.1"))
    install(plugins, "2.15.1")
    built_for.check(tmp_path / "elsewhere" / "tensorflow")


def test_the_library_of_this_user_counts(plugins, tmp_path, monkeypatch):
    user = tmp_path / "user"
    (user / "tensorflow-plugins").mkdir(parents=True)
    install(user / "tensorflow-plugins", "2.15.1")
    monkeypatch.setattr(built_for.site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(built_for.site, "getusersitepackages", lambda: str(user))
    assert built_for.recorded() == "2.15.1"


@pytest.mark.parametrize(
    ("library", "here", "python", "lines"),
    [
        (
            "2.18.1",
            "2.20.0",
            (3, 12, 1),
            [
                f"pip install --no-deps 'tensorflow_ipu=={VERSION}+tf2.20'",
                "pip install 'tensorflow==2.18.*' 'tf_keras==2.18.*'",
            ],
        ),
        ("2.15.1", "2.20.0", (3, 13, 0), [f"--no-deps 'tensorflow_ipu=={VERSION}+tf2.20'"]),
        ("2.15.1", "2.22.0", (3, 11, 7), ["only for 2.15, 2.16", "'tensorflow==2.15.*'"]),
    ],
)
def test_what_mends_it_is_said(monkeypatch, tmp_path, library, here, python, lines):
    monkeypatch.setattr(built_for, "__file__", str(tmp_path / "a" / "b" / "c"))
    monkeypatch.setattr(built_for.sys, "version_info", python)
    message = built_for.mismatch(library, here)
    assert [line in message for line in lines] == [True] * len(lines)
    assert message.count("pip install") == len([line for line in lines if "==" in line])
    assert "2.14" not in message


def test_in_a_checkout_it_is_built_again(monkeypatch):
    place = ROOT / "tensorflow_ipu/import_hook/versions/built_for.py"  # here it may be installed
    monkeypatch.setattr(built_for, "__file__", str(place))
    message = built_for.mismatch("2.18.1", "2.20.0")
    assert f"pip install --no-deps -e {ROOT}." in message


def test_sources_that_are_not_installed_have_error_too(monkeypatch):
    def version(name):
        raise built_for.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(built_for.metadata, "version", version)
    assert f"tensorflow_ipu {tensorflow_ipu.__version__} here" in built_for.mismatch("2.15", "2.18")


def test_library_is_compiled_with_the_flags_of_tensorflow():
    """Other flags would change the classes in its headers."""
    import tensorflow as tf

    makefile = (ROOT / "native" / "Makefile").read_text(encoding="utf-8")
    (ours,) = re.findall(r"^ABI := (.*)$", makefile, re.MULTILINE)
    theirs = [flag.replace("--std", "-std") for flag in tf.sysconfig.get_compile_flags()]
    assert {flag for flag in theirs if not flag.startswith("-I")} == {*ours.split()} - {"-DNDEBUG"}
