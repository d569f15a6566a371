"""Reports and outputs that options and flags request, written when a program is compiled.

No failure here keeps a program from running. A file that cannot be written is one warning for each
folder, and a failure of the model an error in the log. Only invalid values of options are errors of
the program.
"""

from __future__ import annotations

import atexit
import contextlib
import csv
import dataclasses
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.recorder import Recorder
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.profiler.report_directory import ReportOptions
from tensorflow_ipu.profiler.session import Tracker
from tensorflow_ipu.runtime import event_payloads, native
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.configs.flags import Flags
    from tensorflow_ipu.planner.plan import Plan


INTERVAL_COLUMNS = (
    "ipu",
    "step",
    "op",
    "type",
    "always_live_bytes",
    "not_always_live_bytes",
    "worst_tile_bytes",
)

_XLA_FLAGS = "XLA_FLAGS"
_DUMP_FLAG = "--xla_dump_to="

# Names of programs hold slashes of name scopes.
_UNSAFE = re.compile(r"[^\w.-]")


def cycle_line(executable: Executable, parsed: Flags) -> str:
    """Returns the line that is logged after each execution.

    Args:
        executable: the program.
        parsed: flags, of which `log_cycle_count` is the tile.
    """
    plan, tile = executable.plan, parsed.log_cycle_count
    tiles = plan.settings.chip.tiles * plan.workload.ipus * plan.settings.local_replicas
    if tile >= tiles:
        warn_once(
            "--log_cycle_count=%d: %s runs on the tiles 0 to %d. Its cycles are those of all of "
            "them, as each launch begins and ends with a synchronisation.",
            tile,
            executable.name,
            tiles - 1,
        )
    timeline = plan.timeline
    return (
        f"{executable.name}: {round(timeline.cycles)} cycles on tile {tile} "
        f"({timeline.label.value}, {timeline.seconds:.6g} s)"
    )


def write_intervals(executable: Executable, folder: str) -> None:
    """Writes the live bytes at each step of a program as `<program>.csv`.

    Args:
        executable: the program.
        folder: the target folder.

    Raises:
        OSError: the file cannot be written.
    """
    with private_files.replacing(_file(folder, executable.name, ".csv")) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(INTERVAL_COLUMNS)
        writer.writerows(_intervals(executable.plan))
        text.detach()  # writes the rest of the buffer


def _intervals(plan: Plan) -> Iterator[tuple[Any, ...]]:
    """Yields the rows: all steps of the first IPU, then of the next."""
    for memory in plan.memory:
        always = [category.tiles for category in memory.categories if category.always_live]
        fullest = int(np.sum(always, axis=0).max()) if always else 0
        for step, index in enumerate(memory.live_ops.tolist()):
            op = plan.workload.ops[index]
            yield (
                memory.ipu,
                step,
                op.name,
                op.type,
                memory.always_live,
                int(memory.live_bytes[step]),
                fullest + int(memory.live_worst[step]),
            )


def write_tensor_map(executable: Executable, folder: str) -> None:
    """Writes the tile mapping of the results of a program's ops as `<program>.json`.

    Args:
        executable: the program.
        folder: where to.

    Raises:
        OSError: the file cannot be written.
    """
    text = event_payloads.tensor_map(executable, max_bytes=2**62)
    private_files.write_text(_file(folder, executable.name, ".json"), text)


def write_schedule(executable: Executable, _: bool) -> None:
    """Writes the order of a program's ops as `<program>.schedule.dot`.

    It goes where `--xla_dump_to` in XLA_FLAGS says, else into the current folder.

    Args:
        executable: the program.

    Raises:
        OSError: the file cannot be written.
    """
    words = shlex.split(os.environ.get(_XLA_FLAGS, ""))
    given = [word[len(_DUMP_FLAG) :] for word in words if word.startswith(_DUMP_FLAG)]
    path = _file(given[-1] if given else ".", executable.name, ".schedule.dot")
    private_files.write_text(path, schedule_dot(executable.plan))


def schedule_dot(plan: Plan) -> str:
    """Returns the ops of each IPU in the order in which they run, as a graph for Graphviz.

    Args:
        plan: memory and time of a program.
    """
    lines = ["digraph schedule {", "  node [shape=box];"]
    for memory in plan.memory:
        lines += [f"  subgraph cluster_{memory.ipu} {{", f'    label="IPU {memory.ipu}";']
        steps = memory.live_ops.tolist()
        for step, index in enumerate(steps):
            op = plan.workload.ops[index]
            live = int(memory.live_bytes[step])
            text = json.dumps(f"{op.name}\n{op.type}\n{live} B live")
            lines.append(f"    n{memory.ipu}_{step} [label={text}];")
        chain = " -> ".join(f"n{memory.ipu}_{step}" for step in range(len(steps)))
        lines += [f"    {chain};" if len(steps) > 1 else "", "  }"]
    return "\n".join([line for line in lines if line] + ["}"]) + "\n"


def _file(folder: str, program: str, suffix: str) -> Path:
    """Returns the file of a program in a folder, which is created if needed."""
    return private_files.make_folder(folder) / (_UNSAFE.sub("_", program) + suffix)


#: Functions that write the files of a flag, by its name.
FILES: Mapping[str, Callable[[Any, Any], None]] = {
    "save_interval_report": write_intervals,
    "tensor_map_file_path": write_tensor_map,
    "dump_schedule_as_dot": write_schedule,
}


# --- Reports ---


@dataclasses.dataclass(frozen=True)
class _Written:
    """A report whose numbers of executions are renewed at the end."""

    report: Report
    path: Path
    options: ReportOptions


class _Automatic:
    """The reports that were written for the configuration in force."""

    def __init__(self) -> None:
        self.tracker = Tracker(on_reset=self.renew)
        self.written: dict[str, _Written] = {}
        self.recorder: Recorder | None = None
        atexit.register(self.renew)

    def add(self, executable: Executable, options: ReportOptions) -> str:
        """Writes the report of a program that was just compiled; returns its directory."""
        with _not_fatal("Reports", options.directory):
            report = Report.from_executable(executable)
            path = report_directory.make(options.directory)
            report_directory.write(report, path, options)
            logging.info("The report of %s is in %s.", executable.name, path)
            self.tracker.watch(executable)
            if self.recorder is None and options.execution:
                self.recorder = Recorder()  # the compilation that made this report is noted, too
            self.written[executable.id] = _Written(report, path, options)
            return str(path)
        return ""

    def renew(self) -> None:
        """Writes executions and the host's activity into the reports, and drops the programs."""
        recorder, self.recorder = self.recorder, None
        host = None if recorder is None else recorder.stop()
        for executable in self.tracker.executables:
            entry = self.written.get(executable.id)
            done = self.tracker.executions(executable)
            if entry is None or not entry.options.execution or done == Executions():
                continue
            with _not_fatal("Reports", entry.options.directory):
                renewed = entry.report.with_executions(done)
                report_directory.write(renewed, entry.path, entry.options, host)
        self.tracker.clear()
        self.written.clear()


_automatic: list[_Automatic] = []


def compiled(executable: Executable) -> str:
    """Writes and logs the requested outputs of a program just compiled.

    Args:
        executable: the program.

    Returns:
        The directory of its report; empty if none was requested, or none could be written.

    Raises:
        ValueError: an option has an invalid value.
    """
    options = report_directory.read(executable.system)
    directory = ""
    if options is not None:
        if not _automatic:
            _automatic.append(_Automatic())
        directory = _automatic[0].add(executable, options)
    flags = executable.system.flags
    if flags.log_cycle_count >= 0:
        with _not_fatal("Cycles", "the log"):
            native.log_launches(executable.id, cycle_line(executable, flags))
    for name, write in FILES.items():
        folder = getattr(flags, name)
        if folder:
            with _not_fatal(f"Files of --{name}", folder if isinstance(folder, str) else "."):
                write(executable, folder)
    return directory


def planned(executable: Executable, file: str) -> tuple[str, bool]:
    """Saves the report of a program that is only planned.

    Args:
        executable: the program.
        file: the file to write.

    Returns:
        The report as text, and whether the program fits on its IPUs.
    """
    report = Report.from_executable(executable)
    report.save(file)
    return str(report), report.plan.fits


@contextlib.contextmanager
def _not_fatal(what: str, folder: str) -> Iterator[None]:
    """Context: turns a write error into a warning, and any other error into a log line."""
    try:
        yield
    except OSError as error:
        private_files.warn_not_written(what, folder, error)
    except Exception:  # noqa: BLE001 - the model must not keep a program from running
        logging.exception("%s cannot be made. The program runs on without them.", what)
