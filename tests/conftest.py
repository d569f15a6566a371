"""Shared fixtures of all tests: a clean state after each, and separate Python processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import forks

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds how long fuzzers and stress tests go on. `make fuzz` and `make stress` set more."""
    group = parser.getgroup("fuzzers and stress tests")
    group.addoption("--fuzz-cases", default=400, type=int, help="generated cases of all fuzzers")
    group.addoption("--fuzz-seed", default=0, type=int, help="other cases for another seed")
    group.addoption("--stress-iterations", default=400, type=int, help="steps of each kernel")
    group.addoption("--large", action="store_true", help="run the tests that take minutes, too")
    group.addoption("--stress-programs", default=8, type=int, help="random programs of replicas")
    group.addoption("--stress-fits", default=2, type=int, help="trainings of each Keras model")


def pytest_configure() -> None:
    """Lets Ctrl-C through: a shell that starts a process in the background ignores it there."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows the number of cases that each fuzzer ran, which workers send with their reports."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
    ]
    cases = [
        case for report in reports for key, case in report.user_properties if key == "fuzz cases"
    ]
    if cases:
        terminalreporter.section("fuzzers")
        for subject, calls in sorted(cases):
            terminalreporter.line(f"{calls:8} {subject}")
        terminalreporter.line(f"{sum(calls for _, calls in cases):8} cases in all")


@pytest.fixture(autouse=True)
def clean_state() -> Iterator[None]:
    """Resets the state of the process after each test, if there is any.

    That is the IPU configuration, the default graph and seed of TensorFlow, and which warnings were
    said.
    """
    yield
    notices = sys.modules.get("tensorflow_ipu.util.notices")
    if notices is not None:
        notices._forget_for_tests()
    system = sys.modules.get("tensorflow_ipu.runtime.system")
    if system is not None:
        system.reset_ipu_configuration()
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        tensorflow.compat.v1.reset_default_graph()
        if sys.modules["tensorflow.python.eager.context"].global_seed() is not None:
            tensorflow.random.set_seed(None)


@pytest.fixture(autouse=True)
def kept_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keeps a test's compiled programs until it ends: programs go with the graphs that launch them.

    Tests with the mark `lifetimes` are about just that, and keep nothing.
    """
    cache = sys.modules.get("tensorflow_ipu.compiler.cache")
    if cache is None or request.node.get_closest_marker("lifetimes"):
        yield
        return
    kept = []
    add = cache.ExecutableCache.add

    def add_and_keep(self: Any, executable: Any, cluster: Any) -> None:
        kept.append((executable, cluster))
        add(self, executable, cluster)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache.ExecutableCache, "add", add_and_keep)
        yield
    kept.clear()


@pytest.fixture(scope="session")
def run_python() -> RunPython:
    """Returns a function that runs code in a new Python process.

    For what can be shown only once in a process (flags, start-up, imports), and for what may end
    it. Tests that use this get the mark `process`.
    """
    return _run_python


def _run_python(
    code: str,
    *options: str,
    args: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs code and asserts that it succeeds.

    Args:
        code: Python source.
        *options: of the interpreter, such as "-S".
        args: of the program, in `sys.argv`.
        env: changes to the environment; None removes a variable. Which Keras is `tf.keras` is
            for the process to say, as in a shell: this process has set it for itself.
        cwd: folder to run in.
        timeout: seconds after which the process is killed and the test fails.

    Returns:
        The process, with `stdout` and `stderr` as text.
    """
    return _successful(_started(code, args, _environment(env), cwd, timeout, options))


def _started(
    code: str,
    args: Sequence[str],
    env: Mapping[str, str],
    cwd: Path | None,
    timeout: float,
    options: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs code in a new Python process."""
    return subprocess.run(
        [sys.executable, *options, "-c", code, *args],
        env=env,
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )


def _environment(changes: Mapping[str, str | None] | None) -> dict[str, str]:
    """Returns the environment of a new process."""
    variables = {**os.environ, "TF_USE_LEGACY_KERAS": None, **(changes or {})}
    return {name: value for name, value in variables.items() if value is not None}


def _successful(process: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Returns a process, and asserts that it has succeeded."""
    output = f"--- stdout\n{process.stdout}\n--- stderr\n{process.stderr}"
    assert process.returncode == 0, f"exit code {process.returncode}\n{output}"
    return process


@pytest.fixture(scope="session")
def run_program() -> Iterator[RunPython]:
    """Yields a function that runs code in a process of its own that has imported TensorFlow.

    For programs whose start-up is not what the test is about: each is a fork of one process, as
    importing TensorFlow takes longer than most of them. `run_python` starts processes from nothing.
    With `check=False` a program may fail. Tests that use this get the mark `process`.
    """
    modules = ("tensorflow.python.ipu", "sklearn.datasets")
    served = forks.Forks(modules, _environment(None))
    # ThreadSanitizer ends a fork of a process with threads when it starts one.
    run = _started if "TSAN_OPTIONS" in os.environ else served.run

    def run_in_fork(
        code: str,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        timeout: float = 300,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        process = run(code, args, _environment(env), cwd, timeout)
        return _successful(process) if check else process

    yield run_in_fork
    served.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that run processes, and deselects large tests without `--large`."""
    large = [item for item in items if item.get_closest_marker("large")]
    if large and not config.getoption("--large"):
        config.hook.pytest_deselected(items=large)
        items[:] = [item for item in items if item not in large]
    for item in items:
        if not {"run_program", "run_python"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
