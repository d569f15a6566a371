"""Simplifications of graphs: the module `popxl_addons.patterns`.

What these change on the original's hardware are memory and time. Programs are simplified when they
are compiled here, so there is nothing left to do.
"""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.common.enums import PatternsLevel

__all__ = ["apply_pre_alias_patterns", "patterns_level"]

patterns_level = {
    "no_patterns": PatternsLevel.NoPatterns,
    "minimal": PatternsLevel.Minimal,
    "default": PatternsLevel.Default,
    "all": PatternsLevel.All,
}


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Does nothing: a program is simplified when it is compiled.

    Args:
        ir: the program.
        level: which patterns: "no_patterns", "minimal", "default" or "all".

    Raises:
        ValueError: If the level is unknown.
    """
    if level not in patterns_level:
        raise ValueError(f"level must be one of {list(patterns_level)}. Received: {level!r}")
