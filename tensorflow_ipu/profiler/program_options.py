"""The options that a program was compiled with, as data for JSON."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.configs.flags import Flags

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable


def options_of(executable: Executable) -> dict[str, Any]:
    """Returns the options that a program was compiled with.

    Args:
        executable: the program.

    Returns:
        `config` (the options of the IPU system), `engine` (the engine options in force), `flags`
        (those that differ from their defaults), and `configured_at` (file and line of the program
        that configured the system, empty if that is not known).
    """
    attached = executable.system
    given, defaults = dataclasses.asdict(attached.flags), dataclasses.asdict(Flags())
    return {
        "config": attached.settings.to_dict(),
        "engine": attached.engine_options,
        "flags": {name: v for name, v in given.items() if v != defaults[name]},
        "configured_at": attached.configured_at,
    }
