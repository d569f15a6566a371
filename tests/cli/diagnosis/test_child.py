"""Tests of the probe's process, with packages in the place of TensorFlow that have its faults."""

from __future__ import annotations

import pytest

from tensorflow_ipu.cli.diagnosis import child, packages, running
from tensorflow_ipu.cli.diagnosis.findings import Level

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
    """Returns a function that puts a package with some code in the place of TensorFlow."""

    def make(fault):
        (tmp_path / "tensorflow").mkdir()
        (tmp_path / "tensorflow" / "__init__.py").write_text(FAULTS[fault])
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(packages, "tensorflow", lambda: "2.15.1")

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
    probed = child.probe(seconds)
    assert failure in probed.failure("tensorflow") and probed.last == "tensorflow"
    (finding,) = running.check(probed, probed, {})
    assert finding.subject == "TensorFlow" and finding.level is Level.PROBLEM
    assert failure in finding.text and finding.mend
    assert ("AVX" in finding.text) == (fault == "crash")
    assert ("--timeout" in finding.mend) == (fault == "hang")


def test_a_plugin_that_does_not_fit_is_told_from_a_broken_tensorflow(tensorflow):
    tensorflow("plugin")
    (finding,) = running.check(child.probe(60), child.probe(60, "--without-plugins"), {})
    assert finding.subject == "plugin" and "undefined symbol" in finding.text
    assert finding.mend.startswith("pip install --force-reinstall --no-deps ")


def test_what_libraries_print_is_not_taken_for_results(tensorflow):
    tensorflow("chatty")
    probed = child.probe(60)
    assert probed.steps["tensorflow"].facts["version"] == "2.15.1"
    assert probed.failure("devices")  # this TensorFlow has no `config`


def test_an_interpreter_that_reads_no_pth_files_is_found_out(tensorflow):
    tensorflow("broken")
    probed = child.probe(60, command=(*child.INTERPRETER, "-S"))
    assert probed.steps["start"].facts == {"started": False}
    first, *_ = running.check(probed, None, {})
    assert first.subject == "ipu" and "tensorflow_ipu.pth" in first.text


def test_long_errors_are_one_short_line():
    assert child.shortened("a\n  b") == "a b"
    assert len(child.shortened("x" * 10_000)) < 500
