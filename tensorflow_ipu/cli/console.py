"""Command lines of the tools: parser with examples, output, exit codes and progress."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NoReturn

# --- Parser ---

# How much alike words are that may be a slip of the other: 1 are equal words.
_SIMILARITY = 0.7


class Parser(argparse.ArgumentParser):
    """An argparse parser with examples and with suggestions.

    Attributes:
        examples: Command lines, each with its effect.
        closing: Text at the end of the help, as it is.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Takes the arguments of `argparse.ArgumentParser`."""
        super().__init__(*arguments, **options)
        self.examples: tuple[tuple[str, str], ...] = ()
        self.closing = ""
        self._received: list[str] = []

    def format_help(self) -> str:
        """Returns the help, with examples and the closing text at its end."""
        lines = [f"  {command}\n      {meaning}" for command, meaning in self.examples]
        examples = "\nexamples:\n" + "\n".join(lines) + "\n" if lines else ""
        return super().format_help() + examples + self.closing

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses known arguments, as argparse does; keeps all words for errors."""
        self._received = list(args) if args is not None else []
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Ends the process with a usage error.

        Args:
            message: the error.
        """
        super().error(message + self._suggestions(self._received))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Ends the process, because of words that the command does not know.

        Args:
            unknown: these words.
        """
        super().error(f"unrecognized arguments: {' '.join(unknown)}{self._suggestions(unknown)}")

    def _suggestions(self, words: Iterable[str]) -> str:
        """Returns sentences that suggest known options for unknown ones."""
        known = [option for action in self._actions for option in action.option_strings]
        names = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
        unknown = [name for name in names if not any(option.startswith(name) for option in known)]
        return "".join(suggestion(name, known) for name in dict.fromkeys(unknown))


def suggestion(word: str, known: Collection[str]) -> str:
    """Returns the end of an error with the most similar known word; empty without one.

    Args:
        word: the received word.
        known: the known words.
    """
    close = difflib.get_close_matches(word, known, n=1, cutoff=_SIMILARITY)
    return f". {word!r} is unknown: did you mean {close[0]!r}?" if close else ""


# --- Output ---

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


# --- Progress ---


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yields a function that replaces the shown text; clears it at the end.

    The text goes to standard error, and nowhere unless that is a terminal.
    """
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield lambda text: None
        return
    try:
        yield lambda text: _write_error(f"\r\x1b[K{text}")
    finally:
        _write_error("\r\x1b[K")


def _write_error(text: str) -> None:
    """Writes a text and flushes it."""
    sys.stderr.write(text)
    sys.stderr.flush()
