"""IPUs of ops and buffers, by the IPUs of the pipeline's stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tensorflow_ipu.planner.workload import TENSOR, Op, Workload
from tensorflow_ipu.schedule import PipelineDescription

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
