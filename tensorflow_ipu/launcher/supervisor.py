"""Runs the processes of all instances: their output, signals, and how they end."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

# Seconds that instances get to end after one has failed, before they are killed.
GRACE = 5.0
# What a shell adds to the number of the signal that has ended a process.
_BY_SIGNAL = 128
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Command:
    """How one instance is started.

    Args:
        arguments: The program and its arguments.
        variables: The whole environment.
    """

    arguments: Sequence[str]
    variables: Mapping[str, str]


class _Output:
    """Passes on the lines of one instance, each with its number."""

    def __init__(self, index: int, source: IO[bytes], target: IO[bytes]) -> None:
        self._prefix = f"[{index}] ".encode()
        self._source, self._target = source, target
        self.thread = threading.Thread(target=self._pass_on, daemon=True)
        self.thread.start()

    def _pass_on(self) -> None:
        for line in self._source:
            end = b"" if line.endswith(b"\n") else b"\n"
            # One write for each line, so that those of other instances do not come in between.
            with contextlib.suppress(OSError, ValueError):  # nobody reads any more
                self._target.write(self._prefix + line + end)
                self._target.flush()


class Supervisor:
    """The processes of a program's instances."""

    def __init__(self, commands: Sequence[Command]) -> None:
        """Starts them.

        Args:
            commands: How to start each instance, in order.

        Raises:
            OSError: If a program cannot be started. Those that were are ended.
        """
        self._ended: queue.Queue[int] = queue.Queue()
        self._outputs: list[_Output] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for index, command in enumerate(commands):
                self._start(index, command)
        except OSError:
            self._end_all()
            raise

    def _start(self, index: int, command: Command) -> None:
        process = subprocess.Popen(
            list(command.arguments),
            env=dict(command.variables),
            stdin=None if index == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # signals of the terminal come from here only, once
            preexec_fn=_end_with_parent,
        )
        self._processes.append(process)
        if process.stdout is not None and process.stderr is not None:
            self._outputs.append(_Output(index, process.stdout, sys.stdout.buffer))
            self._outputs.append(_Output(index, process.stderr, sys.stderr.buffer))
        threading.Thread(target=self._watch, args=(index,), daemon=True).start()

    def _watch(self, index: int) -> None:
        self._processes[index].wait()
        self._ended.put(index)

    def wait(self) -> int:
        """Waits for all instances. If one fails, the others are ended.

        Returns:
            0, or the exit code of the first that failed; 128 plus its number for a signal.
        """
        code = 0
        with self._forwarding():
            for _ in self._processes:
                index = self._ended.get()
                failed = _exit_code(self._processes[index].returncode)
                if failed and not code:
                    code = failed
                    self._say(index, failed)
                    self._end_all()
        for output in self._outputs:
            output.thread.join()
        return code

    def _say(self, index: int, code: int) -> None:
        how = f"signal {code - _BY_SIGNAL}" if code > _BY_SIGNAL else f"exit code {code}"
        others = " The others are ended." if len(self._processes) > 1 else ""
        print(f"poprun: instance {index} ended with {how}.{others}", file=sys.stderr, flush=True)

    def _end_all(self) -> None:
        """Asks those that run to end, and kills them if they do not."""
        self._send(signal.SIGTERM)
        timer = threading.Timer(GRACE, self._send, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _send(self, number: int) -> None:
        for process in self._processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    @contextlib.contextmanager
    def _forwarding(self) -> Iterator[None]:
        """Passes signals on to all instances."""
        before = {
            number: signal.signal(number, lambda received, _: self._send(received))
            for number in _FORWARDED
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _exit_code(returned: int) -> int:
    return _BY_SIGNAL - returned if returned < 0 else returned


def _end_with_parent() -> None:
    """Has the kernel end this process when the launcher is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
