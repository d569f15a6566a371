"""The errors of PopXL: the module `popxl.errors`."""

from __future__ import annotations

__all__ = ["UndefinedValue", "popart_exception"]


class UndefinedValue(Exception):
    """A property has no value, such as the IPU of a tensor that no op uses."""


class popart_exception(Exception):  # noqa: N801
    """A program breaks a rule of the IR; programs know it as `popart.popart_exception`."""
