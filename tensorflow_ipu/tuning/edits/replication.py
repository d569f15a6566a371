"""Conversion of one replica's Workload to a Workload of several that train together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.program.structure import ACCUMULATOR, BACKWARD, UPDATE, sections_of
from tensorflow_ipu.planner.workload import TENSOR, VARIABLE, Op, Operand, Workload
from tensorflow_ipu.util import op_names


def with_sums(workload: Workload) -> Workload:
    """Returns a program that sums its gradients over the replicas before each weight update.

    Each gradient, or sum of gradients over mini-batches, is summed once and in place, right before
    the first op of the update that reads it.

    Args:
        workload: the program. If it has collectives, or does not train, it is returned unchanged.
    """
    if any(op.type in op_names.LINK_COLLECTIVES for op in workload.ops):
        return workload
    sums = {
        reader: _sums(workload.ops[reader], operands)
        for reader, operands in _gradients(workload).items()
    }
    return dataclasses.replace(workload, ops=_inserted(workload.ops, sums)) if sums else workload


def _gradients(workload: Workload) -> dict[int, list[Operand]]:
    """Returns the gradients that each op of the update is the first to read."""
    sections = sections_of(workload)
    made = {
        operand.buffer
        for op, section in zip(workload.ops, sections)
        if section == BACKWARD
        for operand in op.outputs
    }
    found: dict[int, list[Operand]] = {}
    seen: set[int] = set()
    for index, (op, section) in enumerate(zip(workload.ops, sections)):
        for operand in op.inputs if section == UPDATE and op.end == index + 1 else ():
            buffer = operand.buffer
            if buffer is None or buffer in seen or not _is_gradient(workload, buffer, made):
                continue
            seen.add(buffer)
            found.setdefault(index, []).append(operand)
    return found


def _is_gradient(workload: Workload, index: int, made: set[int | None]) -> bool:
    """Returns whether a buffer has a gradient, or its sum over mini-batches."""
    buffer = workload.buffers[index]
    if buffer.kind == VARIABLE and buffer.variable is not None:
        return workload.variables[buffer.variable].role == ACCUMULATOR
    return buffer.kind == TENSOR and index in made and buffer.type.elements > 1


def _sums(reader: Op, operands: list[Operand]) -> list[Op]:
    """Returns a collective for each gradient, with a provisional end."""
    return [
        dataclasses.replace(
            reader,
            name=f"{reader.name}/cross_replica_sum_{number}",
            type=op_names.CROSS_REPLICA_SUM,
            inputs=(operand,),
            outputs=(operand,),
            attributes={},
            flops=None,
            label=Label.ASSUMED,
        )
        for number, operand in enumerate(operands)
    ]


def _inserted(ops: tuple[Op, ...], added: Mapping[int, list[Op]]) -> tuple[Op, ...]:
    """Returns the ops, with others right before some of them, inside of the same functions."""
    moved, shift = [], 0  # where each op comes to be, and the end of the last one
    for index in range(len(ops)):
        shift += len(added.get(index, ()))
        moved.append(index + shift)
    moved.append(len(ops) + shift)

    def placed() -> Iterator[Op]:
        for index, op in enumerate(ops):
            for number, new in enumerate(added.get(index, ())):
                first = moved[index] - len(added[index])
                yield dataclasses.replace(new, end=first + number + 1)
            # An op ends right after the last one inside of it, not before the next one outside.
            yield dataclasses.replace(op, end=moved[op.end - 1] + 1)

    return tuple(placed())
