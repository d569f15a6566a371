"""A Workload with its pipeline stages on the IPUs that Settings want, and its rematerialization."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.rules import elementwise, zero_cost
from tensorflow_ipu.planner.program import accesses as access
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.accesses import Accesses, parents
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.program.placement import Placement, find, moved_pipeline, relocated
from tensorflow_ipu.planner.program.structure import UPDATE, sections_of
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.workload import CONSTANT, TENSOR, VARIABLE, Op, Operand, Workload
from tensorflow_ipu.util import op_names

_SUMS = frozenset({"AddN", "AddV2"})
_ACCUMULATOR = "accumulator"


class PartialGradient(NamedTuple):
    """A stage's part of a variable's gradient; other stages have other parts.

    Args:
        buffer: the part.
        maker: the op that makes it, after which it can be added to the accumulator.
        sum: the op that adds the parts in the program.
    """

    buffer: int
    maker: int
    sum: int


def find_partial_gradients(workload: Workload) -> tuple[PartialGradient, ...]:
    """Finds the partial gradients that stages add to accumulators by themselves.

    A variable that several stages use, such as a tied embedding, has a gradient in each of them,
    and the program accumulates their sum. In a pipeline the stages get to a mini-batch at different
    times: waiting for the others would take a queue of gradients as large as the variable. So the
    compiler lets each stage add its own part to the accumulator, and the part takes memory only
    until then.

    Args:
        workload: the program; without a pipeline there are none.
    """
    if workload.pipeline is None:
        return ()
    readers, makers = _uses(workload)
    found = []
    for index, op in enumerate(workload.ops):
        if op.type not in _SUMS or len(op.outputs) != 1:
            continue
        end = _accumulation(workload, op, readers)
        for operand in op.inputs if end is not None else ():
            maker = makers.get(operand.buffer, -1)
            if maker < 0 or readers[operand.buffer] != [index]:
                continue
            stage = workload.ops[maker].stage
            same_type = operand.type == op.outputs[0].type
            if same_type and stage is not None and end is not None and stage != end.stage:
                found.append(PartialGradient(operand.buffer or 0, maker, index))
    return tuple(found)


def _uses(workload: Workload) -> tuple[dict[int | None, list[int]], dict[int | None, int]]:
    """Returns the readers of each buffer, without pass-through ops, and its producers."""
    readers: dict[int | None, list[int]] = defaultdict(list)
    makers: dict[int | None, int] = {}
    for index, op in enumerate(workload.ops):
        if op.end > index + 1:
            continue
        made = {operand.buffer for operand in op.outputs}
        for buffer in dict.fromkeys(operand.buffer for operand in op.inputs):
            if buffer not in made or op.type not in zero_cost.RULES:
                readers[buffer].append(index)
        for buffer in made:
            makers.setdefault(buffer, index)
    return readers, makers


def _accumulation(workload: Workload, op: Op, readers: dict[int | None, list[int]]) -> Op | None:
    """Returns the op that adds a sum to an accumulator, if it is the sum's only reader."""
    users = readers[op.outputs[0].buffer]
    if op.outputs[0].buffer is None or len(users) != 1:
        return None
    end = workload.ops[users[0]]
    buffer = end.inputs[0].buffer if end.inputs else None
    number = None if buffer is None else workload.buffers[buffer].variable
    accumulates = end.type in op_names.ACCUMULATIONS and number is not None
    role = workload.variables[number].role if accumulates and number is not None else ""
    return end if role == _ACCUMULATOR else None


# --- Rematerialization in the stages of a pipeline ---

# Over dimensions of size 1 they are maps.
_REDUCTIONS = frozenset({"Max", "Mean", "Min", "Prod", "Sum"})

# From few elements they make many, each by itself: a map can have them in front.
_SOURCES = frozenset({"BroadcastTo", "Fill"})
_RANDOM = "StatelessRandom"

# Most sources of a result. Longer lists would be of scalars only.
_MOST = 8


@dataclasses.dataclass(frozen=True)
class Rematerialized:
    """Rematerialized results, and the reads of their operands instead.

    Each op that reads such a result recomputes it from its operands. A chain of elementwise ops is
    one fused group, whose intermediate values are in registers, and the groups of its gradient
    begin with the same chain. So GELU in float32 needs its float16 input only, a layer
    normalization its input and moments, and a dropout the seed of its mask.

    A result is recomputed only if its operands take no more memory. As the operands live longer,
    the peak may still rise: a plan takes the better of both ways.

    Attributes:
        buffers: The buffers of these results.
        reads: Op and buffer of each read of a result's operands, by an op that reads the result.
    """

    buffers: frozenset[int] = frozenset()
    reads: tuple[tuple[int, int], ...] = ()


def find_rematerialized(workload: Workload) -> Rematerialized:
    """Finds the results that take no memory in a pipeline with recomputation.

    The last stage keeps them, as it goes backward at once. Without a pipeline there are none.

    Args:
        workload: the program.
    """
    if workload.pipeline is None or not workload.pipeline.training:
        return Rematerialized()
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

    def values(self) -> Rematerialized:
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
        return Rematerialized(frozenset(made_of), tuple(sorted(reads)))

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
    fits = all(operand.type.elements <= elements for operand in op.inputs)
    return fits and elementwise.is_elementwise(op.type)


# --- The Workload on its IPUs ---


@dataclasses.dataclass(frozen=True)
class PlacedWorkload:
    """A program with the IPU of each op, buffer and variable.

    Memory and time are both planned from it. It does not depend on the chip, nor on options.

    Attributes:
        workload: The program as it was compiled.
        pipeline: Its pipeline, with stages on their final IPUs; None without one.
        placement: IPUs of its ops, buffers and variables.
        relocated: The program on these IPUs, with the copies between them.
    """

    workload: Workload
    pipeline: PipelineDescription | None
    placement: Placement
    relocated: Workload

    @functools.cached_property
    def accesses(self) -> Accesses:
        """Accesses of ops to memory, without buffers in registers of fused groups."""
        return self._accesses(Rematerialized())

    @functools.cached_property
    def rematerialized_accesses(self) -> Accesses:
        """Accesses with recomputed elementwise results, which take no memory."""
        values = find_rematerialized(self.workload)
        return self._accesses(values) if values.buffers else self.accesses

    @functools.cached_property
    def all_accesses(self) -> Accesses:
        """Accesses with each fused group expanded to its ops; dependences follow from them."""
        return access.find(self.workload, self.placement)

    @functools.cached_property
    def maps(self) -> FusedMaps:
        """The fused groups of elementwise ops."""
        return fused_maps.find(self.workload)

    @functools.cached_property
    def partial_gradients(self) -> tuple[PartialGradient, ...]:
        """The gradients that stages of a pipeline add to accumulators by themselves."""
        return find_partial_gradients(self.workload)

    @functools.cached_property
    def sections(self) -> tuple[str, ...]:
        """Section of each op: `forward`, `backward`, `update`, or empty."""
        return sections_of(self.workload)

    def _accesses(self, values: Rematerialized) -> Accesses:
        """Returns the accesses of ops to memory, with some results recomputed by their readers."""
        parts = self.partial_gradients
        # A part of a gradient is done with as soon as it is made.
        more = [(part.maker, part.buffer) for part in parts]
        without = [(part.sum, part.buffer) for part in parts]
        found = self.all_accesses
        if values.reads or more:
            found = access.find(self.workload, self.placement, [*more, *values.reads], without)
        return found.without(self.maps.kept_in_registers | values.buffers)


def place(workload: Workload, stage_devices: tuple[int, ...] | None = None) -> PlacedWorkload:
    """Places a program.

    Args:
        workload: the program.
        stage_devices: IPU of each pipeline stage; None leaves stages where they are.

    Raises:
        ValueError: the program has another number of stages.
    """
    pipeline = moved_pipeline(workload, stage_devices)
    placement = find(workload, pipeline)
    return PlacedWorkload(workload, pipeline, placement, relocated(workload, pipeline, placement))
