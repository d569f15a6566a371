"""Reports on the programs of this process: `profile`, `reports`, and the text of `summary`."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from absl import logging

from tensorflow_ipu.compiler import cache, observers
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.listing.program_listing import work_total
from tensorflow_ipu.configs.poplar_options import SHOWN_LAUNCHES
from tensorflow_ipu.import_hook.versions import packages as installed
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.profiler import report_directory
from tensorflow_ipu.profiler.export.text_report import cycles_text, percent, seconds_text
from tensorflow_ipu.profiler.host_activity import HostActivity
from tensorflow_ipu.profiler.recorder import Recorder
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.profiler.report_data import Executions
from tensorflow_ipu.profiler.report_directory import ReportOptions
from tensorflow_ipu.runtime import native, system
from tensorflow_ipu.util import private_files
from tensorflow_ipu.util.short_repr import shows
from tensorflow_ipu.util.text import human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord


# --- Launch counts ---


class Tracker:
    """Counts of the launches of programs, from the moment that each is watched.

    Args:
        on_reset: called when the configuration changes, while the programs are still known.
    """

    def __init__(self, on_reset: Callable[[], None] | None = None) -> None:
        self._on_reset = on_reset
        self._begin: dict[str, Executions] = {}
        self._end: dict[str, Executions] = {}
        self._watched: dict[str, Executable] = {}
        _trackers.add(self)

    @property
    def executables(self) -> tuple[Executable, ...]:
        """The programs that are watched, in the order in which that began."""
        return tuple(self._watched.values())

    def watch(self, executable: Executable) -> None:
        """Starts counting the launches of a program, and keeps it; once is enough."""
        if executable.id not in self._watched:
            executable.keep_sources()
            self._begin[executable.id] = Executions.of(executable)
            self._watched[executable.id] = executable

    def executions(self, executable: Executable) -> Executions:
        """Returns launches and host seconds of a program since it is watched.

        Args:
            executable: a program that is watched.
        """
        end = self._end.get(executable.id) or Executions.of(executable)
        return end.since(self._begin[executable.id])

    def freeze(self) -> None:
        """Stops counting."""
        for executable in self.executables:
            self._end.setdefault(executable.id, Executions.of(executable))

    def before_reset(self) -> None:
        """Records the numbers that the engine is about to drop."""
        self.freeze()
        if self._on_reset is not None:
            self._on_reset()

    def clear(self) -> None:
        """Drops all programs."""
        for numbers in (self._begin, self._end, self._watched):
            numbers.clear()


# The trackers that are in use.
_trackers: weakref.WeakSet[Tracker] = weakref.WeakSet()


def _before_reset() -> None:
    """Called before the engine drops programs: waits for running ones, as the engine would."""
    watching = [tracker for tracker in tuple(_trackers) if tracker.executables]
    if watching:
        native.wait_idle()
    for tracker in watching:
        tracker.before_reset()


observers.observe_resets(_before_reset)


# --- Profiled blocks ---


class profile:  # noqa: N801 - used like a function
    """Collects the programs that are compiled or launched inside a `with` block.

    For example::

        with profiler.profile("reports") as profiled:
            model.fit(dataset)
        print(profiled.reports[0])

    Reports are modelled at the end of the block, unless options request them earlier. If they are
    written, the host's compilations, launches and transfers are timed for the traces.

    Args:
        directory: where each program gets a directory with its report; None writes no files.
        tensorboard: log directory of TensorBoard to write to; None writes none.
        launches: number of launches that the trace shows.
        host_threads: whether traces show the threads of feeds, by TensorFlow's profiler. It sees
            every op of the simulation meanwhile, which slows the programs.

    Raises:
        ValueError: `launches` is no integer from 1 to 1000.
        ImportError: `tensorboard` is given, and the package of that name is not installed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        tensorboard: str | os.PathLike[str] | None = None,
        launches: int = 1,
        host_threads: bool = False,
    ) -> None:
        if tensorboard is not None:
            installed.require_tensorboard()
        self._host_threads = host_threads
        # The program may change its current directory inside the block.
        self._directory = None if directory is None else Path(directory).absolute()
        self._tensorboard = None if tensorboard is None else Path(tensorboard).absolute()
        self._launches = SHOWN_LAUNCHES.whole("launches", launches)
        self._tracker: Tracker | None = None
        self._compiled: list[Executable] = []
        self._found: list[tuple[Executable, Executions]] = []
        self._recorder: Recorder | None = None
        self._host: HostActivity | None = None
        #: Directories that were written, one for each report.
        self.directories: list[Path] = []

    def __enter__(self) -> profile:
        """Starts tracking programs."""
        if self._tracker is not None:
            raise RuntimeError("This profile is in use. Make another with profiler.profile().")
        self._tracker = Tracker()
        self._compiled.clear()
        for executable in cache.executables():
            self._tracker.watch(executable)
        observers.observe(self._on_compile, self._report_place())
        written = self._directory is not None or self._tensorboard is not None
        self._recorder = Recorder(threads=self._host_threads) if written else None
        return self

    def _report_place(self) -> str:
        """Returns the place of the reports at the end of the block, in words."""
        if self._directory is None:
            return '`reports` of the profile() block; `.reports[-1].save("report.json")` writes it'
        return f"a directory in {self._directory} when the profile() block has ended"

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops tracking, and writes the reports if there is a directory for them.

        A folder that cannot be written is a warning: the results of the block must not be lost.
        """
        tracker, self._tracker = self._tracker, None
        if tracker is None:
            raise RuntimeError("This profile was not entered. Use it in a `with` statement.")
        observers.forget(self._on_compile)
        self._host = self._recorder.stop() if self._recorder is not None else None
        self._recorder = None
        tracker.freeze()
        self._found = self._done(tracker)
        try:
            self._write()
        except Exception as failure:
            if error is None:
                raise
            # Users have to see the error of their program.
            logging.error("The reports of a profile cannot be made: %s", failure)

    def _done(self, tracker: Tracker) -> list[tuple[Executable, Executions]]:
        """Returns the programs compiled or launched on the device, with their launches."""
        done = [(program, tracker.executions(program)) for program in tracker.executables]
        return [
            (program, executions)
            for program, executions in done
            if program.on_device and (executions.launches or program in self._compiled)
        ]

    @property
    def reports(self) -> tuple[Report, ...]:
        """A report of each program, with its launches inside the block up to now."""
        found = self._found if self._tracker is None else self._done(self._tracker)
        return tuple(
            Report.from_executable(program).with_executions(executions)
            for program, executions in found
        )

    def modelled_seconds(self) -> float:
        """Returns the modelled seconds of all launches inside the block on the chip."""
        return sum(r.plan.timeline.seconds * r.executions.launches for r in self.reports)

    __repr__ = shows(
        lambda self: {
            "directory": self._directory and str(self._directory),
            "tensorboard": self._tensorboard and str(self._tensorboard),
            "open": self._tracker is not None,
            "programs": [program.name for program, _ in self._found],
        }
    )

    def __str__(self) -> str:
        """Returns the text summaries."""
        return "\n".join(str(report) for report in self.reports)

    def _repr_html_(self) -> str:
        """Returns the reports as HTML for notebooks."""
        shown = "".join(report._repr_html_() for report in self.reports)
        return shown or "<p>No program was compiled or launched.</p>"

    def _on_compile(self, executable: Executable) -> None:
        """Called with each program that is compiled."""
        if self._tracker is not None:
            self._tracker.watch(executable)
            self._compiled.append(executable)

    def _write(self) -> None:
        """Writes the files that were requested."""
        self.directories = []
        if self._directory is not None:
            with _warned("Reports", self._directory):
                self._write_reports(os.fspath(self._directory))
        if self._tensorboard is not None:
            from tensorflow_ipu.profiler.export import tensorboard

            with _warned("Reports for TensorBoard", self._tensorboard):
                for report in self.reports:
                    tensorboard.write(report, self._tensorboard, host=self._host)

    def _write_reports(self, parent: str) -> None:
        """Writes each report into a directory of its own."""
        for report in self.reports:
            path = report_directory.make(parent)
            options = ReportOptions(parent, launches=self._launches)
            report_directory.write(report, path, options, self._host)
            self.directories.append(path)


@contextlib.contextmanager
def _warned(what: str, folder: Path) -> Iterator[None]:
    """Context: turns a write error into a warning."""
    try:
        yield
    except OSError as error:
        private_files.warn_not_written(what, folder, error)


def report_of(executable: Executable) -> Report:
    """Returns the report of a compiled program.

    Args:
        executable: one of `profiler.executables()`.
    """
    return Report.from_executable(executable)


def reports() -> list[Report]:
    """Returns a report of each program of the configuration in force that runs on the device."""
    return [report_of(program) for program in cache.executables() if program.on_device]


# --- Text summary of devices and programs ---

_TYPES_SHOWN = 6


def summary() -> str:
    """Returns a summary of each attached device and of each program compiled for it.

    Returns:
        Text: chip, IPUs, tiles and memory of each device; name, replicas, IPUs, sizes, ops, work,
        memory, modelled time and launches of each program compiled under the configuration in
        force.
    """
    return describe(system.current(), cache.executables())


def describe(attached: system.System, executables: Sequence[Executable]) -> str:
    """Returns the summary of a given system and given programs.

    Args:
        attached: the system.
        executables: programs, of any of its devices.

    Returns:
        Text as of `summary`.
    """
    lines = []
    for device in attached.devices:
        lines += _device_lines(device)
        programs = [program for program in executables if program.ordinal == device.ordinal]
        for program in programs:
            lines += ["  " + line for line in _program_lines(program)]
        if not programs:
            lines.append("  no program has been compiled for it")
    return "\n".join(lines)


def _device_lines(device: system.AttachedDevice) -> list[str]:
    """Returns the lines about a device: IPUs, tiles and memory."""
    chip = device.chip
    tiles = chip.tiles * device.num_ipus
    ids = ", ".join(map(str, device.ipus))
    return [
        f"/device:IPU:{device.ordinal}: {device.num_ipus} simulated {chip.title} (IPU {ids})",
        f"  {tiles} tiles, {human_bytes(tiles * chip.memory_per_tile)} of memory on the chips",
    ]


def _program_lines(program: Executable) -> list[str]:
    """Returns the lines about a program: replicas, arguments, ops and launches."""
    replicas, ipus = program.replicas, program.ipus_used
    division = program.settings.division and f", {program.settings.division}"
    inputs = [argument for argument in program.arguments if not argument.is_variable]
    variables = [argument for argument in program.arguments if argument.is_variable]
    return [
        f"program {program.name}",
        f"  {replicas} replica{_plural(replicas)} of {ipus} IPU{_plural(ipus)} each{division}",
        f"  inputs: {len(inputs)}, {_size(inputs)}; variables: {len(variables)}, "
        f"{_size(variables)} (one replica)",
        f"  ops: {_types(program.ops)}",
        *_work_lines(program),
        *_plan_lines(program),
        *_time_lines(program),
    ]


def _plan_lines(program: Executable) -> list[str]:
    """Returns the lines about memory and time on the chip, of programs that run there."""
    if not program.on_device:
        return ["  evaluated by the host: it takes no memory and no time of the chip"]
    plan = program.plan
    worst, timeline = plan.fullest, plan.timeline
    verdict = "fits" if plan.fits else "does NOT fit"
    low, high = map(seconds_text, throughput.interval(plan).of_time(timeline.seconds))
    return [
        f"  memory: {verdict}; the fullest tile is tile {worst.worst_tile} of IPU {worst.ipu} with "
        f"{human_bytes(worst.worst_bytes)} of {human_bytes(worst.capacity)} "
        f"({percent(worst.worst_bytes, worst.capacity)})",
        f"  a launch takes the chip {cycles_text(timeline.cycles)} cycles, "
        f"{seconds_text(timeline.seconds)} ({timeline.label.value}; {low} to {high} by the spread "
        "of measurements)",
    ]


def _work_lines(program: Executable) -> list[str]:
    """Returns the line about the work of a launch, with every reason for inexactness."""
    total = work_total(program.ops)
    notes = []
    if total.modelled:
        notes.append(f"{human_count(total.modelled)} modelled")
    if total.assumed:
        notes.append(f"{human_count(total.assumed)} assumed")
    if total.without_formula:
        notes.append(f"{sum(total.without_formula.values())} ops without a formula left out")
    if total.unknown_loops:
        notes.append(f"{total.unknown_loops} loops of unknown trip count counted once")
    if total.conditional:
        notes.append("all branches counted as taken")
    text = f"  flops of one launch of one replica: {human_count(total.flops)}"
    return [text + (f" ({'; '.join(notes)})" if notes else "")]


def _time_lines(program: Executable) -> list[str]:
    """Returns the line about launches and their host time, unrelated to a chip's speed."""
    launches = program.launches
    if not launches:
        return ["  never launched"]
    per_launch = program.seconds / launches
    return [
        f"  launches: {launches}, {program.seconds:.3f} s of the host's wall time "
        f"({per_launch * 1e3:.3f} ms each; not a prediction for hardware)"
    ]


def _size(arguments: Iterable[ArgumentSpec]) -> str:
    """Returns the bytes of some arguments together."""
    sizes = [argument.num_bytes for argument in arguments]
    known = sum(size for size in sizes if size is not None)
    return human_bytes(known) + (" and some of unknown size" if None in sizes else "")


def _types(ops: Sequence[OpRecord]) -> str:
    """Returns the number of ops, and the commonest types."""
    counts = Counter(op.type for op in ops)
    shown = ", ".join(f"{count} {name}" for name, count in counts.most_common(_TYPES_SHOWN))
    more = len(counts) - _TYPES_SHOWN
    return f"{len(ops)} ({shown}{f', {more} other types' if more > 0 else ''})"


def _plural(count: int) -> str:
    """Returns the ending of a counted noun."""
    return "" if count == 1 else "s"
