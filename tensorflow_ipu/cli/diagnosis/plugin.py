"""Checks of the native library: it exists once, and for the installed TensorFlow."""

from __future__ import annotations

import site
import sys
from pathlib import Path

from tensorflow_ipu.cli.diagnosis import packages
from tensorflow_ipu.cli.diagnosis.findings import Finding, Level
from tensorflow_ipu.versions import built_for

_SUBJECT = "plugin"


def check() -> Finding:
    """Checks the plugin's file, and searches other copies that TensorFlow would load."""
    folders = built_for.plugin_folders()
    files = [folder / built_for.LIBRARY for folder in folders]
    path = next((file for file in files if file.exists()), None)
    if path is None:
        where = " or ".join(dict.fromkeys(map(str, folders)))
        text = f"the native library, {built_for.LIBRARY}, is not in {where}"
        return Finding(_SUBJECT, Level.PROBLEM, text, packages.REINSTALL)
    copies = [copy for copy in _copies() if copy != path.resolve()]
    if copies:
        return Finding(
            _SUBJECT,
            Level.PROBLEM,
            f"TensorFlow loads {path} and a second copy, {copies[0]}. Remove the one that is not "
            "of this environment",
            f"rm {copies[0]}",
        )
    return Finding(_SUBJECT, Level.OK, str(path))


def misfit() -> Finding | None:
    """Checks whether the plugin was built for the installed TensorFlow, by the record beside it.

    With such a plugin TensorFlow refuses to import.
    """
    version = packages.tensorflow()
    try:
        built_for.compare(built_for.recorded(), version)
    except ImportError as error:
        return Finding(_SUBJECT, Level.PROBLEM, str(error), built_for.installation(version))
    return None


def _copies() -> list[Path]:
    """Returns the libraries of that name in all folders where TensorFlow searches plugins."""
    folders = [path for path in sys.path if "site-packages" in path]
    folders += site.getsitepackages()
    if site.ENABLE_USER_SITE and site.USER_SITE is not None:
        folders.append(site.USER_SITE)
    files = (Path(folder) / "tensorflow-plugins" / built_for.LIBRARY for folder in folders)
    return list(dict.fromkeys(file.resolve() for file in files if file.exists()))
