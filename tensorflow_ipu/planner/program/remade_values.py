"""Elementwise results that take no memory in a stage with rematerialization.

Each op that reads such a result recomputes it from its operands. A chain of elementwise ops is one
fused group, whose intermediate values are in registers, and the groups of its gradient begin with
the same chain. So GELU in float32 needs its float16 input only, a layer normalization its input and
moments, and a dropout the seed of its mask.

A result is recomputed only if its operands take no more memory. As the operands live longer, the
peak may still rise: a plan takes the better of both ways.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tensorflow_ipu.costs.rules import elementwise as table
from tensorflow_ipu.costs.rules import zero_cost
from tensorflow_ipu.planner.program.accesses import parents
from tensorflow_ipu.planner.program.structure import UPDATE
from tensorflow_ipu.planner.workload import CONSTANT, TENSOR, VARIABLE, Op, Operand, Workload

_MAPS = frozenset({"AddN", "Cast", *table.EXPRESSIONS, *table.NONLINEARITIES})
# Over dimensions of size 1 they are maps.
_REDUCTIONS = frozenset({"Max", "Mean", "Min", "Prod", "Sum"})
# From few elements they make many, each by itself: a map can have them in front.
_SOURCES = frozenset({"BroadcastTo", "Fill"})
_RANDOM = "StatelessRandom"
# Most sources of a result. Longer lists would be of scalars only.
_MOST = 8


@dataclasses.dataclass(frozen=True)
class RemadeValues:
    """Rematerialized results, and the reads of their operands instead.

    Attributes:
        buffers: The buffers of these results.
        reads: Op and buffer of each read of a result's operands, by an op that reads the result.
    """

    buffers: frozenset[int] = frozenset()
    reads: tuple[tuple[int, int], ...] = ()


def find(workload: Workload) -> RemadeValues:
    """Finds the results that take no memory in a pipeline with recomputation.

    The last stage keeps them, as it goes backward at once. Without a pipeline there are none.

    Args:
        workload: the program.
    """
    if workload.pipeline is None or not workload.pipeline.training:
        return RemadeValues()
    return _Search(workload, workload.pipeline.stages - 1).values()


class _Search:
    """One pass over the ops in order: operands come before results."""

    def __init__(self, workload: Workload, last_stage: int) -> None:
        self._workload, self._last_stage = workload, last_stage
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._makers: dict[int, int] = defaultdict(int)
        # Buffers changed in place; these, checkpoints, and operands and results of functions.
        self._changed: set[int] = set()
        self._needed: set[int] = set()
        for index, op in enumerate(workload.ops):
            taken, made = _buffers(op.inputs), _buffers(op.outputs)
            if op.end > index + 1 or op.is_checkpoint:
                self._needed |= taken | made
                continue
            if op.type not in zero_cost.RULES:
                self._changed |= taken & made
            for buffer in taken - made:
                self._readers[buffer].append(index)
            for buffer in made - taken:
                self._makers[buffer] += 1
        self._needed |= self._changed
        self._parents = parents(np.array([op.end for op in workload.ops], np.int32)).tolist()

    def values(self) -> RemadeValues:
        """Returns the rematerialized results."""
        made_of: dict[int, frozenset[int]] = {}
        reads: set[tuple[int, int]] = set()
        for index, op in enumerate(self._workload.ops):
            buffer = self._result(op)
            sources = None if buffer is None else self._made_of(op, made_of)
            if buffer is None or sources is None or not self._smaller(sources, buffer):
                continue
            readers = self._readers[buffer]
            if readers and all(self._takes(reader, index) for reader in readers):
                made_of[buffer] = sources
                reads.update((reader, source) for reader in readers for source in sources)
        return RemadeValues(frozenset(made_of), tuple(sorted(reads)))

    def _result(self, op: Op) -> int | None:
        """Returns the buffer of an op's result, if it can be recomputed element by element."""
        buffer = op.outputs[0].buffer if len(op.outputs) == 1 else None
        if buffer is None or buffer in self._needed or op.phase == UPDATE or op.stage is None:
            return None
        known = self._workload.buffers[buffer]
        once = known.kind == TENSOR and known.entries == 1 and self._makers[buffer] == 1
        alone = op.type in _SOURCES or op.type.startswith(_RANDOM) or _is_map(op)
        return buffer if once and alone else None

    def _made_of(self, op: Op, made_of: dict[int, frozenset[int]]) -> frozenset[int] | None:
        """Returns the tensors that an op's result is recomputed from; None if it cannot be."""
        found: set[int] = set()
        for operand in op.inputs:
            if operand.buffer is None:
                continue
            kind = self._workload.buffers[operand.buffer].kind
            # A variable may change until the result is recomputed.
            if kind == VARIABLE or operand.buffer in self._changed:
                return None
            if kind != CONSTANT:
                found |= made_of.get(operand.buffer, {operand.buffer})
        return frozenset(found) if len(found) <= _MOST else None

    def _smaller(self, sources: frozenset[int], buffer: int) -> bool:
        """Returns whether the sources of a result take no more memory than it."""
        buffers = self._workload.buffers
        return sum(buffers[s].num_bytes for s in sources) <= buffers[buffer].num_bytes

    def _takes(self, reader: int, maker: int) -> bool:
        """Returns whether an op can recompute its operand from another op's sources."""
        op, other = self._workload.ops[reader], self._workload.ops[maker]
        together = (op.ipu, op.stage, op.branch) == (other.ipu, other.stage, other.branch)
        if not together or self._parents[reader] != self._parents[maker] or not _is_map(op):
            return False
        again = not other.phase and op.phase != UPDATE and op.stage != self._last_stage
        same_size = op.outputs[0].type.elements == other.outputs[0].type.elements
        return same_size and (op.phase == other.phase or again)


def _buffers(operands: Sequence[Operand]) -> set[int]:
    """Returns the buffers of some operands, each once."""
    return {operand.buffer for operand in operands if operand.buffer is not None}


def _is_map(op: Op) -> bool:
    """Returns whether each element of an op's result needs one element of each whole operand."""
    if len(op.outputs) != 1 or not op.inputs:
        return False
    elements = op.outputs[0].type.elements
    if op.type in _REDUCTIONS:
        return op.inputs[0].type.elements == elements
    return op.type in _MAPS and all(operand.type.elements <= elements for operand in op.inputs)
