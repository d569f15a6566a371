"""Process of the probe: its start, time limit and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow_ipu.cli.diagnosis.probe import MARK

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
