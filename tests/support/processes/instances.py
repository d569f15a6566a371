"""Running a script as several instances of one program, and the reports of each.

Instances are forks of one process, as importing TensorFlow takes longer than most scripts. In the
test:

    arguments = ["-m", "tests.support.processes.collective_cases"]
    outcomes = instances.run(arguments, count=2, replicas=4)

and in the script:

    me = instances.join()  # an InstanceEnvironment: count, index, total_replicas, addresses
    instances.configure(me)
    instances.report(total=array)

Where instances are to end, or hang, on the way, the test holds them while they run:

    with instances.started(["-c", SOURCE], count=2) as running:
        running[0].next_report()
        running[1].kill()
        outcome = running[0].wait()
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import dataclasses
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from tensorflow_ipu.distributed.launcher import environment, main
from tests.support.processes import forks

ROOT = Path(__file__).resolve().parents[3]
# Seconds after which instances are taken to hang.
TIMEOUT = 240.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Exit code and reports of an instance.

    Args:
        code: its exit code, negative for a signal.
        reports: what it reported, in order.
        output: what else it wrote to stdout.
        errors: what it wrote to stderr.
    """

    code: int
    reports: list[dict[str, Any]]
    output: str
    errors: str

    @property
    def text(self) -> str:
        """All that it wrote."""
        return f"exit code {self.code}\n--- stdout\n{self.output}\n--- stderr\n{self.errors}"


class Instance:
    """One process, while it runs."""

    def __init__(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        pipes = [os.pipe(), os.pipe()]
        self._pipes = [open(reading, encoding="utf-8") for reading, _ in pipes]
        writing = tuple(writing for _, writing in pipes)
        # It leads a process group, so that what it starts can be killed with it.
        self._process = _start(words, variables, writing)
        for descriptor in writing:
            os.close(descriptor)
        self._arriving: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reports: list[dict[str, Any]] = []
        self._output: list[str] = []
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_output, args=self._pipes[:1]),
            threading.Thread(target=self._read_errors, args=self._pipes[1:]),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def _read_output(self, pipe: IO[str]) -> None:
        for line in pipe:
            if not line.startswith("{"):
                self._output.append(line)
                continue
            report = {name: _decoded(value) for name, value in json.loads(line).items()}
            self._reports.append(report)
            self._arriving.put(report)
        self._arriving.put(None)

    def _read_errors(self, pipe: IO[str]) -> None:
        self._errors.extend(pipe)

    def next_report(self, timeout: float = TIMEOUT) -> dict[str, Any]:
        """Waits for the next report that was not asked for yet; fails if the process ends."""
        report = self._arriving.get(timeout=timeout)
        assert report is not None, self.wait().text
        return report

    def send(self, signal_number: int) -> None:
        """Sends a signal to the process, which has not been waited for."""
        self._process.send_signal(signal_number)

    def kill(self) -> None:
        """Kills the process and its children at once, if it runs."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = TIMEOUT) -> Outcome:
        """Waits for the end; a process that does not come to it in time is killed."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self._errors.append(f"killed, as it did not end in {timeout:g} s\n")
            self._process.wait()
        for reader in self._readers:
            reader.join()
        output, errors = "".join(self._output), "".join(self._errors)
        return Outcome(self._process.wait(), self._reports, output, errors)

    def close(self) -> None:
        """Ends the process, and closes the pipes."""
        self.kill()
        self.wait()
        for pipe in self._pipes:
            pipe.close()


@functools.cache
def _forks() -> forks.Forks:
    """Returns the process that has imported TensorFlow and is forked for each instance."""
    served = forks.Forks(["tensorflow.python.ipu"], os.environ)
    atexit.register(served.close)
    return served


def _start(
    words: Sequence[str], variables: Mapping[str, str], outputs: tuple[int, ...]
) -> forks.Fork | subprocess.Popen[bytes]:
    """Starts Python.

    Args:
        words: `-c` and code, or `-m` and a module, and arguments.
        variables: its environment.
        outputs: descriptors for its standard output and its standard error.
    """
    stdout, stderr = outputs
    if "TSAN_OPTIONS" in os.environ:  # it ends a fork of a process with threads
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=dict(variables),
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    option, program, *arguments = words
    if option == "-m":
        program = f"import runpy; runpy.run_module({program!r}, None, '__main__', True)"
    return _forks().start(program, arguments, variables, ROOT, (stdout, stderr))


@contextlib.contextmanager
def started(
    words: Sequence[str],
    count: int,
    replicas: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[list[Instance]]:
    """Starts instances, and kills at the end those that still run.

    Args:
        words: what follows `python`: `["-m", "tests.support.module"]`, `["-c", source]`.
        count: how many.
        replicas: of all of them; one for each if not given.
        env: further environment variables.
    """
    addresses = main.host_addresses(["localhost"], count)
    with contextlib.ExitStack() as stack:
        running = []
        for index in range(count):
            told = environment.InstanceEnvironment(
                count=count,
                index=index,
                total_replicas=count if replicas is None else replicas,
                ipus_per_replica=1,
                addresses=tuple(addresses) if count > 1 else (),
            )
            variables = {**os.environ, **told.variables(), **(env or {})}
            running.append(Instance(words, variables))
            stack.callback(running[-1].close)
        yield running


def run(
    words: Sequence[str],
    count: int,
    replicas: int | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> list[Outcome]:
    """Runs instances to their end, and asserts that all succeed.

    Args:
        words: as of `started`.
        count: how many.
        replicas: of all of them; one for each if not given.
        env: further environment variables.
        timeout: seconds for each.

    Returns:
        What each reported, in order.
    """
    with started(words, count, replicas, env) as running:
        outcomes = [instance.wait(timeout) for instance in running]
    failed = [f"instance {i}: {o.text}" for i, o in enumerate(outcomes) if o.code]
    assert not failed, "\n".join(failed)
    return outcomes


def join(timeout: float = 60.0) -> environment.InstanceEnvironment:
    """Joins the other instances, in a script; returns which one this is."""
    from tensorflow_ipu.distributed import instances, joining

    me = environment.read()
    assert me is not None, "the script was not started as an instance"
    if me.count > 1:
        joining.join(instances.of_poprun(), timeout)
    return me


def configure(me: environment.InstanceEnvironment) -> None:
    """Attaches a device with the replicas of this instance, in a script."""
    from tensorflow_ipu.api.config import IPUConfig

    config = IPUConfig()
    config.auto_select_ipus = me.total_replicas // me.count
    if me.count > 1:
        config.experimental.multi_replica_distribution.process_count = me.count
        config.experimental.multi_replica_distribution.process_index = me.index
    config.configure_ipu_system()


def report(**values: Any) -> None:
    """Tells the test something, in a script: JSON and NumPy arrays, with all their bits."""
    print(json.dumps({name: _encoded(value) for name, value in values.items()}), flush=True)


def _encoded(value: Any) -> Any:
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return {"array": data, "dtype": value.dtype.name, "shape": value.shape}


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict) or "array" not in value:
        return value
    data = base64.b64decode(value["array"])
    return np.frombuffer(data, np.dtype(value["dtype"])).reshape(value["shape"])
