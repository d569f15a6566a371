"""Edits of a Workload that stand for edits of the user's program."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from tensorflow_ipu.planner.workload import Op, Operand, Workload

FULL = "float32"
HALF = "float16"


def to_half(workload: Workload) -> Workload:
    """Returns the program with float16 instead of all float32.

    Args:
        workload: the program.
    """
    return dataclasses.replace(
        workload,
        ops=tuple(_half_op(op) for op in workload.ops),
        buffers=tuple(b._replace(dtype=_half(b.dtype)) for b in workload.buffers),
        variables=tuple(v._replace(dtype=_half(v.dtype)) for v in workload.variables),
        copies=tuple(
            c._replace(num_bytes=c.num_bytes // 2) if _is_full(workload, c.tensor) else c
            for c in workload.copies
        ),
    )


def has_full(workload: Workload) -> bool:
    """Returns whether a program has float32 tensors with more than one element."""
    return any(buffer.dtype == FULL and buffer.type.elements > 1 for buffer in workload.buffers)


def offloaded(workload: Workload, variables: Collection[int], split: int | None = None) -> Workload:
    """Returns the program with some variables in streaming memory.

    Args:
        workload: the program.
        variables: their indices.
        split: over how many replicas they are split; None leaves that.
    """
    changed = tuple(
        variable._replace(offloaded=True, split=variable.split if split is None else split)
        if index in variables
        else variable
        for index, variable in enumerate(workload.variables)
    )
    return dataclasses.replace(workload, variables=changed)


def offloaded_from(
    workload: Workload,
    variables: Collection[int],
    minimum_bytes: int,
    split: int | None = None,
) -> Workload:
    """Returns the program with some variables in streaming memory, but for small ones.

    Args:
        workload: the program.
        variables: their indices.
        minimum_bytes: least size of a variable that is put there.
        split: over how many replicas they are split; None leaves that.
    """
    large = [i for i in variables if workload.variables[i].num_bytes >= minimum_bytes]
    return offloaded(workload, large, split)


def on_chip(workload: Workload, variables: Collection[int]) -> Workload:
    """Returns the program with some variables in the memory of tiles, whole.

    Args:
        workload: the program.
        variables: their indices.
    """
    changed = tuple(
        variable._replace(offloaded=False, split=1) if index in variables else variable
        for index, variable in enumerate(workload.variables)
    )
    return dataclasses.replace(workload, variables=changed)


def _is_full(workload: Workload, tensor: str) -> bool:
    """Returns whether a tensor that is copied is float32."""
    return any(buffer.name == tensor and buffer.dtype == FULL for buffer in workload.buffers)


def _half(dtype: str) -> str:
    return HALF if dtype == FULL else dtype


def _half_op(op: Op) -> Op:
    """Returns an op with float16 instead of float32; few ops of scalar updates have either."""
    attributes = _half_attributes(op.attributes)
    full = any(operand.dtype == FULL for operand in (*op.inputs, *op.outputs))
    if not full and attributes is op.attributes:
        return op
    return dataclasses.replace(
        op,
        inputs=tuple(map(_half_operand, op.inputs)),
        outputs=tuple(map(_half_operand, op.outputs)),
        attributes=attributes,
    )


def _half_operand(operand: Operand) -> Operand:
    if operand.dtype != FULL:
        return operand
    return Operand(HALF, operand.shape, operand.buffer)


def _half_attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the attributes with float16 instead of float32: types are texts there."""
    if FULL not in attributes.values():
        return attributes
    return {key: HALF if value == FULL else value for key, value in attributes.items()}
