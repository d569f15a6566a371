"""A Workload with its pipeline stages moved to the IPUs that Settings choose."""

from __future__ import annotations

import dataclasses

from tensorflow_ipu.planner.program.counted_ops import UPDATE
from tensorflow_ipu.planner.program.placement import HOST, Placement
from tensorflow_ipu.planner.workload import TENSOR, Copy, Op, Workload
from tensorflow_ipu.schedule import PipelineDescription


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
            dataclasses.replace(op, ipu=_ipu(op, ipu, found))
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


def _ipu(op: Op, ipu: int, found: Placement) -> int | None:
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
