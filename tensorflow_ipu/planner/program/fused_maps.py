"""Fused groups: elementwise ops of updates in one loop, as `popops::map` does.

An op is fused with the only op that reads its result, if both are elementwise on one shape and are
run together. So an optimizer written out in elementwise ops is one fused group for each variable
that it writes. Frameworks hand the rule of an optimizer to the library as one expression, but the
functions of layers one by one. So only updates are fused, and values assigned to variables. The ops
of a GELU are a group too, with the library's vertex (`gelu.py`).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from tensorflow_ipu.costs.cost import Cost, Resources, TensorType
from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.costs.rules import elementwise
from tensorflow_ipu.planner.program import gelu
from tensorflow_ipu.planner.program.structure import UPDATE
from tensorflow_ipu.planner.workload import TENSOR, Op, Operand, Workload


@dataclasses.dataclass(frozen=True)
class FusedMaps:
    """The fused groups of a program.

    Attributes:
        ops: The ops of each group in order, by its last one, which makes its result.
        kept_in_registers: Buffers without memory: results passed from op to op of a group, unless
            an operand would have to live longer.
        vertices: The vertex of the library, of groups that have one, by their last op.
    """

    ops: Mapping[int, tuple[int, ...]]
    kept_in_registers: frozenset[int]
    vertices: Mapping[int, gelu.Found] = dataclasses.field(default_factory=dict)


def find(workload: Workload) -> FusedMaps:
    """Finds the fused groups of a program.

    Args:
        workload: the program.
    """
    maps = _Search(workload).maps()
    vertices = {found.ops[-1]: found for found in gelu.find(workload)}
    ops = {**maps.ops, **{last: found.ops for last, found in vertices.items()}}
    return FusedMaps(ops, maps.kept_in_registers, vertices)


class _Search:
    """One pass over the ops, from the last to the first: an op joins the group of its reader."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._parents = _parents(workload.ops)
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._makers: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(workload.ops):
            for operands, found in ((op.inputs, self._readers), (op.outputs, self._makers)):
                for buffer in _buffers(operands):
                    found[buffer].append(index)
        self._last = list(range(len(workload.ops)))
        # Of two ops with operands that are broadcast, a map has one: the tiles have both at once.
        self._broadcasts: set[int] = set()

    def maps(self) -> FusedMaps:
        """Returns the fused groups."""
        for index in range(len(self._last) - 1, -1, -1):
            reader = self._only_reader(index)
            if reader is not None and self._fit(index, reader):
                self._last[index] = self._last[reader]
        groups: dict[int, list[int]] = defaultdict(list)
        for index, last in enumerate(self._last):
            groups[last].append(index)
        several = {last: tuple(members) for last, members in groups.items() if len(members) > 1}
        kept: set[int] = set()
        for last, members in several.items():
            for index in members[:-1]:
                kept |= self._kept(index, last, kept)
        return FusedMaps(several, frozenset(kept))

    def _only_reader(self, index: int) -> int | None:
        """Returns the only reader of an op's result, if it belongs to an update or assignment."""
        op = self._workload.ops[index]
        if len(op.outputs) != 1 or op.outputs[0].buffer is None:
            return None
        buffer = op.outputs[0].buffer
        readers = self._readers[buffer]
        single = len(readers) == 1 and self._makers[buffer] == [index]
        if not single or self._workload.buffers[buffer].kind != TENSOR:
            return None
        return readers[0] if self._updates(self._last[readers[0]]) else None

    def _updates(self, index: int) -> bool:
        """Returns whether an op is of an update, or its result is assigned to a variable."""
        op = self._workload.ops[index]
        if op.phase == UPDATE or elementwise.is_assignment(op.type):
            return True
        readers = (i for buffer in _buffers(op.outputs) for i in self._readers[buffer])
        return any(elementwise.is_assignment(self._workload.ops[i].type) for i in readers)

    def _fit(self, index: int, reader: int) -> bool:
        """Returns whether an op can join the group of another; records it if so."""
        op, other = self._workload.ops[index], self._workload.ops[reader]
        if elementwise.is_assignment(op.type) or self._context(index) != self._context(reader):
            return False
        if not 0 < _map_elements(op) == _map_elements(other):
            return False
        last = self._last[reader]
        if _broadcasts(other):
            self._broadcasts.add(last)
        if not _broadcasts(op):
            return True
        room = last not in self._broadcasts
        self._broadcasts.add(last)
        return room

    def _context(self, index: int) -> Hashable:
        """Returns the properties that all ops of a group share: they run together."""
        op = self._workload.ops[index]
        return op.ipu, op.stage, op.phase, op.runs, self._parents[index], op.branch

    def _kept(self, index: int, last: int, kept: set[int]) -> set[int]:
        """Returns the op's result to keep in registers; none if an operand would live longer."""
        for operand in self._workload.ops[index].inputs:
            if operand.buffer is None or operand.buffer in kept or operand.type.elements <= 1:
                continue
            tensor = self._workload.buffers[operand.buffer].kind == TENSOR
            if tensor and max(self._readers[operand.buffer]) < last:
                return set()
        return _buffers(self._workload.ops[index].outputs)


def _buffers(operands: Sequence[Operand]) -> set[int]:
    """Returns the buffers of some operands, each once."""
    return {operand.buffer for operand in operands if operand.buffer is not None}


def _parents(ops: Sequence[Op]) -> list[int]:
    """Returns the innermost op that runs each op, -1 at the top: inner ops come later."""
    found = [-1] * len(ops)
    for index, op in enumerate(ops):
        if op.end > index + 1:
            found[index + 1 : op.end] = [index] * (op.end - index - 1)
    return found


def _map_elements(op: Op) -> int:
    """Returns the elements that an op computes; 0 for an op that cannot be fused."""
    if op.ipu is None or elementwise.functions(op.spec) is None:
        return 0
    tensors = [operand.type.elements for operand in (*op.inputs, *op.outputs)]
    whole = max(tensors, default=0)
    results = op.inputs[:1] if elementwise.is_assignment(op.type) else op.outputs
    return whole if all(result.type.elements == whole for result in results) else 0


def _broadcasts(op: Op) -> bool:
    """Returns whether an op has an operand that tiles receive copies of."""
    sizes = [operand.type.elements for operand in (*op.inputs, *op.outputs)]
    return any(1 < size < max(sizes) for size in sizes)


def cost_of(
    members: Sequence[Op],
    costs: Sequence[Cost],
    resources: Resources,
    vertex: gelu.Found | None = None,
) -> Cost:
    """Returns the cost of a fused group.

    Args:
        members: its ops in order.
        costs: of each op by itself.
        resources: chip, tiles and options of the ops.
        vertex: the vertex of the library, if it has one for the group.
    """
    if vertex is not None:
        return gelu.cost_of(vertex.vertex, vertex.type, resources)
    made = {operand.buffer for op in members[:-1] for operand in op.outputs}
    inputs: dict[Hashable, Operand] = {}
    for op in members:
        for operand in op.inputs:
            if operand.buffer is None or operand.buffer not in made:
                inputs[operand] = operand
    types: tuple[TensorType, ...] = tuple(operand.type for operand in inputs.values())
    return elementwise.fused(
        tuple((op.type, op.spec.inputs, op.spec.outputs) for op in members),
        types,
        tuple(dict.fromkeys(name for cost in costs for name in cost.codelets)),
        worst(cost.label for cost in costs),
        resources,
    )
