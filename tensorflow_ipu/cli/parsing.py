"""Parser of command lines whose help has examples, and whose errors guess what was meant."""

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
        examples: Command lines, each with what it does.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Takes what argparse takes."""
        super().__init__(*arguments, **options)
        self.examples: tuple[tuple[str, str], ...] = ()
        self._received: list[str] = []

    def format_help(self) -> str:
        """Returns the help, with examples at its end."""
        lines = [f"  {command}\n      {meaning}" for command, meaning in self.examples]
        return super().format_help() + ("\nexamples:\n" + "\n".join(lines) + "\n" if lines else "")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses what it knows, as argparse does; errors look at all words that there were."""
        self._received = list(args) if args is not None else []
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Ends the process with a usage error.

        Args:
            message: what is wrong.
        """
        super().error(message + self._suggestions(self._received))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Ends the process, as there are words that the command does not know.

        Args:
            unknown: these words.
        """
        super().error(f"unrecognized arguments: {' '.join(unknown)}{self._suggestions(unknown)}")

    def _suggestions(self, words: Iterable[str]) -> str:
        """Returns sentences that name the options that unknown ones may be."""
        known = [option for action in self._actions for option in action.option_strings]
        names = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
        unknown = [name for name in names if not any(option.startswith(name) for option in known)]
        return "".join(suggestion(name, known) for name in dict.fromkeys(unknown))


def suggestion(word: str, known: Collection[str]) -> str:
    """Returns the end of an error: what may have been meant, or nothing.

    Args:
        word: what was given.
        known: what there is.
    """
    close = difflib.get_close_matches(word, known, n=1, cutoff=_ALIKE)
    return f". {word!r} is unknown: did you mean {close[0]!r}?" if close else ""
