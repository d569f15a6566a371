"""Simplifications of graphs: the module `popxl_addons.patterns`.

What these change on the original's hardware are memory and time. Programs are simplified when they
are compiled here, so there is nothing left to do.
"""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl

__all__ = ["apply_pre_alias_patterns", "disable_fc_pass", "enable_fc_pass"]

_LEVELS = ("all", "default", "minimal", "none")


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Does nothing: a program is simplified when it is compiled.

    Args:
        ir: the program.
        level: which patterns: "all", "default", "minimal" or "none".

    Raises:
        ValueError: If the level is unknown.
    """
    if level not in _LEVELS:
        raise ValueError(f"level must be one of {_LEVELS}. Received: {level!r}")


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Does nothing: products are not laid out for training as fully connected layers here.

    Args:
        ir: the program.
    """


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Does nothing: products are not laid out for training as fully connected layers here.

    Args:
        ir: the program.
    """
