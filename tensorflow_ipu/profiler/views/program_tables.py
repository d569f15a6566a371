"""Tables of a program's ops and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow_ipu.planner.op_groups import group, groups_of_buffers
from tensorflow_ipu.planner.workload import Op, Operand, Workload
from tensorflow_ipu.profiler.breakdown import NO_LAYER
from tensorflow_ipu.profiler.views.layer_tree import path
from tensorflow_ipu.profiler.views.operation import FORWARD, Operation
from tensorflow_ipu.profiler.views.tables import Texts


def op_table(
    workload: Workload, rows: Sequence[Operation], layers: Mapping[str, int], texts: Texts
) -> dict[str, list[Any]]:
    """Returns all ops of a program as columns.

    Args:
        workload: the program.
        rows: its operations with their cycles.
        layers: positions of its layers.
        texts: receives the texts.
    """
    ops = workload.ops
    of_op: dict[int, int] = {}
    for position, row in enumerate(rows):
        for op in (*row.fused, *(() if row.op is None else (row.op,))):
            of_op.setdefault(op, position)
    types = _Types(texts)
    return {
        "name": [op.name for op in ops],
        "type": texts.column(op.type for op in ops),
        "layer": [layers[path(group(op) or NO_LAYER)] for op in ops],
        "ipu": [op.ipu for op in ops],
        "stage": [op.stage for op in ops],
        "phase": texts.column(op.phase or FORWARD for op in ops),
        "runs": [op.runs for op in ops],
        "trip_count": [op.trip_count for op in ops],
        "end": [op.end for op in ops],
        "branch": [op.branch for op in ops],
        "source": texts.column(op.source for op in ops),
        "flops": [op.flops for op in ops],
        "label": texts.column(op.label.value for op in ops),
        "inputs": [types.operands(op.inputs) for op in ops],
        "outputs": [types.operands(op.outputs) for op in ops],
        "row": [of_op.get(index) for index in range(len(ops))],
    }


def tensor_table(
    workload: Workload, layers: Mapping[str, int], texts: Texts
) -> dict[str, list[Any]]:
    """Returns all tensors of a program that take memory as columns.

    Args:
        workload: the program.
        layers: positions of its layers.
        texts: receives the texts.
    """
    buffers, groups = workload.buffers, groups_of_buffers(workload)
    variables = [None if b.variable is None else workload.variables[b.variable] for b in buffers]
    makers, users = _accesses(workload)
    sources = [_source(workload, maker, using) for maker, using in zip(makers, users)]
    return {
        "name": [buffer.name for buffer in buffers],
        "dtype": texts.column(buffer.dtype for buffer in buffers),
        "shape": [_shape(buffer.shape, buffer.entries) for buffer in buffers],
        "bytes": [buffer.num_bytes for buffer in buffers],
        "kind": texts.column(buffer.kind for buffer in buffers),
        "ipu": [buffer.ipu for buffer in buffers],
        "maker": makers,
        "users": users,
        "layer": [layers.get(path(groups.get(i, NO_LAYER))) for i in range(len(buffers))],
        "source": texts.column(sources),
        "label": texts.column(buffer.label.value for buffer in buffers),
        "role": [None if v is None else texts.of(v.role) for v in variables],
        "offloaded": [v is not None and v.offloaded for v in variables],
        "split": [1 if v is None else v.split for v in variables],
    }


class _Types:
    """Element types with shapes as texts; each is written once."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}

    def operands(self, operands: Sequence[Operand]) -> list[int | None]:
        """Returns the tensor and type of each operand, one after the other."""
        flat: list[int | None] = []
        for dtype, shape, buffer in operands:
            known = self._known.get((dtype, shape))
            if known is None:
                known = self._known[dtype, shape] = self._texts.of(f"{dtype}{list(shape)}")
            flat += (buffer, known)
        return flat


def _shape(shape: tuple[int, ...], entries: int) -> list[int]:
    """Returns the dimensions of all tensors of a buffer together."""
    return list(shape) if entries == 1 else [entries, *shape]


def _accesses(workload: Workload) -> tuple[list[int | None], list[list[int]]]:
    """Returns the producer of each tensor, and its users, without ops that run other ops."""
    makers: list[int | None] = [None] * len(workload.buffers)
    users: list[list[int]] = [[] for _ in workload.buffers]
    for index, op in enumerate(workload.ops):
        if op.end > index + 1:
            continue
        for operand in op.inputs:
            if operand.buffer is not None:
                using = users[operand.buffer]
                if not using or using[-1] != index:
                    using.append(index)
        _add_makers(workload, makers, users, index, op)
    return makers, users


def _add_makers(
    workload: Workload, makers: list[int | None], users: list[list[int]], index: int, op: Op
) -> None:
    """Records the results of an op; if a buffer exists already, the op is a user of it."""
    for operand in op.outputs:
        buffer = operand.buffer
        if buffer is None:
            continue
        if makers[buffer] is None and workload.buffers[buffer].kind == "tensor":
            makers[buffer] = index
        elif makers[buffer] != index and (not users[buffer] or users[buffer][-1] != index):
            users[buffer].append(index)


def _source(workload: Workload, maker: int | None, users: Sequence[int]) -> str:
    """Returns the user's line of the op that made a tensor, or used it first."""
    first = maker if maker is not None else next(iter(users), None)
    return "" if first is None else workload.ops[first].source
