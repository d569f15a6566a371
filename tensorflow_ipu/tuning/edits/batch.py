"""Change of a Workload's batch size, without building the program again.

Dimensions that grow with the batch are found by following the batch dimension of feeds and inputs
through the ops. Variables never grow, and so neither do their gradients.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow_ipu.planner.workload import (
    INPUT,
    VARIABLE,
    Buffer,
    Copy,
    Op,
    Operand,
    Workload,
)
from tensorflow_ipu.tuning.edits import batch_rules
from tensorflow_ipu.util import op_names

# An element of an operand: its buffer, or place among operands without one, and its shape and axis.
_Owner = tuple[int, int]
_Node = tuple[_Owner, tuple[int, ...], int]


def with_batch(workload: Workload, batch: int) -> Workload:
    """Returns the program with another batch size.

    Args:
        workload: the program.
        batch: elements of a mini-batch of one replica.

    Returns:
        The program. Going to another size than 1 and back gives an equal program. A plan of it is
        `modelled` at best, because rules decide which dimensions grow.

    Raises:
        ValueError: the batch size of the program is not known, the new one is not positive, or a
            dimension cannot be scaled to it.
    """
    if workload.batch is None:
        raise ValueError(
            f"The batch size of {workload.name!r} is not known: it has no feed or input with a "
            "first dimension of fixed size. Build the program with the other batch size."
        )
    if batch < 1:
        raise ValueError(f"A batch has at least 1 element; received {batch}.")
    if batch == workload.batch:
        return workload
    return _Scaling(workload, batch).scaled()


def batch_dimensions(workload: Workload) -> dict[int, tuple[int, ...]]:
    """Returns the dimensions of each buffer that grow with the batch, if it has any.

    Args:
        workload: the program.
    """
    found: dict[int, tuple[int, ...]] = {}
    grown = _grown(workload)
    for index, buffer in enumerate(workload.buffers):
        axes = tuple(
            axis for axis in range(len(buffer.shape)) if ((index, -1), buffer.shape, axis) in grown
        )
        if axes:
            found[index] = axes
    return found


def _owner(op: int, place: int, operand: Operand) -> _Owner:
    return (op, place) if operand.buffer is None else (operand.buffer, -1)


def _operands(op: Op) -> Iterator[tuple[int, Operand]]:
    yield from enumerate((*op.inputs, *op.outputs))


def _grown(workload: Workload) -> set[_Node]:
    """Returns all dimensions that are reached from the batch dimensions of feeds and inputs."""
    near = _neighbors(workload)
    frontier = list(_seeds(workload))
    grown = set(frontier)
    while frontier:
        for node in near.get(frontier.pop(), ()):
            if node not in grown:
                grown.add(node)
                frontier.append(node)
    return grown


def _seeds(workload: Workload) -> Iterator[_Node]:
    """Yields the batch dimensions of the inputs from the host."""
    for op in workload.ops:
        for operand in op.outputs if op.type == op_names.INFEED else ():
            if operand.buffer is not None:
                yield from _seed(workload, operand.buffer)
    for index, buffer in enumerate(workload.buffers):
        if buffer.kind == INPUT:
            yield from _seed(workload, index)


def _seed(workload: Workload, index: int) -> Iterator[_Node]:
    buffer = workload.buffers[index]
    axis = buffer.batched
    if axis is None and buffer.shape[:1] == (workload.batch,):
        axis = 0
    if axis is not None:
        yield (index, -1), buffer.shape, axis


def _neighbors(workload: Workload) -> dict[_Node, set[_Node]]:
    """Returns the dimensions that are equal to each dimension."""
    near: dict[_Node, set[_Node]] = {}
    fixed = {index for index, b in enumerate(workload.buffers) if b.kind == VARIABLE}

    def join(one: _Node, two: _Node) -> None:
        if not any(owner[1] < 0 and owner[0] in fixed for owner, _, _ in (one, two)):
            near.setdefault(one, set()).add(two)
            near.setdefault(two, set()).add(one)

    for index, op in enumerate(workload.ops):
        shapes = [_seen(workload, operand) for _, operand in _operands(op)]
        nodes = [(_owner(index, place, o), shapes[place]) for place, o in _operands(op)]
        for place, operand in _operands(op):
            if operand.buffer is not None:
                buffer = workload.buffers[operand.buffer]
                for one, two in _views(buffer, shapes[place]):
                    owner, shape = nodes[place]
                    join((owner, buffer.shape, one), (owner, shape, two))
        if op.end > index + 1 and not op_names.is_loop(op.type):
            continue
        for (i, axis), (j, other) in batch_rules.pairs(op, shapes):
            join((*nodes[i], axis), (*nodes[j], other))
    return near


def _seen(workload: Workload, operand: Operand) -> tuple[int, ...]:
    """Returns the shape of an operand for its op: for a list of tensors, its buffer's shape."""
    if operand.shape or operand.buffer is None:
        return operand.shape
    return workload.buffers[operand.buffer].shape


def _views(buffer: Buffer, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yields equal axes of a buffer's shape and the shape that an op sees it with."""
    if buffer.shape == shape:
        return
    size = math.prod(shape)
    if size == buffer.type.elements:
        yield from batch_rules.views(buffer.shape, shape)
    elif buffer.entries > 1 and size == buffer.entries * buffer.type.elements:
        ahead = len(shape) - len(buffer.shape)
        yield from ((axis, axis + ahead) for axis in range(len(buffer.shape)))


class _Scaling:
    """Change of the batch size of one program."""

    def __init__(self, workload: Workload, batch: int) -> None:
        self._workload = workload
        self._new = batch
        self._old = workload.batch or 1
        self._grown = _grown(workload)

    def scaled(self) -> Workload:
        """Returns the program with the new size."""
        workload = self._workload
        buffers = tuple(self._buffer(i, buffer) for i, buffer in enumerate(workload.buffers))
        sizes = {
            before.name: (before.num_bytes, after.num_bytes)
            for before, after in zip(workload.buffers, buffers)
        }
        return dataclasses.replace(
            workload,
            ops=tuple(self._op(index, op) for index, op in enumerate(workload.ops)),
            buffers=buffers,
            copies=tuple(_scaled_copy(copy, sizes) for copy in workload.copies),
            batch=self._new,
        )

    def _shape(self, owner: _Owner, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            self._size(size, shape) if (owner, shape, axis) in self._grown else size
            for axis, size in enumerate(shape)
        )

    def _size(self, size: int, shape: tuple[int, ...]) -> int:
        """Returns a dimension with the new batch size."""
        if size * self._new % self._old:
            raise ValueError(
                f"A tensor of shape {list(shape)} has a dimension {size} that grows with the batch "
                f"size {self._old}, but {size} * {self._new} / {self._old} is no whole number. "
                f"Use a batch size that is a multiple or a divisor of {self._old}."
            )
        return size * self._new // self._old

    def _buffer(self, index: int, buffer: Buffer) -> Buffer:
        if buffer.kind == VARIABLE:
            return buffer
        return buffer._replace(shape=self._shape((index, -1), buffer.shape))

    def _op(self, index: int, op: Op) -> Op:
        scaled = [
            operand._replace(shape=self._shape(_owner(index, place, operand), operand.shape))
            for place, operand in _operands(op)
        ]
        before = (*op.inputs, *op.outputs)
        if all(one.shape == two.shape for one, two in zip(before, scaled)):
            return op
        shapes = {one.shape: two.shape for one, two in zip(before, scaled)}
        flops = None if op.flops is None else round(op.flops * self._new / self._old)
        return dataclasses.replace(
            op,
            inputs=tuple(scaled[: len(op.inputs)]),
            outputs=tuple(scaled[len(op.inputs) :]),
            attributes=_scaled_attributes(op.attributes, shapes),
            flops=flops,
        )


def _scaled_attributes(
    attributes: Mapping[str, Any], shapes: Mapping[tuple[int, ...], tuple[int, ...]]
) -> Mapping[str, Any]:
    """Returns the attributes with operands' shapes, and lists of shapes, scaled likewise."""
    scaled = {key: _scaled_value(value, shapes) for key, value in attributes.items()}
    return {**scaled, **{k: attributes[k] for k in batch_rules.NO_SHAPES & attributes.keys()}}


def _scaled_value(value: Any, shapes: Mapping[tuple[int, ...], tuple[int, ...]]) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    if value and isinstance(value[0], (list, tuple)):
        return type(value)(_scaled_value(item, shapes) for item in value)
    found = shapes.get(tuple(value))
    return value if found is None else type(value)(found)


def _scaled_copy(copy: Copy, sizes: Mapping[str, tuple[int, int]]) -> Copy:
    """Returns a copy with the new size of its tensor."""
    before, after = sizes.get(copy.tensor, (1, 1))
    if before == after or not before:
        return copy
    return copy._replace(num_bytes=copy.num_bytes * after // before)
