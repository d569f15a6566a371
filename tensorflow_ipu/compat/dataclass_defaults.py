"""Shim for instances of dataclasses as defaults of fields: `model: Model = Model()`.

Python 3.10 took any default but a list, a dict and a set. Python 3.11 refuses all that cannot be
hashed, and instances of most dataclasses cannot.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from tensorflow_ipu.compat import sources
from tensorflow_ipu.compat.usage import Shim, Usage

_SHIM = Shim("dataclass instance as a default of a field", "the same instance for all objects")


def allow(usage: Usage) -> None:
    """Allows instances of dataclasses as defaults of fields in the program's dataclasses.

    Args:
        usage: where uses are noted.
    """
    module: Any = dataclasses
    check = getattr(module, "_get_field", None)
    if sys.version_info < (3, 11) or check is None:
        return

    @functools.wraps(check)
    def get_field(cls: Any, name: str, *arguments: Any, **named: Any) -> Any:
        default = vars(cls).get(name)
        if isinstance(default, dataclasses.Field):
            default = default.default
        kind = type(default)
        if not dataclasses.is_dataclass(kind) or kind.__hash__ is not None or not _is_own(cls):
            return check(cls, name, *arguments, **named)
        usage.note(_SHIM, sys._getframe(1))
        # The check asks whether instances can be hashed; nothing hashes one meanwhile.
        known = vars(kind).get("__hash__", dataclasses.MISSING)
        kind.__hash__ = object.__hash__
        try:
            return check(cls, name, *arguments, **named)
        finally:
            if known is dataclasses.MISSING:
                del kind.__hash__
            else:
                kind.__hash__ = known

    module._get_field = get_field


def _is_own(cls: Any) -> bool:
    """Returns whether a class is defined by the program."""
    module = sys.modules.get(cls.__module__)
    return sources.is_of_program(str(getattr(module, "__file__", None) or ""))
