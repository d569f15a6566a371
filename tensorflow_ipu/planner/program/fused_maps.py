"""Fused groups: elementwise ops in one loop, as `popops::map` does, and the vertices of GELU.

An op is fused with the only op that reads its result, if both are elementwise on one shape and are
run together. So an optimizer written out in elementwise ops is one fused group for each variable
that it writes. Frameworks hand the rule of an optimizer to the library as one expression, but the
functions of layers one by one. So only updates are fused, and values assigned to variables. The ops
of a GELU are a group too, with the library's vertex.

TensorFlow writes `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, or `erf(x / sqrt(2))` instead
of the tanh, in up to nine ops, and frameworks of the original call the library's non-linearity.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.label import worst
from tensorflow_ipu.costs.rules import elementwise, zero_cost
from tensorflow_ipu.planner.program.accesses import parents
from tensorflow_ipu.planner.program.structure import UPDATE
from tensorflow_ipu.planner.workload import CONSTANT, TENSOR, Op, Operand, Workload

GELU, GELU_GRADIENT = "Gelu", "GeluGrad"
_SUMS, _PRODUCTS = ("Add", "AddV2"), ("Mul", "RealDiv")
_PARTS = frozenset({*_SUMS, *_PRODUCTS, "Sub", "Neg", "Pow", "Square", "Cast", "AddN", "TanhGrad"})

# Ops of either at most: longer searches find something else.
_MOST = 24


class Gelu(NamedTuple):
    """The ops of one GELU or of its gradient.

    Args:
        vertex: type of the library's vertex.
        ops: indices of the ops, in order.
        type: type and shape of the result.
    """

    vertex: str
    ops: tuple[int, ...]
    type: TensorType


def find_gelu(workload: Workload) -> tuple[Gelu, ...]:
    """Finds all of a program.

    Args:
        workload: the program.
    """
    ops = workload.ops
    if not any(op.type in ("Tanh", "Erf") for op in ops):
        return ()
    return tuple(_GeluSearch(workload).found())


def gelu_cost(vertex: str, tensor: TensorType, resources: Resources) -> Cost:
    """Returns the cost of the library's vertex.

    Args:
        vertex: type of the vertex.
        tensor: type and shape of its operands and of its result.
        resources: what it has at its disposal.
    """
    operands = (tensor,) * (1 if vertex == GELU else 2)
    return elementwise.elementwise(OpSpec(vertex, operands, (tensor,), {}), resources)


class _Forward(NamedTuple):
    """A GELU: its ops, its operand in float32, and the result of its tanh."""

    members: frozenset[int]
    x: int
    tanh: int


class _GeluSearch:
    """Readers and makers of each buffer, without the ops that only give it another shape."""

    def __init__(self, workload: Workload) -> None:
        self._ops = workload.ops
        self._constants = {
            index for index, buffer in enumerate(workload.buffers) if buffer.kind == CONSTANT
        }
        self._parents = parents(np.array([op.end for op in workload.ops], np.int32)).tolist()
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._makers: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(workload.ops):
            if op.type in zero_cost.RULES:
                continue
            for buffer in _sources(op.inputs):
                self._readers[buffer].append(index)
            for buffer in _sources(op.outputs):
                self._makers[buffer].append(index)

    def found(self) -> Iterator[Gelu]:
        """Yields each GELU and each gradient."""
        forward: dict[int, _Forward] = {}
        for index, op in enumerate(self._ops):
            if op.type in ("Tanh", "Erf") and op.phase != UPDATE and op.ipu is not None:
                gelu = self._forward(index)
                if gelu is not None:
                    forward[gelu.tanh] = gelu
                    yield self._as_found(GELU, gelu.members)
            if op.type == "TanhGrad" and op.inputs[0].buffer in forward:
                members = self._gradient(index, forward[op.inputs[0].buffer])
                if members:
                    yield self._as_found(GELU_GRADIENT, members)

    def _as_found(self, vertex: str, members: frozenset[int]) -> Gelu:
        ordered = tuple(sorted(members))
        return Gelu(vertex, ordered, self._ops[ordered[-1]].outputs[0].type)

    def _forward(self, index: int) -> _Forward | None:
        """Returns the GELU around a tanh or erf; None if it is none."""
        above = self._above(index)
        if above is None:
            return None
        members, x = above
        below = self._below(index, members, x)
        if below is None:
            return None
        members, last = below
        cast = self._maker(x, index)
        if cast is not None and self._ops[cast].type == "Cast":
            end = self._next(last, index, ("Cast",))
            if end is not None:
                members |= {cast, end}
        return _Forward(frozenset(members), x, self._result(index))

    def _above(self, index: int) -> tuple[set[int], int] | None:
        """Returns the ops from the operand to a tanh or erf, and the operand.

        The argument of the tanh has the operand in two places, that of the erf in one.
        """
        members, needed, branched = {index}, self._operands(index), self._ops[index].type == "Erf"
        while len(members) < _MOST:
            if len(needed) == 1 and len(members) > 1 and branched:
                return members, next(iter(needed))
            makers = [(self._maker(buffer, index), buffer) for buffer in needed]
            known = [(maker, buffer) for maker, buffer in makers if maker is not None]
            maker, latest = max(known, default=(-1, -1))
            if maker < 0 or self._ops[maker].type == "Cast":
                return None
            members.add(maker)
            needed = (needed - {latest}) | self._operands(maker)
            branched = branched or len(needed) > 1
        return None

    def _below(self, index: int, members: set[int], x: int) -> tuple[set[int], int] | None:
        """Returns the ops with those from a tanh to the product with the operand, and that."""
        members = set(members)
        last = self._next(index, index, _SUMS)
        while last is not None and len(members) < _MOST:
            members.add(last)
            product = self._next(last, index, _PRODUCTS)
            if product is None:
                return None
            others = self._operands(product) - {self._result(last)}
            if others:
                (other,) = others if len(others) == 1 else (-1,)
                half = self._maker(other, index) if other not in (x, -1) else None
                if half is not None and self._operands(half) == {x}:
                    members.add(half)
                elif other != x:
                    return None
                members.add(product)
                halved = self._next(product, index, _PRODUCTS)
                if halved is not None and len(self._operands(halved)) == 1:
                    members.add(halved)
                    product = halved
                return members, product
            last = product
        return None

    def _gradient(self, index: int, gelu: _Forward) -> frozenset[int]:
        """Returns the ops of a gradient: they read the GELU's values and one other tensor."""
        known = {gelu.x} | {self._result(member) for member in gelu.members}
        known -= {self._result(max(gelu.members))}
        upstream = self._upstream(index, known)
        if upstream is None:
            return frozenset()
        members: set[int] = set()
        made = set(known) | {upstream}
        waiting = [reader for buffer in made for reader in self._readers[buffer]]
        while waiting and len(members) < _MOST:
            reader = waiting.pop()
            joins = reader not in members and self._joins(reader, index)
            if not joins or not self._operands(reader) <= made:
                continue
            members.add(reader)
            made.add(self._result(reader))
            waiting += self._readers[self._result(reader)]
        cast = self._maker(upstream, index)
        if cast is not None and self._ops[cast].type == "Cast":
            members.add(cast)
        return frozenset(members) if index in members else frozenset()

    def _upstream(self, index: int, known: set[int]) -> int | None:
        """Returns the gradient of the result that a gradient of a tanh begins with."""
        needed = self._operands(index) - known
        for _ in range(_MOST):
            if len(needed) != 1:
                return None
            (buffer,) = needed
            maker = self._maker(buffer, index)
            if maker is None or self._ops[maker].type not in _PRODUCTS:
                return buffer
            needed = self._operands(maker) - known
        return None

    def _next(self, index: int, like: int, types: Sequence[str]) -> int | None:
        """Returns the reader of an op's result that is of some types; None if there is not one."""
        readers = [
            reader
            for reader in self._readers[self._result(index)]
            if self._ops[reader].type in types and self._joins(reader, like)
        ]
        return readers[0] if len(readers) == 1 else None

    def _maker(self, buffer: int, like: int) -> int | None:
        """Returns the op that makes a buffer, if it can belong to the same function as another."""
        makers = self._makers[buffer]
        return makers[0] if len(makers) == 1 and self._joins(makers[0], like) else None

    def _joins(self, index: int, like: int) -> bool:
        """Returns whether an op can belong to the same function as another."""
        op, other = self._ops[index], self._ops[like]
        if op.type not in _PARTS or len(op.outputs) != 1 or op.outputs[0].buffer is None:
            return False
        elements = other.outputs[0].type.elements
        sizes = {operand.type.elements for operand in op.inputs}
        whole = op.outputs[0].type.elements == elements and sizes <= {1, elements}
        return whole and self._context(index) == self._context(like)

    def _context(self, index: int) -> Hashable:
        """Returns the properties that all ops of a function share: they run together."""
        op = self._ops[index]
        return op.ipu, op.stage, op.phase, op.runs, self._parents[index], op.branch

    def _operands(self, index: int) -> set[int]:
        """Returns the tensors that an op reads element by element: not numbers and constants."""
        op = self._ops[index]
        return {
            operand.buffer
            for operand in op.inputs
            if operand.buffer is not None
            and operand.buffer not in self._constants
            and operand.type.elements == op.outputs[0].type.elements
        }

    def _result(self, index: int) -> int:
        """Returns the buffer of an op's result."""
        buffer = self._ops[index].outputs[0].buffer
        return -1 if buffer is None else buffer


def _sources(operands: Sequence[Operand]) -> set[int]:
    """Returns the buffers of some operands, each once."""
    return {operand.buffer for operand in operands if operand.buffer is not None}


# --- Fused groups ---


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
    vertices: Mapping[int, Gelu] = dataclasses.field(default_factory=dict)


def find(workload: Workload) -> FusedMaps:
    """Finds the fused groups of a program.

    Args:
        workload: the program.
    """
    maps = _Search(workload).maps()
    vertices = {found.ops[-1]: found for found in find_gelu(workload)}
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
    vertex: Gelu | None = None,
) -> Cost:
    """Returns the cost of a fused group.

    Args:
        members: its ops in order.
        costs: of each op by itself.
        resources: chip, tiles and options of the ops.
        vertex: the vertex of the library, if it has one for the group.
    """
    if vertex is not None:
        return gelu_cost(vertex.vertex, vertex.type, resources)
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
