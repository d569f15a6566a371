"""Parser of command lines: help with examples, errors with suggestions."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

# How much alike words are that may be a slip of the other: 1 are equal words.
_ALIKE = 0.7


class Parser(argparse.ArgumentParser):
    """An argparse parser with examples and with suggestions.

    Attributes:
        examples: Command lines, each with its effect.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Takes the arguments of `argparse.ArgumentParser`."""
        super().__init__(*arguments, **options)
        self.examples: tuple[tuple[str, str], ...] = ()
        self._received: list[str] = []

    def format_help(self) -> str:
        """Returns the help, with examples at its end."""
        lines = [f"  {command}\n      {meaning}" for command, meaning in self.examples]
        return super().format_help() + ("\nexamples:\n" + "\n".join(lines) + "\n" if lines else "")

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
    close = difflib.get_close_matches(word, known, n=1, cutoff=_ALIKE)
    return f". {word!r} is unknown: did you mean {close[0]!r}?" if close else ""
