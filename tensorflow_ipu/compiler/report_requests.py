"""Reports of compiled programs that options and flags request.

Reports are made by `tensorflow_ipu.profiler`, which knows the compiler. So nothing of it is
imported here until an option asks for a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.device.attachment import System


def compiled(executable: Executable) -> str:
    """Writes and logs the reports that options request of a program just compiled.

    Args:
        executable: the program.

    Returns:
        The directory of its report; empty if none was written.

    Raises:
        ValueError: an option about reports has a value that it does not take.
    """
    if executable.on_device and _asked(executable.system):
        from tensorflow_ipu.profiler import automatic

        return automatic.compiled(executable)
    return ""


def _asked(attached: System) -> bool:
    """Returns whether options or flags may ask for files or log lines about programs."""
    flags = attached.flags
    return (
        flags.log_cycle_count >= 0
        or bool(flags.save_interval_report or flags.tensor_map_file_path)
        or flags.dump_schedule_as_dot
        or bool(attached.options.profiling.report_directory)
        or any(name.startswith("autoReport.") for name in attached.engine_options)
    )
