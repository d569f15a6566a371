"""IPUs of ops and buffers, and the Workload with its stages moved to other IPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tensorflow_ipu.planner.program.structure import UPDATE
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.workload import TENSOR, Copy, Op, Workload

# --- IPUs of ops and buffers, by the IPUs of the pipeline's stages ---

# Stands for the host, and for buffers that the host keeps.
HOST = -1


@dataclasses.dataclass(frozen=True)
class Placement:
    """The IPU of each op and buffer, within a replica.

    Attributes:
        ops: IPU of each op, int32; -1 for the host.
        buffers: IPU of each buffer, int32; -1 for buffers of the host.
        variables: IPU of each variable, int32.
        ipus: Number of IPUs of a replica.
    """

    ops: np.ndarray
    buffers: np.ndarray
    variables: np.ndarray
    ipus: int


def moved_pipeline(
    workload: Workload, devices: tuple[int, ...] | None
) -> PipelineDescription | None:
    """Returns the pipeline of a program with its stages on other IPUs; None without a pipeline.

    Args:
        workload: the program.
        devices: IPU of each stage; None leaves stages where they are.

    Raises:
        ValueError: the program has another number of stages.
    """
    description = workload.pipeline
    if devices is None:
        return description
    if description is None or len(devices) != description.stages:
        stages = 0 if description is None else description.stages
        raise ValueError(
            f"stage_devices must have one IPU for each pipeline stage, of which the program has "
            f"{stages}; received {len(devices)}: {devices}."
        )
    return dataclasses.replace(description, device_mapping=devices)


def find(workload: Workload, description: PipelineDescription | None) -> Placement:
    """Finds the IPU of each op, buffer and variable.

    Ops of a pipeline stage are on the stage's IPU. A result is on the IPU of its op. A variable is
    on the IPU of the first stage that uses it.

    Args:
        workload: the program.
        description: its pipeline, with stages on their final IPUs; None without one.
    """
    moved = {} if description is None else _moves(workload, description)
    ops = np.fromiter((_ipu(op, moved) for op in workload.ops), np.int32, len(workload.ops))
    buffers = np.fromiter(
        (HOST if b.ipu is None else b.ipu for b in workload.buffers),
        np.int32,
        len(workload.buffers),
    )
    variables = np.fromiter((v.ipu for v in workload.variables), np.int32, len(workload.variables))
    if moved:
        _follow(workload, moved, ops, buffers, variables)
    used = max((int(found.max(initial=-1)) for found in (ops, buffers, variables)), default=-1)
    if moved and description is not None:
        return Placement(ops, buffers, variables, max(used, *description.ipus) + 1)
    return Placement(ops, buffers, variables, max(used + 1, workload.ipus))


def _moves(workload: Workload, description: PipelineDescription) -> Mapping[int, int]:
    """Returns the new IPU of each stage that moves. Parallel stages stay on theirs."""
    found: dict[int, int] = {}
    for op in workload.ops:
        if op.stage is not None and op.ipu is not None and op.stage < description.stages:
            device = description.device_mapping[op.stage]
            if isinstance(device, int) and device != op.ipu:
                found[op.stage] = device
    return found


def _ipu(op: Op, moved: Mapping[int, int]) -> int:
    """Returns the IPU of an op."""
    if op.ipu is None:
        return HOST
    return moved.get(op.stage, op.ipu) if op.stage is not None else op.ipu


def _follow(
    workload: Workload,
    moved: Mapping[int, int],
    ops: np.ndarray,
    buffers: np.ndarray,
    variables: np.ndarray,
) -> None:
    """Moves results of moved stages, and variables that they are the first to use."""
    seen: set[int] = set()
    for index, op in enumerate(workload.ops):
        if op.stage is None or op.ipu is None:
            continue
        made = [operand.buffer for operand in op.outputs]
        for buffer in [*(operand.buffer for operand in op.inputs), *made]:
            if buffer is None or buffer in seen or buffers[buffer] == HOST:
                continue
            if workload.buffers[buffer].kind == TENSOR and buffer not in made:
                continue
            seen.add(buffer)
            if op.stage in moved:
                buffers[buffer] = ops[index]
    for index, kept in enumerate(workload.buffers):
        if kept.variable is not None and index in seen:
            variables[kept.variable] = buffers[index]


# --- A Workload with its pipeline stages moved to the IPUs that Settings choose ---


def relocated(
    workload: Workload, description: PipelineDescription | None, found: Placement
) -> Workload:
    """Returns a Workload whose ops, buffers, variables and copies follow the stages.

    Args:
        workload: the program.
        description: its pipeline, with stages where they are to be; None without one.
        found: where everything is then.
    """
    if description == workload.pipeline:
        return workload
    moved = dataclasses.replace(
        workload,
        ops=tuple(
            dataclasses.replace(op, ipu=_ipu_of(op, ipu, found))
            for op, ipu in zip(workload.ops, found.ops.tolist())
        ),
        buffers=tuple(
            buffer._replace(ipu=None if ipu == HOST else ipu)
            for buffer, ipu in zip(workload.buffers, found.buffers.tolist())
        ),
        variables=tuple(
            variable._replace(ipu=ipu)
            for variable, ipu in zip(workload.variables, found.variables.tolist())
        ),
        ipus=found.ipus,
        pipeline=description,
    )
    return dataclasses.replace(moved, copies=_between_stages(moved))


def _ipu_of(op: Op, ipu: int, found: Placement) -> int | None:
    """Returns the IPU of an op; an update that names no stage follows its variables."""
    if ipu == HOST:
        return None
    if op.stage is None and op.phase == UPDATE:
        for operand in op.inputs:
            if operand.buffer is not None and found.buffers[operand.buffer] != HOST:
                return int(found.buffers[operand.buffer])
    return ipu


def _between_stages(workload: Workload) -> tuple[Copy, ...]:
    """Returns copies of results that a stage on another IPU uses, once for each IPU."""
    makers: dict[int, int] = {}
    found: dict[tuple[int, int], Copy] = {}
    for index, op in enumerate(workload.ops):
        if op.stage is None or op.ipu is None:
            continue
        for operand in op.inputs:
            maker = makers.get(-1 if operand.buffer is None else operand.buffer)
            if maker is None or operand.buffer is None:
                continue
            made, buffer = workload.ops[maker], workload.buffers[operand.buffer]
            if made.ipu is not None and made.ipu != op.ipu:
                copy = Copy(
                    buffer.name,
                    made.ipu,
                    op.ipu,
                    buffer.num_bytes,
                    made.runs,
                    made.stage,
                    made.phase,
                    buffer.label,
                )
                found.setdefault((operand.buffer, op.ipu), copy)
        for operand in op.outputs:
            if operand.buffer is not None and workload.buffers[operand.buffer].kind == TENSOR:
                makers.setdefault(operand.buffer, index)
    return tuple(found.values())
