"""Argument types of the commands: numbers and their ranges."""

from __future__ import annotations

import argparse

from tensorflow_ipu.configs.ranges import shown

# Larger sizes, or numbers of bytes made of them, exceed the range of plans.
_MOST = 10**12

# The schedule of a pipeline is made for each mini-batch: more would take minutes and gigabytes.
_MOST_MINI_BATCHES = 100_000


def whole(text: str) -> int:
    """Reads a whole number that a program can be planned with.

    Args:
        text: the text of the argument.

    Raises:
        argparse.ArgumentTypeError: it is no whole number, or too large.
    """
    return _at_most(text, _MOST)


def some(text: str) -> int:
    """Reads a whole number from 1; see `whole`."""
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {number}")
    return number


def count(text: str) -> int:
    """Reads a number of mini-batches; see `whole`."""
    return _at_most(text, _MOST_MINI_BATCHES)


def _at_most(text: str, most: int) -> int:
    """Reads a whole number with an upper limit."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {shown(text)}") from None
    if number > most:
        raise argparse.ArgumentTypeError(f"expected at most {most:,}, got {shown(number)}")
    return number
