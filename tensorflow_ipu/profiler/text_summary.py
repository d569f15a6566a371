"""Text summary of attached devices and their compiled programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.listing.program_listing import work_total
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.profiler.export.text_report import cycles_text, percent, seconds_text
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util.text import human_bytes, human_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord

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
