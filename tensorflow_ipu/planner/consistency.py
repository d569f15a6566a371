"""Checks that a Workload and Settings read from a file describe a program.

`profiler/schema.py` has checked each value on its own. This module checks the relations between
values, so that planning needs no checks.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import VARIABLE, Workload

# Far beyond all memory; sums of a program's tensors still fit 64 bits.
_MOST_BYTES = 2**50
# A schedule has an entry for each mini-batch, stage and phase.
_MOST_ENTRIES = 10**6
_PHASES = ("", "forward", "backward", "update")


def check(workload: Workload, settings: Settings) -> None:
    """Checks a program and its Settings against each other.

    Args:
        workload: the program.
        settings: chip, replicas and options.

    Raises:
        ValueError: they contradict themselves; the message says where.
    """
    _check_places(workload)
    _check_phases(workload)
    _check_buffers(workload)
    _check_nesting(workload)
    _check_pipeline(workload)
    if settings.compute_tiles < 1:
        raise ValueError(
            f"of {settings.chip.tiles} tiles {settings.io_tiles} are I/O tiles, which leaves none"
        )
    if settings.replicas % settings.instances:
        raise ValueError(
            f"{settings.replicas} replicas are not divided evenly among {settings.instances} "
            "instances"
        )
    devices = settings.stage_devices
    if devices is not None and (
        workload.pipeline is None
        or len(devices) != workload.pipeline.stages
        or max(devices, default=0) >= workload.ipus
    ):
        raise ValueError(f"stage_devices {devices} are not the IPUs of the program's stages")


def _check_places(workload: Workload) -> None:
    """Raises if an op names an IPU or stage that does not exist."""
    _check_below("op", "IPU", (op.ipu for op in workload.ops), workload.ipus)
    _check_below("buffer", "IPU", (buffer.ipu for buffer in workload.buffers), workload.ipus)
    _check_below("variable", "IPU", (v.ipu for v in workload.variables), workload.ipus)
    ends = (max(copy.source, copy.destination) for copy in workload.copies)
    _check_below("copy", "IPU", ends, workload.ipus)
    stages = 0 if workload.pipeline is None else workload.pipeline.stages
    _check_below("op", "stage", (op.stage for op in workload.ops), stages)
    _check_below("copy", "stage", (copy.stage for copy in workload.copies), stages)


def _check_phases(workload: Workload) -> None:
    """Raises if ops or copies have an unknown phase."""
    phases = [(f"op {index}", op.phase) for index, op in enumerate(workload.ops)]
    phases += [(f"copy {index}", copy.phase) for index, copy in enumerate(workload.copies)]
    for item, phase in phases:
        if phase not in _PHASES:
            expected = ", ".join(map(repr, _PHASES))
            raise ValueError(f"{item} has the phase {phase!r}; expected one of {expected}")


def _check_below(kind: str, what: str, numbers: Iterable[int | None], count: int) -> None:
    """Raises if an index is not below the number of its objects."""
    for index, number in enumerate(numbers):
        if number is not None and not 0 <= number < count:
            raise ValueError(f"{kind} {index} names {what} {number} of {count}")


def _check_buffers(workload: Workload) -> None:
    """Raises if a buffer's size is impossible, or a variable's buffer has no variable."""
    for index, buffer in enumerate(workload.buffers):
        if (buffer.kind == VARIABLE) != (buffer.variable is not None):
            raise ValueError(f"buffer {index} is a {buffer.kind} of variable {buffer.variable}")
        if buffer.batched is not None and buffer.batched >= len(buffer.shape):
            raise ValueError(
                f"buffer {index} grows in dimension {buffer.batched} of {list(buffer.shape)}"
            )
    total = sum(buffer.num_bytes for buffer in workload.buffers)
    total += sum(variable.num_bytes for variable in workload.variables)
    types = {operand.type for op in workload.ops for operand in (*op.inputs, *op.outputs)}
    largest = max((tensor.num_bytes for tensor in types), default=0)
    if max(total, largest) > _MOST_BYTES:
        raise ValueError(f"tensors of more than {_MOST_BYTES} bytes")


def _check_nesting(workload: Workload) -> None:
    """Raises if an op of a loop or branch ends after it."""
    open_ends = [len(workload.ops)]
    for index, op in enumerate(workload.ops):
        while open_ends[-1] <= index:
            open_ends.pop()
        if op.end > open_ends[-1]:
            raise ValueError(
                f"op {index} ends at {op.end}, and the op around it at {open_ends[-1]}"
            )
        open_ends.append(op.end)


def _check_pipeline(workload: Workload) -> None:
    """Raises if the pipeline uses missing IPUs, or is longer than any schedule."""
    pipeline = workload.pipeline
    if pipeline is None:
        return
    if max(pipeline.ipus) >= workload.ipus:
        raise ValueError(f"a stage is on IPU {max(pipeline.ipus)} of {workload.ipus}")
    if workload.stage_names and len(workload.stage_names) != pipeline.stages:
        raise ValueError(f"{len(workload.stage_names)} names for {pipeline.stages} stages")
    if pipeline.mini_batches * pipeline.stages > _MOST_ENTRIES:
        raise ValueError(
            f"{pipeline.mini_batches} mini-batches of {pipeline.stages} stages make a schedule "
            f"with more than {_MOST_ENTRIES} entries"
        )
