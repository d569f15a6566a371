"""The errors of PopXL: the module `popxl.errors`."""

from __future__ import annotations

from tensorflow_ipu.frontends.common.errors import popart_exception

__all__ = ["UndefinedValue", "popart_exception"]


class UndefinedValue(Exception):
    """A property has no value, such as the IPU of a tensor that no op uses."""
