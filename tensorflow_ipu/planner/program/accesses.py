"""Accesses of ops to buffers, independent of the order of ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from tensorflow_ipu.planner.program.placement import HOST, Placement
from tensorflow_ipu.planner.workload import CONSTANT, INPUT, TENSOR, VARIABLE, Workload
from tensorflow_ipu.util import op_names

TENSOR_KIND, INPUT_KIND, VARIABLE_KIND = range(3)
_KINDS = {TENSOR: TENSOR_KIND, INPUT: INPUT_KIND, VARIABLE: VARIABLE_KIND, CONSTANT: 3}


@dataclasses.dataclass(frozen=True)
class Accesses:
    """The accesses of ops to buffers, ordered by instance, then by op.

    An instance is a buffer on an IPU: one where it is made, and one on each other IPU that uses it.

    Attributes:
        op: Op of each access, int32.
        buffer: Buffer of each access, int32.
        write: Whether the op makes or changes it.
        instance: Instance of each access, int32.
        until: Op at whose end the access ends, such as the loop that it is in, int32; -1 where it
            ends with its own op.
        first: Index of the first access of each instance.
        instance_buffer: Buffer of each instance, int32.
        instance_ipu: IPU of each instance, int32.
        home: Whether an instance is where the buffer is made, not a copy.
        num_bytes: Bytes of each instance, int64.
        kind: Kind of each instance's buffer, one of the numbers above.
        maker: Op that makes each buffer, int32; -1 for none.
        end: `Op.end` of each op, int32.
        parent: Innermost op that runs each op, int32; -1 at the top.
    """

    op: np.ndarray
    buffer: np.ndarray
    write: np.ndarray
    instance: np.ndarray
    until: np.ndarray
    first: np.ndarray
    instance_buffer: np.ndarray
    instance_ipu: np.ndarray
    home: np.ndarray
    num_bytes: np.ndarray
    kind: np.ndarray
    maker: np.ndarray
    end: np.ndarray
    parent: np.ndarray

    def without(self, buffers: frozenset[int]) -> Accesses:
        """Returns the accesses with some buffers that take no memory.

        Args:
            buffers: buffers that stay in registers.
        """
        if not buffers:
            return self
        sizes = np.where(np.isin(self.instance_buffer, list(buffers)), 0, self.num_bytes)
        return dataclasses.replace(self, num_bytes=sizes)

    def first_user(self, buffer: int) -> int:
        """Returns the first op that uses a buffer itself, -1 without one.

        A loop, say, has everything as inputs that the ops in it use: it counts if no other does.

        Args:
            buffer: the buffer.
        """
        # Accesses are ordered by buffer; accesses of one instance are together.
        low, high = np.searchsorted(self.buffer, (buffer, buffer + 1))
        users = self.op[low:high]
        plain = users[self.end[users] == users + 1]
        if not len(users):
            return -1
        return int((plain if len(plain) else users).min())


#: Op and buffer of some reads.
Reads = Collection[tuple[int, int]]


def find(
    workload: Workload, placement: Placement, more: Reads = (), without: Reads = ()
) -> Accesses:
    """Finds the accesses of a program.

    Args:
        workload: the program.
        placement: IPUs of its ops and buffers.
        more: reads besides the ops' inputs, on IPUs that use the buffer anyway.
        without: reads of inputs that do not count.
    """
    op, buffer, write = _raw(workload, more, frozenset(without))
    end = np.fromiter((o.end for o in workload.ops), np.int32, len(workload.ops))
    parent = parents(end)
    maker = np.full(len(workload.buffers), -1, np.int32)
    made = write[::-1]
    maker[buffer[::-1][made]] = op[::-1][made]
    kinds = np.fromiter((_KINDS[b.kind] for b in workload.buffers), np.int8, len(maker))
    maker[kinds != TENSOR_KIND] = -1
    runs_others = end > np.arange(len(end)) + 1
    home = placement.buffers[buffer]
    # An op that runs others may be on several IPUs: it uses each thing where that is.
    ipu = np.where(runs_others[op], home, placement.ops[op])
    kept = (home != HOST) & (ipu != HOST)
    op, buffer, write, ipu = op[kept], buffer[kept], write[kept], ipu[kept]
    until = _until(workload, op, buffer, maker, end, parent)
    until = _results(workload, op, buffer, write, until, maker, parent, kinds)
    key = buffer.astype(np.int64) * (placement.ipus + 1) + ipu
    order = np.argsort(key, kind="stable")
    op, buffer, write, ipu, until = (a[order] for a in (op, buffer, write, ipu, until))
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    instance = np.cumsum(np.diff(key[order], prepend=-1) != 0).astype(np.int32) - 1
    sizes = _sizes(workload)
    of_buffer = buffer[first]
    return Accesses(
        *(op, buffer, write, instance, until, first, of_buffer, ipu[first]),
        *(ipu[first] == placement.buffers[of_buffer], sizes[of_buffer], kinds[of_buffer]),
        *(maker, end, parent),
    )


def parents(end: np.ndarray) -> np.ndarray:
    """Returns the innermost op that runs each op, -1 at the top.

    Args:
        end: `Op.end` of each op.
    """
    found = np.full(len(end), -1, np.int32)
    # In program order inner ops come later, and overwrite the entries of outer ones.
    for index in np.flatnonzero(end > np.arange(len(end)) + 1).tolist():
        found[index + 1 : end[index]] = index
    return found


def _sizes(workload: Workload) -> np.ndarray:
    """Returns the bytes of each buffer; equal types are computed once."""
    known: dict[tuple[str, tuple[int, ...], int], int] = {}
    found = np.empty(len(workload.buffers), np.int64)
    for index, buffer in enumerate(workload.buffers):
        key = (buffer.dtype, buffer.shape, buffer.entries)
        size = known.get(key)
        if size is None:
            size = known[key] = buffer.num_bytes
        found[index] = size
    return found


def _raw(
    workload: Workload, more: Reads, without: Reads
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns op, buffer and direction of each access to memory, extra reads included."""
    ops: list[int] = []
    buffers: list[int] = []
    writes: list[bool] = []
    for index, op in enumerate(workload.ops):
        for operands, write in ((op.inputs, False), (op.outputs, True)):
            for operand in operands:
                if operand.buffer is None or (not write and (index, operand.buffer) in without):
                    continue
                ops.append(index)
                buffers.append(operand.buffer)
                writes.append(write)
    for index, number in more:
        ops.append(index)
        buffers.append(number)
        writes.append(False)
    order = np.argsort(ops, kind="stable") if more else slice(None)
    columns = np.array(ops, np.int32), np.array(buffers, np.int32), np.array(writes, bool)
    return columns[0][order], columns[1][order], columns[2][order]


def _until(
    workload: Workload,
    op: np.ndarray,
    buffer: np.ndarray,
    maker: np.ndarray,
    end: np.ndarray,
    parent: np.ndarray,
) -> np.ndarray:
    """Returns the outermost loop of each access in which the buffer is not made.

    A value from outside a loop is needed again in the next iteration.
    """
    loops = np.array(
        [op_names.is_loop(o.type) or o.trip_count is not None for o in workload.ops], dtype=bool
    )
    loops &= end > np.arange(len(end)) + 1
    until = np.full(len(op), -1, np.int32)
    at = np.where(loops[op], op, parent[op])
    made = maker[buffer]
    while (at >= 0).any():
        inside = (made > at) & (made < end[at])
        outer = (at >= 0) & loops[at] & ~inside
        until[outer] = at[outer]
        at = np.where(at >= 0, parent[at], -1)
    return until


def _results(
    workload: Workload,
    op: np.ndarray,
    buffer: np.ndarray,
    write: np.ndarray,
    until: np.ndarray,
    maker: np.ndarray,
    parent: np.ndarray,
    kinds: np.ndarray,
) -> np.ndarray:
    """Extends the live range of functions' results to the end of the function.

    A Workload does not list results. If an op has one output and no op reads it, it is a result. If
    an op has several outputs, unread ones are by-products.
    """
    read = np.zeros(len(maker), bool)
    read[buffer[~write]] = True
    single = np.fromiter((len(o.outputs) == 1 for o in workload.ops), bool, len(workload.ops))
    returned = ~read[buffer] & write & (kinds[buffer] == TENSOR_KIND) & single[op] & (until < 0)
    # The end of the whole program is the end of its last op, which no op runs.
    last = np.where(parent[op] >= 0, parent[op], len(parent))
    found: np.ndarray = np.where(returned, last, until)
    return found
