"""Tests of the probe: its process, and findings from its results."""

from __future__ import annotations

import pytest

from tensorflow_ipu.cli.diagnosis import checks, probe, running
from tensorflow_ipu.cli.diagnosis.checks import Level
from tensorflow_ipu.cli.diagnosis.running import Probed, ProbeResult

# --- Process of the probe ---

FAULTS = {
    "broken": "raise ImportError('libtensorflow_cc.so.2: cannot open shared object file')",
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
    "exit": "import sys; print('no memory', file=sys.stderr); sys.stderr.flush()\n"
    "import os; os._exit(3)",
    "hang": "import signal; signal.pause()",
    "plugin": "import os, sysconfig\n"
    "if os.path.exists(os.path.join(sysconfig.get_path('platlib'), 'tensorflow-plugins')):\n"
    "    raise RuntimeError('undefined symbol: _ZN10tensorflow6Status')\n"
    "__version__ = '2.18.1'",
    "chatty": "print('welcome', end=''); __version__ = '2.15.1'",
}


@pytest.fixture
def tensorflow(tmp_path, monkeypatch):
    """Returns a function that replaces TensorFlow by a package with some code."""

    def make(fault):
        (tmp_path / "tensorflow").mkdir()
        (tmp_path / "tensorflow" / "__init__.py").write_text(FAULTS[fault])
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(checks, "tensorflow", lambda: "2.15.1")

    return make


@pytest.mark.parametrize(
    "fault, seconds, failure",
    [
        ("broken", 60, "ImportError: libtensorflow_cc.so.2: cannot open"),
        ("crash", 60, "was ended by SIGILL"),
        ("exit", 60, "ended with exit code 3: no memory"),
        ("hang", 2, "took more than 2 s"),
    ],
)
def test_how_the_import_fails_is_said(tensorflow, fault, seconds, failure):
    tensorflow(fault)
    probed = running.probe(seconds)
    assert failure in probed.failure("tensorflow") and probed.last == "tensorflow"
    (finding,) = running.check(probed, probed, {})
    assert finding.subject == "TensorFlow" and finding.level is Level.PROBLEM
    assert failure in finding.text and finding.mend
    assert ("AVX" in finding.text) == (fault == "crash")
    assert ("--timeout" in finding.mend) == (fault == "hang")


def test_misfit_plugin_is_told_from_broken_tensorflow(tensorflow):
    tensorflow("plugin")
    (finding,) = running.check(running.probe(60), running.probe(60, "--without-plugins"), {})
    assert finding.subject == "plugin" and "undefined symbol" in finding.text
    assert finding.mend.startswith("pip install --force-reinstall --no-deps ")


def test_what_libraries_print_is_not_taken_for_results(tensorflow):
    tensorflow("chatty")
    probed = running.probe(60)
    assert probed.steps["tensorflow"].facts["version"] == "2.15.1"
    assert probed.failure("devices")  # this TensorFlow has no `config`


def test_interpreter_without_pth_files_is_detected(tensorflow):
    tensorflow("broken")
    probed = running.probe(60, command=(*running.INTERPRETER, "-S"))
    assert probed.steps["start"].facts == {"started": False}
    first, *_ = running.check(probed, None, {})
    assert first.subject == "ipu" and "tensorflow_ipu.pth" in first.text


def test_long_errors_are_one_short_line():
    assert running.shortened("a\n  b") == "a b"
    assert len(running.shortened("x" * 10_000)) < 500


# --- Findings ---

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


def test_wrong_json_is_reported_once_where_read():
    assert bad(judged(options="ValueError: POPLAR_ENGINE_OPTIONS must be a JSON object")) == []


@pytest.mark.parametrize("environment", [{}, {"TF_USE_LEGACY_KERAS": "0"}], ids=["", "chosen"])
def test_keras_3_is_a_warning_with_its_reason(environment):
    keras = {"package": "keras", "version": "3.12.0"}
    (finding,) = bad(judged(environment, keras=keras))
    assert finding.level is Level.WARNING and "3.12.0" in finding.text
    assert ("'0'" in finding.text) == bool(environment)
    assert finding.mend == "export TF_USE_LEGACY_KERAS=1"
