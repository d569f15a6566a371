"""A process that has imported TensorFlow, and forks of it that run programs.

Importing takes longer than most programs of tests. A process that has used no IPU may fork, and its
forks may use IPUs. They share nothing but the imports.

Run with `python -m tests.support.processes.forks SOCKET MODULE...`, it imports the modules, and
then answers messages from the socket. To a program it answers with the number of the fork that runs
it, to the number of a fork that has ended with its exit code.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# Bytes of a message: a program with its environment.
_LONGEST = 1 << 17


class Fork:
    """A running program, with the methods of `subprocess.Popen` that tests call.

    Args:
        pid: number of its process, which has a group of its own.
        forks: the process that was forked.
    """

    def __init__(self, pid: int, forks: Forks) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks = forks
        self._end = os.pidfd_open(pid)  # can be read from when the process has ended

    def poll(self) -> int | None:
        """Returns the exit code, or None while the program runs."""
        return self._code(0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end; returns the exit code.

        Args:
            timeout: seconds.

        Raises:
            subprocess.TimeoutExpired: The program still runs.
        """
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the process and its children, and waits for its end."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()

    def _code(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout)[0]:
            os.close(self._end)
            self.returncode = self._forks.ended(self.pid)
        return self.returncode


class Forks:
    """Runs programs in forks of one process.

    Args:
        modules: names of the modules that the process imports, if they are installed.
        env: environment of the process while it imports them.
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        self._modules = modules
        self._env = env
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Ends the process."""
        if self._server is not None and self._socket is not None:
            self._socket.close()
            self._server.wait()
            self._server = None

    def start(
        self,
        code: str,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        outputs: tuple[int, int],
    ) -> Fork:
        """Starts code as `python -c` does.

        Args:
            code: Python source.
            args: of the program, in `sys.argv`.
            env: environment of the program. Imports have read that of the process.
            cwd: folder to run in; the current one if it is None.
            outputs: descriptors of files for its standard output and its standard error.

        Raises:
            RuntimeError: If the process has ended, as imports failed: its standard error says why.
            ValueError: If the program and its environment are too long.
        """
        request = {
            "code": code,
            "args": list(args),
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
        }
        return Fork(self._answer(request, outputs), self)

    def ended(self, pid: int) -> int:
        """Returns the exit code of a fork that has ended, for the first time."""
        return self._answer({"ended": pid})

    def run(
        self,
        code: str,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        timeout: float,
    ) -> subprocess.CompletedProcess[str]:
        """Runs code as `python -c` does, to its end.

        Args:
            code: as of `start`.
            args: as of `start`.
            env: as of `start`.
            cwd: as of `start`.
            timeout: seconds after which the fork is killed.

        Returns:
            The process, with `stdout` and `stderr` as text.

        Raises:
            subprocess.TimeoutExpired: If the fork was killed.
            RuntimeError: As of `start`.
        """
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            fork = self.start(code, args, env, cwd, (stdout.fileno(), stderr.fileno()))
            try:
                status = fork.wait(timeout)
            finally:
                fork.kill()
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(["-c", *args], status, *texts)

    def _answer(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        if self._server is None:
            self._start()
        assert self._socket is not None and self._server is not None
        message = json.dumps(request).encode()
        if len(message) > _LONGEST:
            raise ValueError(f"Expected at most {_LONGEST} bytes of program; got {len(message)}.")
        answer = b""
        try:
            socket.send_fds(self._socket, [message], descriptors)
            answer = self._socket.recv(_LONGEST)
        except (BrokenPipeError, ConnectionResetError):
            pass  # as if it had answered nothing
        if not answer:
            raise RuntimeError(f"Expected an answer from {self._server.args!r}. It has ended.")
        return int(answer)

    def _start(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            number = str(other.fileno())
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.processes.forks", number, *self._modules],
                env=self._env,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Answers requests; returns a request in its fork, and None where there are no more."""
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, _LONGEST, 2)
        if not message:
            return None
        request = json.loads(message)
        if "ended" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                os.setsid()
                return {**request, "outputs": descriptors}
            for descriptor in descriptors:
                os.close(descriptor)
        requests.send(str(answer).encode())


def _run(request: dict[str, Any], imported: Mapping[str, str]) -> None:
    """Runs a program in a fork, which ends as a process of Python does.

    Args:
        request: the program.
        imported: variables of the environment that imports have set.
    """
    for descriptor, file in enumerate(request["outputs"], start=1):
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    os.environ.clear()
    os.environ.update({**imported, **request["env"]})
    os.chdir(request["cwd"])
    sys.path[0] = ""
    sys.argv = ["-c", *request["args"]]
    program = types.ModuleType("__main__")
    program.__annotations__ = {}
    sys.modules["__main__"] = program
    exec(compile(request["code"], "<string>", "exec", dont_inherit=True), program.__dict__)


def main() -> None:
    """Imports modules, and runs programs in forks."""
    before = dict(os.environ)
    for name in sys.argv[2:]:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that forks need not copy all pages as they collect
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = _serve(requests)
    if request is not None:
        changed = {name: os.environ[name] for name in os.environ.keys() - before.keys()}
        _run(request, changed)


if __name__ == "__main__":
    main()
