"""Checks of a program's environment: compiler, cache folder, files that hide packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tensorflow_ipu.cli.diagnosis.findings import Finding, Level

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
