"""Adds gradient accumulation to a Workload that is made into a pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tensorflow_ipu.planner.program.sections import BACKWARD, UPDATE
from tensorflow_ipu.planner.program.structure import ACCUMULATOR
from tensorflow_ipu.planner.workload import (
    TENSOR,
    VARIABLE,
    Buffer,
    Op,
    Operand,
    Variable,
    Workload,
)


def accumulating(workload: Workload) -> Workload:
    """Returns a pipeline that adds up its gradients, if it does not yet.

    What the backward pass makes for the weight update is added to a variable for each mini-batch,
    and the update reads that.

    Args:
        workload: the program. Its ops have phases.
    """
    makers = _gradients(workload)
    if not makers:
        return workload
    sums = {buffer: len(workload.buffers) + i for i, buffer in enumerate(makers)}
    variables: list[Variable] = []
    buffers: list[Buffer] = []
    for buffer in makers:
        gradient = workload.buffers[buffer]
        name, place = f"{gradient.name}/sum", len(workload.variables) + len(variables)
        ipu = gradient.ipu or 0
        variables.append(Variable(name, gradient.dtype, gradient.shape, ACCUMULATOR, ipu))
        buffers.append(Buffer(name, gradient.dtype, gradient.shape, VARIABLE, ipu, variable=place))
    return dataclasses.replace(
        workload,
        ops=_with_sums(workload, makers, sums),
        variables=(*workload.variables, *variables),
        buffers=(*workload.buffers, *buffers),
    )


def _gradients(workload: Workload) -> dict[int, int]:
    """Tensors that the backward pass makes and the update reads, with the last op to make each."""
    makers: dict[int, int] = {}
    for index, op in enumerate(workload.ops):
        for operand in op.outputs if op.phase == BACKWARD else ():
            if operand.buffer is not None and operand.type.elements > 1:
                if workload.buffers[operand.buffer].kind == TENSOR:
                    makers[operand.buffer] = index
    read = {o.buffer for op in workload.ops if op.phase == UPDATE for o in op.inputs}
    return {buffer: index for buffer, index in makers.items() if buffer in read}


def _with_sums(
    workload: Workload, makers: Mapping[int, int], sums: Mapping[int, int]
) -> tuple[Op, ...]:
    """The ops, with one that adds to the sum after each that makes a gradient."""
    ops = workload.ops
    added: dict[int, list[Op]] = {}
    for buffer, maker in makers.items():
        added.setdefault(ops[maker].end, []).append(_addition(workload, maker, buffer, sums))
    # Ops that are added after the last one a function runs belong to it too.
    inside = [0] * len(ops)
    for index, op in enumerate(ops):
        if op.end > index + 1:
            inside[index] = sum(index < m and ops[m].end <= op.end for m in makers.values())
    made: list[Op] = []
    for index, op in enumerate(ops):
        made += added.get(index, ())
        end = len(made) + (op.end - index) + inside[index]
        made.append(dataclasses.replace(op, inputs=_summed(op, sums), end=end))
    made += added.get(len(ops), ())
    return tuple(
        dataclasses.replace(op, end=index + 1) if op.end < 0 else op
        for index, op in enumerate(made)
    )


def _addition(workload: Workload, maker: int, buffer: int, sums: Mapping[int, int]) -> Op:
    """The op that adds a gradient to its sum; where it ends is not known yet."""
    kept, by = workload.buffers[buffer], workload.ops[maker]
    return dataclasses.replace(
        by,
        name=f"{by.name}/sum",
        type="AssignAddVariableOp",
        inputs=tuple(Operand(kept.dtype, kept.shape, index) for index in (sums[buffer], buffer)),
        outputs=(),
        attributes={},
        end=-1,
        flops=None,
        trip_count=None,
    )


def _summed(op: Op, sums: Mapping[int, int]) -> tuple[Operand, ...]:
    """The inputs of an op; an update reads sums in place of gradients."""
    if op.phase != UPDATE:
        return op.inputs
    return tuple(
        operand
        if operand.buffer is None
        else operand._replace(buffer=sums.get(operand.buffer, operand.buffer))
        for operand in op.inputs
    )
