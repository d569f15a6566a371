"""A process that has imported TensorFlow, and forks of it that run programs.

Importing takes longer than most programs of tests. A process that has used no IPU may fork, and its
forks may use IPUs. They share nothing but the imports.

Run with `python -m tests.support.processes.forks MODULE...`, it imports the modules. Each line of
its standard input is a request for a fork. It answers with the exit code of the fork, or with null
if it has killed the fork for taking too long.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


class Forks:
    """Runs programs in forks of one process, one program at a time.

    Args:
        modules: names of the modules that the process imports, if they are installed.
        env: environment of the process while it imports them.
        folder: folder for the output of programs.
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._modules = modules
        self._env = env
        self._folder = folder
        self._server: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """Ends the process."""
        if self._server is not None:
            self._server.communicate()
            self._server = None

    def run(
        self,
        code: str,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        timeout: float,
    ) -> subprocess.CompletedProcess[str]:
        """Runs code as `python -c` does.

        Args:
            code: Python source.
            args: of the program, in `sys.argv`.
            env: environment of the program. Imports have read that of the process.
            cwd: folder to run in; the current one if it is None.
            timeout: seconds after which the fork is killed.

        Returns:
            The process, with `stdout` and `stderr` as text.

        Raises:
            subprocess.TimeoutExpired: If the fork was killed.
            RuntimeError: If the process has ended, as imports failed: its standard error says why.
        """
        outputs = [self._folder / name for name in ("stdout", "stderr")]
        server = self._started()
        request = {
            "code": code,
            "args": list(args),
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "outputs": [str(path) for path in outputs],
            "timeout": timeout,
        }
        server.stdin.write(f"{json.dumps(request)}\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"Expected an exit code from {server.args}. It has ended.")
        status = json.loads(answer)
        if status is None:
            raise subprocess.TimeoutExpired(code, timeout)
        texts = [path.read_text(encoding="utf-8") for path in outputs]
        return subprocess.CompletedProcess(["-c", *args], status, *texts)

    def _started(self) -> subprocess.Popen[str]:
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.processes.forks", *self._modules],
                env=self._env,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._server


def _wait(child: int, timeout: float) -> int | None:
    """Returns the exit code of a fork; None if it took too long and was killed."""
    killed = False

    def kill(*_: Any) -> None:
        nonlocal killed
        killed = True
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    status = os.waitpid(child, 0)[1]
    signal.setitimer(signal.ITIMER_REAL, 0)
    return None if killed else os.waitstatus_to_exitcode(status)


def _serve() -> dict[str, Any] | None:
    """Answers requests; returns a request in its fork, and None where there are no more."""
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        print(json.dumps(_wait(child, request["timeout"])), flush=True)
    return None


def _run(request: dict[str, Any], imported: Mapping[str, str]) -> None:
    """Runs a program in a fork, which ends as a process of Python does.

    Args:
        request: the program.
        imported: variables of the environment that imports have set.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    opened = [os.open(os.devnull, os.O_RDONLY)]
    opened += [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in request["outputs"]]
    for descriptor, file in enumerate(opened):
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
    for name in sys.argv[1:]:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that forks need not copy all pages as they collect
    request = _serve()
    if request is not None:
        changed = {name: os.environ[name] for name in os.environ.keys() - before.keys()}
        _run(request, changed)


if __name__ == "__main__":
    main()
