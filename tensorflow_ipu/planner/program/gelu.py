"""Finds the ops of each GELU and of its gradient: the library has one vertex for either.

TensorFlow writes `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, or `erf(x / sqrt(2))` instead
of the tanh, in up to nine ops, and frameworks of the original call the library's non-linearity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType
from tensorflow_ipu.costs.rules import elementwise, zero_cost
from tensorflow_ipu.planner.program.accesses import parents
from tensorflow_ipu.planner.program.structure import UPDATE
from tensorflow_ipu.planner.workload import CONSTANT, Operand, Workload

GELU, GELU_GRADIENT = "Gelu", "GeluGrad"

_SUMS, _PRODUCTS = ("Add", "AddV2"), ("Mul", "RealDiv")
_PARTS = frozenset({*_SUMS, *_PRODUCTS, "Sub", "Neg", "Pow", "Square", "Cast", "AddN", "TanhGrad"})
# Ops of either at most: longer searches find something else.
_MOST = 24


class Found(NamedTuple):
    """The ops of one GELU or of its gradient.

    Args:
        vertex: type of the library's vertex.
        ops: indices of the ops, in order.
        type: type and shape of the result.
    """

    vertex: str
    ops: tuple[int, ...]
    type: TensorType


def find(workload: Workload) -> tuple[Found, ...]:
    """Finds all of a program.

    Args:
        workload: the program.
    """
    ops = workload.ops
    if not any(op.type in ("Tanh", "Erf") for op in ops):
        return ()
    return tuple(_Search(workload).found())


def cost_of(vertex: str, tensor: TensorType, resources: Resources) -> Cost:
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


class _Search:
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
            for buffer in _buffers(op.inputs):
                self._readers[buffer].append(index)
            for buffer in _buffers(op.outputs):
                self._makers[buffer].append(index)

    def found(self) -> Iterator[Found]:
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

    def _as_found(self, vertex: str, members: frozenset[int]) -> Found:
        ordered = tuple(sorted(members))
        return Found(vertex, ordered, self._ops[ordered[-1]].outputs[0].type)

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


def _buffers(operands: Sequence[Operand]) -> set[int]:
    """Returns the buffers of some operands, each once."""
    return {operand.buffer for operand in operands if operand.buffer is not None}
