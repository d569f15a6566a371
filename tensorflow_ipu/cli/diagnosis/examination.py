"""The whole examination: all checks in order, each of which may fail without the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tensorflow_ipu.cli.diagnosis import child, machine, packages, plugin, running
from tensorflow_ipu.cli.diagnosis.findings import Finding, Level
from tensorflow_ipu.launcher.environment import COUNT, INDEX


def examine(seconds: float, environment: Mapping[str, str], folder: Path) -> list[Finding]:
    """Runs all checks.

    Args:
        seconds: that a process with TensorFlow may take.
        environment: of programs.
        folder: where programs are started.
    """
    found = [packages.python()]
    found += _guarded("packages", packages.check)
    found.append(plugin.check())
    misfit = plugin.misfit()
    if misfit is not None:
        found.append(misfit)
    elif packages.tensorflow():
        found += _guarded("TensorFlow", lambda: _run(seconds, environment))
    found += _guarded("variables", lambda: _variables(environment))
    found.append(machine.compiler())
    around = (machine.instance(environment, (COUNT, INDEX)), machine.hiding_files(folder))
    return [*found, *(finding for finding in around if finding is not None)]


def _run(seconds: float, environment: Mapping[str, str]) -> list[Finding]:
    """Runs the checks that need TensorFlow in a new process, or in two if the first fails early."""
    probed = child.probe(seconds)
    bare = None
    if "tensorflow" not in probed.steps or probed.failure("tensorflow"):
        bare = child.probe(seconds, "--without-plugins")
    return running.check(probed, bare, environment)


def _variables(environment: Mapping[str, str]) -> list[Finding]:
    """Checks the environment and the folder that it names. Reading flags needs packages."""
    from tensorflow_ipu.cli.diagnosis import variables

    found = variables.check(environment)
    folder = variables.cache_folder(environment)
    return found if folder is None else [*found, machine.cache(folder)]


def _guarded(subject: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Runs a check; returns its failure as a finding, too."""
    try:
        return check()
    except ImportError as error:
        text = f"not checked, as packages are missing: {error}"
        return [Finding(subject, Level.WARNING, text, packages.INSTALL)]
