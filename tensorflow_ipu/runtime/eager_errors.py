"""Error messages of our ops without the eager runtime's prefix and suffix."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tensorflow.python.framework import errors

# `{{function_node __wrapped__IpuLaunch_..._device_...}} message [Op:IpuLaunch] name: cluster_0`.
_PREFIX = re.compile(r"\A(\{\{function_node __wrapped__Ipu[^{}]*\}\}\s*)+")
_SUFFIX = re.compile(r"\s*\[Op:Ipu\w+\](\s*name:[^\n]*)?\Z")


def cleaned(message: str) -> str:
    """Returns the message of an error without the eager runtime's prefix and suffix.

    Args:
        message: the message of an error that an op of this package gave.
    """
    return _SUFFIX.sub("", _PREFIX.sub("", message))


def clean_errors_of(module: ModuleType) -> None:
    """Makes the ops of this package raise errors with their own messages only.

    Args:
        module: the generated functions of the ops.
    """
    for name, function in list(vars(module).items()):
        if name.startswith("ipu_") and not name.endswith("_eager_fallback") and callable(function):
            setattr(module, name, _cleaning(function))


def _cleaning(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except errors.OpError as error:
            # The same error, of any class, goes on: only its text changes.
            error._message = cleaned(error.message)
            raise

    return call
