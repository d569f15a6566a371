"""Checks of `tensorflow-ipu doctor`: the installation, the machine, environment variables."""

from __future__ import annotations

import enum
import os
import platform
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu.import_hook.versions import built_for

# --- Findings ---


class Level(enum.Enum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # programs run, perhaps not as their user thinks
    PROBLEM = "problem"  # programs do not run


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        subject: Subject of the check.
        level: Its severity.
        text: The result in words.
        mend: A shell command that corrects it; empty if there is none.
    """

    subject: str
    level: Level
    text: str
    mend: str = ""


def worst(found: Iterable[Finding]) -> Level:
    """Returns the level of the worst finding."""
    levels = {finding.level for finding in found}
    return next((level for level in reversed(Level) if level in levels), Level.OK)


def to_text(found: Sequence[Finding]) -> str:
    """Returns a line for each finding and each correcting command, and a summary line."""
    width = max(len(finding.subject) for finding in found)
    lines = []
    for finding in found:
        lines.append(f"{finding.level.value:<7}  {finding.subject:<{width}}  {finding.text}")
        if finding.mend:
            lines.append(f"{'':<7}  {'':<{width}}    {finding.mend}")
    counts = {
        level: sum(finding.level is level for finding in found)
        for level in (Level.PROBLEM, Level.WARNING)
    }
    return "\n".join([*lines, "", ", ".join(_counted(*item) for item in counts.items())])


def to_dict(found: Sequence[Finding]) -> dict[str, Any]:
    """Returns the findings as data for JSON."""
    return {
        "level": worst(found).value,
        "findings": [finding._asdict() | {"level": finding.level.value} for finding in found],
    }


def _counted(level: Level, number: int) -> str:
    return f"{number or 'no'} {level.value}{'' if number == 1 else 's'}"


# --- Python and packages ---

_PACKAGE = "tensorflow_ipu"


_PACKAGES = "packages"


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


def requirements() -> list[Finding]:
    """Compares the installed packages with the requirements."""
    try:
        version, needed = metadata.version(_PACKAGE), list(_needed())
    except metadata.PackageNotFoundError:
        text = "tensorflow_ipu is not installed for this Python, which reads it from a folder"
        return [Finding(_PACKAGES, Level.WARNING, text, INSTALL), *_no_tensorflow()]
    except ImportError as error:
        warning = Finding(_PACKAGES, Level.WARNING, f"not compared: {error}", INSTALL)
        return [warning, *_no_tensorflow()]
    found = [finding for need in needed if (finding := _compared(need)) is not None]
    found += _several_tensorflows()
    if found:
        return found
    have = ", ".join(f"{need.name} {installed(need.name)}" for need in needed)
    return [Finding(_PACKAGES, Level.OK, f"{_PACKAGE} {version}, {have}")]


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
    return [Finding(_PACKAGES, Level.PROBLEM, "tensorflow is not installed", INSTALL)]


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
        _PACKAGES,
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
    return [Finding(_PACKAGES, Level.WARNING, text, f"pip uninstall {' '.join(have[1:])}")]


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


# --- Plugin ---

_PLUGIN = "plugin"


def plugin() -> Finding:
    """Checks the plugin's file, and searches other copies that TensorFlow would load."""
    folders = built_for.plugin_folders()
    files = [folder / built_for.LIBRARY for folder in folders]
    path = next((file for file in files if file.exists()), None)
    if path is None:
        where = " or ".join(dict.fromkeys(map(str, folders)))
        text = f"the native library, {built_for.LIBRARY}, is not in {where}"
        return Finding(_PLUGIN, Level.PROBLEM, text, REINSTALL)
    copies = [copy for copy in _copies() if copy != path.resolve()]
    if copies:
        return Finding(
            _PLUGIN,
            Level.PROBLEM,
            f"TensorFlow loads {path} and a second copy, {copies[0]}. Remove the one that is not "
            "of this environment",
            f"rm {copies[0]}",
        )
    return Finding(_PLUGIN, Level.OK, str(path))


def misfit() -> Finding | None:
    """Checks whether the plugin was built for the installed TensorFlow, by the record beside it.

    With such a plugin TensorFlow refuses to import.
    """
    version = tensorflow()
    try:
        built_for.compare(built_for.recorded(), version)
    except ImportError as error:
        return Finding(_PLUGIN, Level.PROBLEM, str(error), built_for.installation(version))
    return None


def _copies() -> list[Path]:
    """Returns the libraries of that name in all folders where TensorFlow searches plugins."""
    folders = [path for path in sys.path if "site-packages" in path]
    folders += site.getsitepackages()
    if site.ENABLE_USER_SITE and site.USER_SITE is not None:
        folders.append(site.USER_SITE)
    files = (Path(folder) / "tensorflow-plugins" / built_for.LIBRARY for folder in folders)
    return list(dict.fromkeys(file.resolve() for file in files if file.exists()))


# --- Compiler, cache and folder ---

_SECONDS = 20


# Other flags stay; of a flag that is given twice the last value counts.
_SET_CACHE = 'export TF_POPLAR_FLAGS="$TF_POPLAR_FLAGS --executable_cache_path=$HOME/.cache/ipu"'


# A program beside files of these names imports them instead of packages.
_HIDDEN = (
    "tensorflow",
    "keras",
    "tf_keras",
    "numpy",
    "tensorflow_ipu",
    "popart",
    "popxl",
    "google",
)


def compiler() -> Finding:
    """Searches a compiler, which only libraries of custom operations need."""
    found = shutil.which("g++")
    if found is None:
        return Finding(
            "compiler",
            Level.WARNING,
            "g++ is not there; libraries of custom operations are compiled with it",
            "sudo apt install g++",
        )
    try:
        process = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        text = f"{found} does not run: {error}"
        return Finding("compiler", Level.WARNING, text, "sudo apt install --reinstall g++")
    return Finding("compiler", Level.OK, f"{found}, {process.stdout.splitlines()[0]}")


def cache(folder: str) -> Finding:
    """Checks the folder of compiled programs.

    Args:
        folder: that `--executable_cache_path` names; empty if it is not set.
    """
    subject = "cache"
    if not folder:
        return Finding(
            subject,
            Level.OK,
            "not set: each process compiles its programs. To keep them:",
            _SET_CACHE,
        )
    path = Path(folder)
    if not path.exists():
        return _missing(path)
    if not path.is_dir():
        text = f"{folder} is not a folder, so nothing is kept"
        return Finding(subject, Level.WARNING, text, f"rm {folder} && mkdir {folder}")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        text = f"{folder} cannot be written, so nothing is kept"
        return Finding(subject, Level.WARNING, text, f"chmod u+rwx {folder}")
    files = [file for file in path.iterdir() if file.is_file()]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    return Finding(subject, Level.OK, f"{folder}: {len(files)} files, {megabytes:.1f} MB")


def hiding_files(folder: Path) -> Finding | None:
    """Searches for files that programs beside them would import instead of packages.

    Args:
        folder: the folder that programs are started in.
    """
    names = [f"{name}{end}" for name in _HIDDEN for end in (".py", "/__init__.py")]
    found = [name for name in names if (folder / name).is_file() and not _is_ours(folder)]
    if not found:
        return None
    name = found[0].partition("/")[0]
    return Finding(
        "folder",
        Level.WARNING,
        f"programs in {folder} import {name} of this folder instead of the package",
        f"mv {name} my_{name}",
    )


def instance(environment: Mapping[str, str], variables: tuple[str, ...]) -> Finding | None:
    """Returns a warning if programs started here would wait for other processes.

    Args:
        environment: of the process.
        variables: that `poprun` sets.
    """
    found = [name for name in variables if name in environment]
    if not found:
        return None
    return Finding(
        "instances",
        Level.WARNING,
        f"{found[0]} is set, as in a process of `poprun`: a program here waits for the others",
        f"unset {' '.join(found)}",
    )


def _missing(path: Path) -> Finding:
    """Returns the finding about a folder that does not exist yet."""
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("cache", Level.OK, f"{path} is made when the first program is kept")
    text = f"{path} cannot be made, as {parent} cannot be written: nothing is kept"
    return Finding(
        "cache",
        Level.WARNING,
        text,
        _SET_CACHE,
    )


def _is_ours(folder: Path) -> bool:
    """Returns whether this is the checkout of the package, which is meant to be found."""
    return (folder / "tensorflow_ipu" / "import_hook" / "tables.py").is_file()
