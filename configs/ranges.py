"""Legal values of options and arguments as data: ranges of numbers, names of folders."""

from __future__ import annotations

import operator
import os
import reprlib
from dataclasses import dataclass
from typing import Any

#: The largest values of fields and tensors that hold numbers.
INT32, INT64 = 2**31 - 1, 2**63 - 1

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80
_LONGEST = 120


def shown(value: Any) -> str:
    """Returns a value as messages show it: a short `repr` of any object."""
    try:
        text = _SHOWN.repr(value)
    except ValueError:  # Python does not print numbers of thousands of digits
        return f"a {type(value).__name__} of very many digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@dataclass(frozen=True)
class Range:
    """The numbers from `least` to `most`, both included.

    Args:
        least: the smallest; a float if the numbers need not be whole.
        most: the largest.
        unit: what they count, such as `bytes`; empty if they have no unit.
        below: what errors say of smaller numbers, where the reference has words for it.
        above: the same for larger ones.
    """

    least: float
    most: float
    unit: str = ""
    below: str = ""
    above: str = ""

    def __str__(self) -> str:
        """Returns a text such as `in the range 0 to 192 tiles`."""
        return f"in the range {self.least} to {self.most} {self.unit}".rstrip()

    def __contains__(self, value: Any) -> bool:
        """Returns whether a number is in the range; NaN is not."""
        return bool(self.least <= value <= self.most)

    def check(self, name: str, value: Any) -> None:
        """Checks a number, or each number of a list or tuple, whose type is right.

        Args:
            name: of the option, as the user knows it.
            value: what it is set to.

        Raises:
            ValueError: it is not in the range.
        """
        for number in value if isinstance(value, (list, tuple)) else (value,):
            if number not in self:
                words = self.below if number < self.least else self.above
                words = f"{words}: it is {self}" if words else f"must be {self}"
                raise ValueError(f"{name} {words}; received {shown(value)}.")

    def whole(self, name: str, value: Any) -> int:
        """Returns an argument that is a whole number.

        Args:
            name: of the argument.
            value: an int, or another type of integer.

        Returns:
            The int.

        Raises:
            ValueError: it is no integer in the range.
        """
        try:
            if isinstance(value, bool):
                raise TypeError("a bool is no number of things")
            number = operator.index(value)
        except TypeError:
            words = f"{self.below}: it is" if self.below else "must be"
            raise ValueError(
                f"{name} {words} an integer {self}; received {shown(value)}."
            ) from None
        self.check(name, number)
        return number


@dataclass(frozen=True)
class Folder:
    """Names that a folder or file can have."""

    def __str__(self) -> str:
        """Returns a text such as `a path without NUL`."""
        return "a path without NUL characters"

    def check(self, name: str, value: Any) -> None:
        """Checks the name of a folder; the empty name stands for none.

        Args:
            name: of the option, as the user knows it.
            value: what it is set to.

        Raises:
            ValueError: no folder can have that name.
        """
        try:
            possible = b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:
            possible = False
        if not possible:
            raise ValueError(f"{name} must be {self}; received {shown(value)}.")


@dataclass(frozen=True)
class WordChoice:
    """A choice of words.

    Args:
        words: all of them.
    """

    words: tuple[str, ...]

    def __str__(self) -> str:
        """Returns a text such as `true or false`."""
        return " or ".join(self.words)

    def check(self, name: str, value: str) -> None:
        """Checks a word.

        Args:
            name: of the option, as the user knows it.
            value: what it is set to.

        Raises:
            ValueError: it is none of the words.
        """
        if value not in self.words:
            raise ValueError(f"{name} takes {self}; received {shown(value)}.")


@dataclass(frozen=True)
class Digits:
    """A number written as text.

    Args:
        range: which numbers.
    """

    range: Range

    def __str__(self) -> str:
        """Returns a text such as `a number in the range 0.0 to 1.0`."""
        kind = "whole number" if isinstance(self.range.least, int) else "number"
        return f"a {kind} {self.range}"

    def check(self, name: str, value: str) -> None:
        """Checks a text.

        Args:
            name: of the option, as the user knows it.
            value: what it is set to.

        Raises:
            ValueError: it is no such number.
        """
        read = int if isinstance(self.range.least, int) else float
        try:
            fits = read(value) in self.range
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{name} takes {self}; received {shown(value)}.")


#: How many of something there are.
COUNT = Range(1, INT32, below="must be at least 1")

#: A size in bytes.
BYTES = Range(0, INT64, "bytes")

#: A part of something.
PROPORTION = Range(0.0, 1.0)

#: A multiple of something.
MULTIPLE = Range(0.0, float(INT32))

FOLDER = Folder()
