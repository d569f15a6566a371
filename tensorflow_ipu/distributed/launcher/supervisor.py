"""Supervisor of the processes of all instances: output, signals, and exit codes."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TextIO

# --- Output ---

# Bytes after which output counts as a line, though it has no end.
_LONGEST = 1 << 20
# One for both outputs: they may be the same terminal or file.
_LOCK = threading.Lock()


def start_output(index: int, source: IO[bytes], target: TextIO | None) -> threading.Thread:
    """Forwards the lines of one output of an instance until its end.

    If the target has no reader any more, the source is closed, so that the instance gets the same
    error as alone.

    Args:
        index: of the instance.
        source: its output; closed at the end.
        target: `sys.stdout` or `sys.stderr`; None if this process has none.

    Returns:
        The thread that does this, started.
    """
    descriptor = None if target is None else target.fileno()
    thread = threading.Thread(target=_pass_on, args=(f"[{index}] ".encode(), source, descriptor))
    thread.start()
    return thread


def say(text: str) -> None:
    """Prints a line of the launcher's own to the standard error, if there is one.

    Args:
        text: the line.
    """
    if sys.stderr is not None:
        line = f"poprun: {text}\n".encode(errors="backslashreplace")
        try:
            _write(sys.stderr.fileno(), line)
        except OSError:
            pass  # nobody reads it


def _pass_on(prefix: bytes, source: IO[bytes], target: int | None) -> None:
    with source:
        while line := source.readline(_LONGEST):
            end = b"" if line.endswith(b"\n") else b"\n"
            try:
                if target is not None:
                    _write(target, prefix + line + end)
            except OSError:
                return


def _write(target: int, data: bytes) -> None:
    """Writes all of some bytes without interleaving."""
    with _LOCK:
        while data:
            try:
                data = data[os.write(target, data) :]
            except BlockingIOError:  # a terminal that another program has set so
                select.select([], [target], [])


# --- Processes ---

#: Seconds that instances get to end after one has failed, before they are killed.
GRACE = 5.0
# A shell's offset of the exit code, to the number of the signal that has ended a process.
_BY_SIGNAL = 128
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG = 1
# Seconds between two checks for running processes.
_LOOK = 0.02
# Seconds of one wait for the next instance to end.
_WAIT = 0.2


@dataclasses.dataclass(frozen=True)
class Command:
    """The command that starts one instance.

    Args:
        words: The program and its arguments.
        variables: The whole environment.
        holds_input: Whether it runs for as long as its standard input is open.
    """

    words: Sequence[str]
    variables: Mapping[str, str]
    holds_input: bool = False


def run(commands: Sequence[Command], shown: int | None = None, grace: float = GRACE) -> int:
    """Runs all instances until they have ended. If one fails, the others are ended.

    Args:
        commands: the command of each instance, in order.
        shown: index of the only instance whose output is passed on; None for all.
        grace: seconds that instances get to end after one has failed, before they are killed.

    Returns:
        0, or the exit code of the first that failed; 128 plus its number for a signal.

    Raises:
        OSError: a program cannot be started. Those that were are ended.
    """
    instances = _Instances(grace)
    with instances.forwarding():
        instances.start(commands, shown)
        return instances.wait()


class _Instances:
    """The processes of a program's instances, each the leader of a session and a process group.

    They stay zombies until all have ended, so the numbers of their groups remain theirs.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._ended: queue.Queue[tuple[int, int]] = queue.Queue()
        self._outputs: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._received: list[int] = []

    def start(self, commands: Sequence[Command], shown: int | None) -> None:
        """Starts all processes, and only then the threads, since a fork has none of them."""
        prepare = _end_with_parent()
        try:
            for index, command in enumerate(commands):
                self._start(index, command, shown in (None, index), prepare)
        except OSError:
            self._send(signal.SIGKILL)
            for process in self._processes:
                process.wait()
            raise
        for index, process in enumerate(self._processes):
            if process.stdout is not None and process.stderr is not None:
                self._outputs.append(start_output(index, process.stdout, sys.stdout))
                self._outputs.append(start_output(index, process.stderr, sys.stderr))
            threading.Thread(target=self._watch, args=(index,), daemon=True).start()

    def _start(
        self, index: int, command: Command, shown: bool, prepare: Callable[[], None]
    ) -> None:
        to = subprocess.PIPE if shown else subprocess.DEVNULL
        process = subprocess.Popen(
            list(command.words),
            env=dict(command.variables),
            stdin=_input(index, command),
            stdout=to,
            stderr=to,
            start_new_session=True,  # signals of the terminal come from here only, once
            preexec_fn=prepare,
        )
        self._processes.append(process)
        for number in self._received:  # before it was there
            self._send_to(process, number)

    def _watch(self, index: int) -> None:
        """Waits for one process, and leaves it a zombie."""
        pid = self._processes[index].pid
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        code = 1 if ended is None else ended.si_status
        if ended is not None and ended.si_code != os.CLD_EXITED:
            code += _BY_SIGNAL
        self._ended.put((index, code))

    def wait(self) -> int:
        """Waits for all; if one fails, the others are ended. Returns the exit code."""
        first = 0
        for _ in self._processes:
            index, code = self._next()
            if code and not first:
                first = code
                self._say(index, code)
                self._end()
        self._finish(bool(first))
        return first

    def _next(self) -> tuple[int, int]:
        """Waits for the next instance to end; returns its index and exit code."""
        while True:
            # Python runs the handler of a signal that comes right before a wait after it, so no
            # wait is long.
            with contextlib.suppress(queue.Empty):
                return self._ended.get(timeout=_WAIT)

    def _say(self, index: int, code: int) -> None:
        how = f"ended with exit code {code}"
        if code > _BY_SIGNAL:
            with contextlib.suppress(ValueError):  # a code of its own
                how = f"was ended by {signal.Signals(code - _BY_SIGNAL).name}, exit code {code}"
        others = "; the others are ended" if len(self._processes) > 1 else ""
        say(f"instance {index} {how}{others}.")

    def _end(self) -> None:
        """Asks all processes to end, and kills them if they do not."""
        self._send(signal.SIGTERM)
        timer = threading.Timer(self._grace, self._send, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _finish(self, asked: bool) -> None:
        """Ends remaining processes of the instances, and waits for the end of the output."""
        for process in self._processes:
            process.wait()
        if not asked and not self._are_gone():
            self._send(signal.SIGTERM)
        if not self._are_gone():
            self._send(signal.SIGKILL)
        for thread in self._outputs:
            thread.join()

    def _are_gone(self) -> bool:
        """Returns whether all processes of the groups have ended, or soon will."""
        until = time.monotonic() + self._grace
        left = list(self._processes)
        while left := [process for process in left if self._send_to(process, 0)]:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK)
        return True

    def _send(self, number: int) -> None:
        for process in self._processes:
            self._send_to(process, number)

    def _send_to(self, process: subprocess.Popen[bytes], number: int) -> bool:
        """Sends a signal to a process and its children; returns whether any of them exists."""
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    @contextlib.contextmanager
    def forwarding(self) -> Iterator[None]:
        """Context: forwards signals to all instances, also to instances started later."""

        def forward(number: int, _: object) -> None:
            self._received.append(number)
            self._send(number)

        # An ignored signal, such as SIGHUP under nohup, stays ignored.
        wanted = [n for n in _FORWARDED if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, forward) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _input(index: int, command: Command) -> int | None:
    """Returns the standard input: the launcher's for instance 0, unless it is a terminal.

    A terminal cannot be read from another session.
    """
    if command.holds_input:
        return subprocess.PIPE
    if index == 0 and sys.stdin is not None and not sys.stdin.isatty():
        return None
    return subprocess.DEVNULL


def _end_with_parent() -> Callable[[], None]:
    """Returns a function for a new process: the kernel ends it if the launcher is killed."""
    return functools.partial(_ask_kernel, ctypes.CDLL(None).prctl, os.getpid())


def _ask_kernel(prctl: Callable[[int, int], int], parent: int) -> None:
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)
