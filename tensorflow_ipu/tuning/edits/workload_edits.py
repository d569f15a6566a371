"""Edits of a Workload that stand for edits of the user's program."""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.program.structure import (
    ACCUMULATOR,
    BACKWARD,
    UPDATE,
    Structure,
    sections_of,
)
from tensorflow_ipu.planner.workload import (
    TENSOR,
    VARIABLE,
    Buffer,
    Op,
    Operand,
    Variable,
    Workload,
)
from tensorflow_ipu.util import op_names

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


# --- Gradient accumulation ---

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
    makers = _gradients_to_accumulate(workload)
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


def with_accumulation_count(
    workload: Workload, found: Structure, count: int, minimum_bytes: int
) -> Workload:
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
    return accumulating(offloaded_from(scaled, found.state, minimum_bytes))


def _rescaled(op: Op, section: str, found: Structure, batches: int, updates: int) -> Op:
    """Returns an op of a program with other numbers of mini-batches and updates."""
    if section:
        return dataclasses.replace(op, runs=found.runs(op.runs, section, batches, updates))
    if op.trip_count == found.mini_batches > 1:
        return dataclasses.replace(op, trip_count=batches)
    return op


def _gradients_to_accumulate(workload: Workload) -> dict[int, int]:
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
    return _with_accumulators(ops, added)


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


def _with_accumulators(ops: tuple[Op, ...], added: Mapping[int, Sequence[Op]]) -> tuple[Op, ...]:
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


# --- Replicas that train together ---


def with_replica_sums(workload: Workload) -> Workload:
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
