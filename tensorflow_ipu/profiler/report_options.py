"""Requested reports and their places, read from the options.

Engine options (`autoReport.*`) in POPLAR_ENGINE_OPTIONS win over
`config.compilation_poplar_options`, and these over the private options that the legacy functions
set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tensorflow_ipu.configs import flags, poplar_options
from tensorflow_ipu.configs.enums import ExecutionProfileType
from tensorflow_ipu.device.system import System

_PREFIX = "autoReport."
_PARTS = ("outputGraphProfile", "outputExecutionProfile", "outputDebugInfo")


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Which files to write for each program, and where.

    Attributes:
        directory: Where each program gets a directory of its own.
        execution: Whether the timeline of a launch is written too.
        launches: Number of launches that it shows.
        text_only: Whether to write reports as text only.
        max_bytes: Files that would be larger are not written.
    """

    directory: str
    execution: bool = True
    launches: int = 1
    text_only: bool = False
    max_bytes: int = 0x10000000


def read(attached: System, options: Mapping[str, str] | None = None) -> ReportOptions | None:
    """Returns the files that the options request, None if they request no reports.

    Args:
        attached: the configuration.
        options: the engine options; by default the configuration's.

    Raises:
        tf.errors.InvalidArgumentError: an engine option is not known, or has a value that it does
            not take. The variable may have changed since the system was configured.
    """
    engine = attached.engine_options if options is None else options
    poplar_options.check_engine(f"{flags.ENGINE_OPTIONS} or compilation_poplar_options", engine)
    private = attached.settings._profiling
    legacy = bool(private.report_directory)
    everything = _flag(engine, "all", False)
    profiled = private.profile_execution is not ExecutionProfileType.NO_PROFILE
    execution = _flag(engine, "outputExecutionProfile", everything or (legacy and profiled))
    graph = _flag(engine, "outputGraphProfile", everything or legacy)
    # Every report has Poplar's "debug information": names and source lines.
    debug = _flag(engine, "outputDebugInfo", everything)
    launches = int(engine.get(_PREFIX + "executionProfileProgramRunCount", 1))
    if not (graph or execution or debug):
        return None
    return ReportOptions(
        directory=engine.get(_PREFIX + "directory") or private.report_directory or ".",
        execution=execution,
        launches=launches,
        text_only=private.use_poplar_text_report,
        max_bytes=private.max_report_size,
    )


def _flag(engine: Mapping[str, str], name: str, default: bool) -> bool:
    """Returns the value of a boolean engine option."""
    text = engine.get(_PREFIX + name)
    return default if text is None else text == "true"
