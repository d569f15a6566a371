"""Prints of a program that a level switches on; the module `popxl_addons.debugging`."""

from __future__ import annotations

import os
from typing import Any, Literal

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = [
    "LEVELS",
    "LEVELS_TYPE",
    "MODEL_LOG_LEVEL",
    "MODEL_LOG_LEVEL_VAL",
    "print_tensor",
    "print_text",
]

LEVELS_TYPE = Literal["TRACE", "DEBUG", "INFO", "WARN"]
LEVELS: dict[str, int] = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3}
_VARIABLE, _DEFAULT = "MODEL_LOG_LEVEL", "INFO"
# The level of the environment when this is imported. Prints look at the environment each time.
MODEL_LOG_LEVEL = os.environ.get(_VARIABLE, _DEFAULT).upper()
MODEL_LOG_LEVEL_VAL = LEVELS.get(MODEL_LOG_LEVEL, LEVELS[_DEFAULT])


def _is_shown(level: str) -> bool:
    """Whether prints of a level are on, by the environment variable MODEL_LOG_LEVEL."""
    shown = os.environ.get(_VARIABLE, _DEFAULT).upper()
    for name, value in (("level", level), (_VARIABLE, shown)):
        if value not in LEVELS:
            raise ValueError(f"{name} must be one of {list(LEVELS)}. Received: {value!r}")
    return LEVELS[shown] <= LEVELS[level]


def print_tensor(
    t: popxl.Tensor, *args: Any, level: LEVELS_TYPE = "DEBUG", **kwargs: Any
) -> popxl.Tensor:
    """Prints a tensor each time that the program passes here, if prints of the level are on.

    Args:
        t: the tensor.
        *args: as for `popxl.ops.print_tensor`.
        level: "TRACE", "DEBUG", "INFO" or "WARN". MODEL_LOG_LEVEL is the lowest that is shown.
        **kwargs: as for `popxl.ops.print_tensor`.

    Returns:
        The tensor.

    Raises:
        ValueError: If a level is unknown.
    """
    return ops.print_tensor(t, *args, **kwargs) if _is_shown(level) else t


def print_text(text: str, num: float | None = None, level: LEVELS_TYPE = "DEBUG") -> None:
    """Prints a text each time that the program passes here, if prints of the level are on.

    Args:
        text: the text.
        num: a number that follows it; 0 by default.
        level: as for `print_tensor`.

    Raises:
        ValueError: If a level is unknown.
    """
    if _is_shown(level):
        ops.print_tensor(popxl.constant(float(num or 0)), title=text)
