"""The exception of PopART that PopXL raises too."""

from __future__ import annotations


class popart_exception(Exception):  # noqa: N801 - the name of the original
    """A program breaks a rule of PopART; programs know it as `popart.popart_exception`."""
