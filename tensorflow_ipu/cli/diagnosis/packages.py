"""Checks of Python and installed packages against the requirements, without importing them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from tensorflow_ipu.cli.diagnosis.findings import Finding, Level

_PACKAGE = "tensorflow_ipu"
_SUBJECT = "packages"
_TENSORFLOW = "tensorflow"

# Argument of pip: the sources where the package is used in place, else the package.
_CHECKOUT = Path(__file__).resolve().parents[3]
_SOURCE = f"-e {_CHECKOUT}" if (_CHECKOUT / "setup.py").exists() else _PACKAGE

#: The line that installs the package with all that it needs.
INSTALL = f"pip install {_SOURCE}"
#: The line that installs the package again, and nothing else.
REINSTALL = f"pip install --force-reinstall --no-deps {_SOURCE}"

# Distributions that are TensorFlow, too, under names of their own.
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly")


def python() -> Finding:
    """Checks that the package supports this version of Python."""
    version = platform.python_version()
    text = f"{version}, {sys.executable}"
    try:
        wanted = metadata.metadata(_PACKAGE)["Requires-Python"] or ""
        fits = _specifiers(wanted).contains(version, prereleases=True)
    except (metadata.PackageNotFoundError, ImportError):
        return Finding("Python", Level.OK, text)
    if fits:
        return Finding("Python", Level.OK, text)
    text = f"{text}; expected {wanted}: make an environment with such a Python"
    return Finding("Python", Level.PROBLEM, text)


def check() -> list[Finding]:
    """Compares the installed packages with the requirements."""
    try:
        version, needed = metadata.version(_PACKAGE), list(_needed())
    except metadata.PackageNotFoundError:
        text = "tensorflow_ipu is not installed for this Python, which reads it from a folder"
        return [Finding(_SUBJECT, Level.WARNING, text, INSTALL), *_no_tensorflow()]
    except ImportError as error:
        warning = Finding(_SUBJECT, Level.WARNING, f"not compared: {error}", INSTALL)
        return [warning, *_no_tensorflow()]
    found = [finding for need in needed if (finding := _compared(need)) is not None]
    found += _several_tensorflows()
    if found:
        return found
    have = ", ".join(f"{need.name} {installed(need.name)}" for need in needed)
    return [Finding(_SUBJECT, Level.OK, f"{_PACKAGE} {version}, {have}")]


def installed(name: str) -> str:
    """Returns the version of a package, or of an equivalent one; empty if there is none.

    Args:
        name: of the distribution.
    """
    for each in _TENSORFLOWS if name == _TENSORFLOW else (name,):
        try:
            return metadata.version(each)
        except metadata.PackageNotFoundError:
            continue
    return ""


def tensorflow() -> str:
    """Returns the version of the installed TensorFlow, empty without one."""
    return installed(_TENSORFLOW)


def _no_tensorflow() -> list[Finding]:
    """Returns a finding if no version of TensorFlow is installed."""
    if tensorflow():
        return []
    return [Finding(_SUBJECT, Level.PROBLEM, "tensorflow is not installed", INSTALL)]


def _specifiers(text: str) -> Any:
    """Reads a range of versions."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(text)


def _needed() -> Iterator[Any]:
    """Yields the package's requirements that apply here."""
    from packaging.requirements import Requirement

    for line in metadata.requires(_PACKAGE) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _compared(need: Any) -> Finding | None:
    """Compares a requirement with the installed version; returns None if it is met."""
    have = installed(need.name)
    if have and need.specifier.contains(have, prereleases=True):
        return None
    there = f"{need.name} {have} is installed" if have else f"{need.name} is not installed"
    level = Level.PROBLEM if need.name == _TENSORFLOW or not have else Level.WARNING
    return Finding(
        _SUBJECT,
        level,
        f"{there}; expected {need.specifier or 'any version'}",
        f"pip install '{need.name}{need.specifier}'",
    )


def _several_tensorflows() -> list[Finding]:
    """Finds distributions of TensorFlow that overwrite each other's files."""
    have = [name for name in _TENSORFLOWS if _has(name) and _owns_files(name)]
    if len(have) < 2:
        return []
    text = f"{' and '.join(have)} are both installed, in the same folder: keep one"
    return [Finding(_SUBJECT, Level.WARNING, text, f"pip uninstall {' '.join(have[1:])}")]


def _owns_files(name: str) -> bool:
    """Returns whether a distribution has TensorFlow's files itself, not by a dependency."""
    record = metadata.distribution(name).read_text("RECORD") or ""
    return "\ntensorflow/__init__.py," in record


def _has(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
