"""Checks in a process of its own that TensorFlow, plugin and Keras work together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu.cli.diagnosis import checks
from tensorflow_ipu.cli.diagnosis.checks import REINSTALL, Finding, Level
from tensorflow_ipu.cli.diagnosis.probe import MARK, PRODUCT, STEPS
from tensorflow_ipu.import_hook.versions import legacy_keras

# --- Process of the probe ---

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}

#: Command that starts Python.
INTERPRETER = (sys.executable,)

# Characters of an error that are shown.
_LONGEST = 400


class ProbeResult(NamedTuple):
    """The result of a step of the probe.

    Attributes:
        facts: Facts by name; empty if it failed.
        error: Why it failed; empty if it did not.
    """

    facts: Mapping[str, Any]
    error: str


class Probed(NamedTuple):
    """The results of the probe.

    Attributes:
        steps: The steps that it has finished, by name.
        last: The step that it began last.
        ended: How its process ended, if not normally; empty otherwise.
    """

    steps: Mapping[str, ProbeResult]
    last: str
    ended: str

    def failure(self, step: str) -> str:
        """Returns the error of a step, or of the process during it; empty if it succeeded."""
        if step in self.steps:
            return self.steps[step].error
        return self.ended if self.last == step else ""


def probe(seconds: float, *options: str, command: Sequence[str] = INTERPRETER) -> Probed:
    """Runs the probe.

    Args:
        seconds: after which it is killed.
        *options: `--without-plugins`, or none.
        command: the interpreter, with its options.
    """
    here = Path(__file__).resolve()
    program = here.with_name("probe.py").read_text(encoding="utf-8")
    words = [*command, "-c", program, str(here.parents[3]), *options]
    with tempfile.TemporaryDirectory() as empty:  # so that no file of the user is imported
        process = subprocess.Popen(
            words,
            cwd=empty,
            env={**os.environ, **_QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            printed, errors = process.communicate(timeout=seconds)
            ended = _ended(process.returncode, errors)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, _ = process.communicate()
            ended = f"took more than {seconds:g} s"
    return _read(printed, ended)


def _read(printed: str, ended: str) -> Probed:
    """Reads the lines of the probe."""
    steps = {}
    last = ""
    for line in printed.splitlines():
        if not line.startswith(MARK):
            continue
        said = json.loads(line[len(MARK) :])
        last = said["step"]
        if "facts" in said or "error" in said:
            steps[last] = ProbeResult(said.get("facts", {}), shortened(said.get("error", "")))
    return Probed(steps, last, ended)


def _ended(code: int, errors: str) -> str:
    """Returns how a process ended, with its last output; empty if it ended normally."""
    if code == 0:
        return ""
    how = f"ended with exit code {code}"
    if code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    said = [line for line in errors.splitlines() if line.strip()]
    return shortened(f"{how}{': ' + said[-1].strip() if said else ''}")


def shortened(text: str) -> str:
    """Returns a text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


# --- Findings ---

_TENSORFLOW = "TensorFlow"

# Variables with options. Not from `configs.flags`, which needs packages that may be missing.
_OPTIONS = ("POPLAR_ENGINE_OPTIONS", "POPLAR_TARGET_OPTIONS", "POPLAR_RUNTIME_OPTIONS")

# Step -> subject of its failure, text, and correcting command; other steps have their own texts.
_FAILURES: Mapping[str, tuple[str, str, str]] = {
    "devices": ("plugin", "devices cannot be listed", REINSTALL),
    "library": ("plugin", "", REINSTALL),
    "import": ("ipu", "`from tensorflow.python import ipu` fails", REINSTALL),
    "keras": ("Keras", "`tf.keras` fails", checks.INSTALL),
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
    version = checks.tensorflow() or "(of no known version)"
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
    mend = f"pip install --force-reinstall 'tensorflow=={checks.tensorflow()}'"
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
    """Yields the findings of a successful step; its facts may be unexpected."""
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
