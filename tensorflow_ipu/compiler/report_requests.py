"""Starts the reports that options and flags request of compiled programs.

Reports are made by `tensorflow_ipu.profiler`, which knows the compiler. So nothing of it is
imported here until an option asks for a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.configs import flags
from tensorflow_ipu.device import system

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable


def compiled(executable: Executable) -> None:
    """Writes and logs what options request about a program that was just compiled.

    Args:
        executable: the program.

    Raises:
        ValueError: an option about reports has a value that it does not take.
    """
    if executable.on_device and _asked():
        from tensorflow_ipu.profiler import automatic

        automatic.compiled(executable)


def _asked() -> bool:
    """Whether options or flags may ask for files or log lines about programs."""
    parsed, attached = flags.parsed(), system.current()
    return (
        parsed.log_cycle_count >= 0
        or bool(parsed.save_interval_report or parsed.tensor_map_file_path)
        or parsed.dump_schedule_as_dot
        or bool(attached.options.profiling.report_directory)
        or any(name.startswith("autoReport.") for name in attached.engine_options)
    )
