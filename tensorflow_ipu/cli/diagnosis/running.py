"""Findings from the probe: whether TensorFlow, plugin and Keras work together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow_ipu.cli.diagnosis import packages
from tensorflow_ipu.cli.diagnosis.child import Probed
from tensorflow_ipu.cli.diagnosis.findings import Finding, Level
from tensorflow_ipu.cli.diagnosis.packages import REINSTALL
from tensorflow_ipu.cli.diagnosis.probe import PRODUCT, STEPS
from tensorflow_ipu.versions import legacy_keras

_TENSORFLOW = "TensorFlow"

# Variables with options. Not from `configs.flags`, which needs packages that may be missing.
_OPTIONS = ("POPLAR_ENGINE_OPTIONS", "POPLAR_TARGET_OPTIONS", "POPLAR_RUNTIME_OPTIONS")

# Step -> subject of its failure, text, and correcting command. The other steps have texts of their
# own.
_FAILURES: Mapping[str, tuple[str, str, str]] = {
    "devices": ("plugin", "devices cannot be listed", REINSTALL),
    "library": ("plugin", "", REINSTALL),
    "import": ("ipu", "`from tensorflow.python import ipu` fails", REINSTALL),
    "keras": ("Keras", "`tf.keras` fails", packages.INSTALL),
    "run": ("program", "a program of one IPU fails", REINSTALL),
}


def check(probed: Probed, bare: Probed | None, environment: Mapping[str, str]) -> list[Finding]:
    """Converts the results of the probe to findings.

    Args:
        probed: results of the probe.
        bare: results without plugins, if TensorFlow did not import with them.
        environment: of programs.
    """
    found = []
    if "start" in probed.steps and not probed.steps["start"].facts["started"]:
        text = "Python did not read tensorflow_ipu.pth, so `tensorflow.python.ipu` is not found"
        found.append(Finding("ipu", Level.PROBLEM, text, REINSTALL))
    if failure := probed.failure("tensorflow") or _not_begun(probed):
        return [*found, _import_failed(failure, bare)]
    for name in STEPS:
        if failure := probed.failure(name):
            found += _failed(name, failure)
        elif name in probed.steps:
            found += _worked(name, probed.steps[name].facts, environment)
    if probed.ended and probed.last in probed.steps:
        text = f"the process {probed.ended}, after all that it had to do"
        found.append(Finding("program", Level.WARNING, text))
    return found


def _not_begun(probed: Probed) -> str:
    """Returns the error of a probe that did not begin; empty if it did."""
    return "" if "tensorflow" in probed.steps else probed.ended or "the process said nothing"


def _import_failed(failure: str, bare: Probed | None) -> Finding:
    """Returns the finding that TensorFlow does not import: due to the plugin, or by itself."""
    version = packages.tensorflow() or "(of no known version)"
    if bare is not None and not bare.failure("tensorflow") and "tensorflow" in bare.steps:
        text = (
            f"TensorFlow {version} imports without the plugin only, which was built for another "
            f"TensorFlow or is damaged: {failure}"
        )
        return Finding("plugin", Level.PROBLEM, text, REINSTALL)
    if "took more than" in failure:
        text = f"TensorFlow {version}: the import {failure}"
        return Finding(_TENSORFLOW, Level.PROBLEM, text, "tensorflow-ipu doctor --timeout 600")
    text = f"TensorFlow {version} does not import, with or without the plugin: {failure}"
    if "SIGILL" in failure:
        text += ". It needs a processor with AVX"
    mend = f"pip install --force-reinstall 'tensorflow=={packages.tensorflow()}'"
    return Finding(_TENSORFLOW, Level.PROBLEM, text, mend)


def _failed(step: str, failure: str) -> list[Finding]:
    """Returns the findings for a failed step."""
    if step == "options":
        return _wrong_options(failure)
    subject, said, mend = _FAILURES[step]
    text = f"{said}: {failure}" if said else failure
    return [Finding(subject, Level.PROBLEM, text, mend)]


def _wrong_options(failure: str) -> list[Finding]:
    """Returns the findings for wrong library options; other checks find invalid JSON."""
    kind, _, text = failure.partition(": ")
    if kind == "ValueError":
        return []
    subject = next((name for name in _OPTIONS if name in text), _OPTIONS[0])
    return [Finding(subject, Level.PROBLEM, text or failure, f"unset {subject}")]


def _worked(
    step: str, facts: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yields the findings for a successful step, whose facts may be unexpected."""
    if step == "tensorflow":
        yield Finding(_TENSORFLOW, Level.OK, f"{facts['version']} imports")
    elif step == "devices":
        yield _devices(facts["devices"])
    elif step == "options":
        for name in facts["variables"]:
            yield Finding(name, Level.OK, "all options are known")
    elif step == "library":
        text = f"loads; built for TensorFlow {facts['built_for']}"
        yield Finding("plugin", Level.OK, text)
    elif step == "import":
        yield Finding("ipu", Level.OK, "`from tensorflow.python import ipu` works")
    elif step == "keras":
        yield _keras(facts["package"], facts["version"], environment)
    else:
        yield _program(facts["result"])


def _devices(names: list[str]) -> Finding:
    if names:
        text = f"{len(names)} registered before a program configures more: {', '.join(names)}"
        return Finding("devices", Level.OK, text)
    text = "the plugin registers none: TensorFlow did not load it, or not for this process"
    return Finding("devices", Level.PROBLEM, text, REINSTALL)


def _keras(package: str, version: str, environment: Mapping[str, str]) -> Finding:
    """Returns the finding about `tf.keras` in a program that imports ipu."""
    text = f"tf.keras is Keras {version} (the package {package}) in programs that import ipu"
    if version.startswith("2."):
        return Finding("Keras", Level.OK, text)
    setting = environment.get(legacy_keras.VARIABLE)
    because = f", as {legacy_keras.VARIABLE} is {setting!r}" if setting is not None else ""
    text += f"{because}; pipelines and most of ipu.keras need Keras 2"
    return Finding("Keras", Level.WARNING, text, f"export {legacy_keras.VARIABLE}=1")


def _program(result: Any) -> Finding:
    if result == PRODUCT:
        return Finding("program", Level.OK, "a program of one IPU computes what it should")
    text = f"a program of one IPU computes {result} instead of {PRODUCT}"
    return Finding("program", Level.PROBLEM, text, REINSTALL)
