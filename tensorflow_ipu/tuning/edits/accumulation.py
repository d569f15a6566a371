"""Gradient accumulation added to a Workload, in a pipeline or without one."""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from tensorflow_ipu.planner.program.structure import ACCUMULATOR, BACKWARD, UPDATE, Structure
from tensorflow_ipu.planner.workload import (
    TENSOR,
    VARIABLE,
    Buffer,
    Op,
    Operand,
    Variable,
    Workload,
)
from tensorflow_ipu.tuning.edits import workload_edits

# Most elements of zeros that TensorFlow makes a constant; more are filled in when needed.
_CONSTANT_ZEROS = 1000
# Prefix of the names of ops that count mini-batches.
_NAME = "gradient_accumulation"


def accumulating(workload: Workload) -> Workload:
    """Returns a program that accumulates its gradients, if it does not yet.

    Each gradient of a mini-batch is added to a variable. The update reads the variable and sets it
    to zero. A counter counts the mini-batches.

    Args:
        workload: the program. Its ops have phases, and their final number of runs.
    """
    makers = _gradients(workload)
    if not makers:
        return workload
    sums = {buffer: len(workload.buffers) + place for place, buffer in enumerate(makers)}
    counter = len(workload.buffers) + len(sums)
    made = [_sum(workload.buffers[buffer]) for buffer in makers]
    made.append(Variable(f"{_NAME}/mini_batch", "int32", (), "other", 0))
    first = len(workload.variables)
    buffers = tuple(
        Buffer(kept.name, kept.dtype, kept.shape, VARIABLE, kept.ipu, variable=first + place)
        for place, kept in enumerate(made)
    )
    return dataclasses.replace(
        workload,
        ops=_with_sums(workload, makers, sums, counter),
        variables=(*workload.variables, *made),
        buffers=(*workload.buffers, *buffers),
    )


def with_count(workload: Workload, found: Structure, count: int, minimum_bytes: int) -> Workload:
    """Returns a program without a pipeline that makes one update for `count` mini-batches.

    A launch has about as many mini-batches as before, in whole updates. Variables that only the
    update uses go to streaming memory if the program had an update for each mini-batch.

    Args:
        workload: the program.
        found: section and layer of its ops.
        count: mini-batches of an update.
        minimum_bytes: least size of a variable in streaming memory.

    Raises:
        ValueError: the program does not train.
    """
    if not found.trained or BACKWARD not in found.sections:
        raise ValueError(
            f"{workload.name} has no gradients and updates, so there is nothing to accumulate. Ask "
            "for a count of programs that train."
        )
    updates = max(1, round(found.mini_batches / count))
    batches = updates * count
    scaled = dataclasses.replace(
        workload,
        ops=tuple(
            _rescaled(op, section, found, batches, updates)
            for op, section in zip(workload.ops, found.sections)
        ),
        copies=tuple(
            copy._replace(runs=found.runs(copy.runs, copy.phase, batches, updates))
            for copy in workload.copies
        ),
    )
    if found.accumulated:
        return scaled
    return accumulating(workload_edits.offloaded_from(scaled, found.state, minimum_bytes))


def _rescaled(op: Op, section: str, found: Structure, batches: int, updates: int) -> Op:
    """Returns an op of a program with other numbers of mini-batches and updates."""
    if section:
        return dataclasses.replace(op, runs=found.runs(op.runs, section, batches, updates))
    if op.trip_count == found.mini_batches > 1:
        return dataclasses.replace(op, trip_count=batches)
    return op


def _gradients(workload: Workload) -> dict[int, int]:
    """Returns the gradients that the update reads, each with its last producer.

    The producer of a result of a loop or a call is the loop or call, not an op inside.
    """
    makers: dict[int, int] = {}
    for index, op in enumerate(workload.ops):
        for operand in op.outputs if op.phase == BACKWARD else ():
            buffer = operand.buffer
            if buffer is None or operand.type.elements == 1:
                continue
            inside = buffer in makers and index < workload.ops[makers[buffer]].end
            if workload.buffers[buffer].kind == TENSOR and not inside:
                makers[buffer] = index
    read = {o.buffer for op in workload.ops if op.phase == UPDATE for o in op.inputs}
    return {buffer: index for buffer, index in makers.items() if buffer in read}


def _sum(gradient: Buffer) -> Variable:
    """Returns the variable in which a gradient is summed."""
    name, ipu = f"{gradient.name}/sum", gradient.ipu or 0
    return Variable(name, gradient.dtype, gradient.shape, ACCUMULATOR, ipu)


def _with_sums(
    workload: Workload, makers: Mapping[int, int], sums: Mapping[int, int], counter: int
) -> tuple[Op, ...]:
    """Returns the ops, with ops that add to the sums, count, and reset the sums."""
    ops = tuple(
        dataclasses.replace(op, inputs=_summed(op, sums)) if op.phase == UPDATE else op
        for op in workload.ops
    )
    added: dict[int, list[Op]] = {}
    for buffer, maker in makers.items():
        kept, by = workload.buffers[buffer], ops[maker]
        operands = [Operand(kept.dtype, kept.shape, index) for index in (sums[buffer], buffer)]
        added.setdefault(maker, []).append(_op(by, "sum", "AssignAddVariableOp", operands))
    last = max(makers.values())
    added[last] += _counting(ops[last], counter)
    end = max(index for index, op in enumerate(ops) if op.phase == UPDATE)
    for buffer, place in sums.items():
        kept, maker_op = workload.buffers[buffer], ops[makers[buffer]]
        there = {name: getattr(maker_op, name) for name in ("name", "layer", "ipu", "stage")}
        by = dataclasses.replace(ops[end], **there)
        added.setdefault(end, []).extend(_reset(by, Operand(kept.dtype, kept.shape, place)))
    return _inserted(ops, added)


def _counting(by: Op, counter: int) -> list[Op]:
    """Returns the ops that count the mini-batches, and compare the count with an update's."""
    number, limit = Operand("int32", (), counter), Operand("int32", (), None)
    shared = dataclasses.replace(by, name=_NAME, layer="", stage=None, phase=UPDATE, ipu=0)
    result = limit._replace(dtype="bool")
    return [
        _op(shared, "is_last", "Equal", [number, limit], [result]),
        _op(shared, "next", "AddV2", [number, limit], [limit]),
        _op(shared, "count", "AssignVariableOp", [number, limit]),
    ]


def _reset(by: Op, kept: Operand) -> list[Op]:
    """Returns the ops that set a sum to zero."""
    zeros = kept._replace(buffer=None)
    number = Operand(kept.dtype, (), None)
    shape = Operand("int32", (len(kept.shape),), None)
    filled = [_op(by, "zeros", "Fill", [shape, number], [zeros])]
    assigned = [_op(by, "reset", "AssignVariableOp", [kept, zeros])]
    return assigned if kept.type.elements < _CONSTANT_ZEROS else filled + assigned


def _op(
    by: Op, name: str, op_type: str, inputs: Sequence[Operand], outputs: Sequence[Operand] = ()
) -> Op:
    """Returns an op beside another, with a provisional end."""
    return dataclasses.replace(
        by,
        name=f"{by.name}/{name}",
        type=op_type,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes={},
        flops=None,
        trip_count=None,
    )


def _summed(op: Op, sums: Mapping[int, int]) -> tuple[Operand, ...]:
    """Returns the inputs of an op of the update, with sums instead of gradients."""
    return tuple(
        operand
        if operand.buffer is None
        else operand._replace(buffer=sums.get(operand.buffer, operand.buffer))
        for operand in op.inputs
    )


def _inserted(ops: tuple[Op, ...], added: Mapping[int, Sequence[Op]]) -> tuple[Op, ...]:
    """Returns the ops, with others right after some of them, inside of the same functions."""
    after = sorted(added)
    before = [0, *itertools.accumulate(len(added[index]) for index in after)]
    placed: dict[int, list[Op]] = {}
    for index in reversed(after):  # ops in a function come before the ops after its call
        placed.setdefault(ops[index].end, []).extend(added[index])
    made: list[Op] = []
    for index in range(len(ops) + 1):
        for new in placed.get(index, ()):
            made.append(dataclasses.replace(new, end=len(made) + 1))
        for op in ops[index : index + 1]:
            inside = before[bisect_left(after, op.end)] - before[bisect_right(after, index)]
            end = len(made) + (op.end - index) + inside
            made.append(dataclasses.replace(op, end=end))
    return tuple(made)
