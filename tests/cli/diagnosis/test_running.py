"""Tests of what is made of the results of the probe."""

from __future__ import annotations

import pytest

from tensorflow_ipu.cli.diagnosis import probe, running
from tensorflow_ipu.cli.diagnosis.child import Probed, ProbeResult
from tensorflow_ipu.cli.diagnosis.findings import Level

FACTS = {
    "start": {"started": True},
    "tensorflow": {"version": "2.15.1", "file": "tensorflow/__init__.py"},
    "devices": {"devices": ["/physical_device:IPU:0"]},
    "options": {"variables": ["POPLAR_ENGINE_OPTIONS"]},
    "library": {"built_for": "2.15.1"},
    "import": {"file": "tensorflow_ipu/__init__.py"},
    "keras": {"package": "keras", "version": "2.15.0"},
    "run": {"result": probe.PRODUCT},
}


def judged(environment=None, ended="", **changes):
    """The findings if some facts are others, or errors."""
    steps = {}
    for name, facts in {**FACTS, **changes}.items():
        steps[name] = ProbeResult({}, facts) if isinstance(facts, str) else ProbeResult(facts, "")
    return running.check(Probed(steps, "run", ended), None, environment or {})


def bad(found):
    """The findings that are not ok."""
    return [finding for finding in found if finding.level is not Level.OK]


def test_what_works_has_a_line_for_each_part():
    found = judged()
    assert bad(found) == []
    subjects = "TensorFlow devices POPLAR_ENGINE_OPTIONS plugin ipu Keras program".split()
    assert [finding.subject for finding in found] == subjects
    assert set(probe.STEPS) | {"start"} == set(FACTS)


@pytest.mark.parametrize(
    "changes, subject, level, words",
    [
        ({"devices": {"devices": []}}, "devices", Level.PROBLEM, "registers none"),
        (
            {"options": "InvalidArgumentError: Unrecognised option 'x' in POPLAR_ENGINE_OPTIONS."},
            "POPLAR_ENGINE_OPTIONS",
            Level.PROBLEM,
            "Unrecognised option 'x'",
        ),
        ({"library": "ImportError: built for 2.18.0"}, "plugin", Level.PROBLEM, "built for 2.18"),
        ({"import": "ImportError: no"}, "ipu", Level.PROBLEM, "from tensorflow.python import ipu"),
        ({"run": {"result": [[0.0]]}}, "program", Level.PROBLEM, "[[0.0]]"),
        ({"run": "InternalError: x"}, "program", Level.PROBLEM, "InternalError: x"),
        ({"ended": "was ended by SIGSEGV"}, "program", Level.WARNING, "SIGSEGV"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_part_that_fails(changes, subject, level, words):
    (finding,) = bad(judged(**changes))
    assert (finding.subject, finding.level) == (subject, level) and words in finding.text


def test_wrong_json_is_said_once_where_the_variable_is_read():
    assert bad(judged(options="ValueError: POPLAR_ENGINE_OPTIONS must be a JSON object")) == []


@pytest.mark.parametrize("environment", [{}, {"TF_USE_LEGACY_KERAS": "0"}], ids=["", "chosen"])
def test_keras_3_is_a_warning_with_its_reason(environment):
    keras = {"package": "keras", "version": "3.12.0"}
    (finding,) = bad(judged(environment, keras=keras))
    assert finding.level is Level.WARNING and "3.12.0" in finding.text
    assert ("'0'" in finding.text) == bool(environment)
    assert finding.mend == "export TF_USE_LEGACY_KERAS=1"
