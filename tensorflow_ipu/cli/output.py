"""Output of a command, also if it is not read or cannot be written."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable

#: Exit code of a command that cannot be carried out.
WRONG = 2
#: Exit code of a process that Ctrl-C has ended.
INTERRUPTED = 130


def carried_out(tool: str, run: Callable[[], int]) -> int:
    """Runs a command and writes its output.

    Args:
        tool: its name, for errors.
        run: parses and runs it; returns the exit code. Requests for help and mistakes on the
            command line end the process, as argparse does.

    Returns:
        The exit code: the command's, 0 if the reader closes the pipe, 2 if the output cannot be
        written, 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names in programs may have characters that the terminal has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return run()
        finally:
            _flush()
    except BrokenPipeError:  # `| head` has read enough
        _drop_output()
        return 0
    except OSError as error:  # nothing more can be printed
        _drop_output()
        return refuse(tool, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def width() -> int | None:
    """Returns the characters in a line of the terminal; None if output goes elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def refuse(tool: str, error: object) -> int:
    """Prints in one line why a command cannot run.

    Args:
        tool: its name.
        error: the error.

    Returns:
        The exit code for this.
    """
    text = " ".join(str(error).splitlines()).encode(errors="backslashreplace").decode()
    print(f"{tool}: {text}", file=sys.stderr)
    return WRONG


def _flush() -> None:
    """Flushes the standard output, if it is open."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_output() -> None:
    """Redirects unwritten output to the null device, at the end of the process too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
