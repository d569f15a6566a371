"""Random programs of PopXL with ops in place, views, calls and loops, and their expected results.

The reference is memory: a tensor is an array of addresses in one array of numbers. So views are
NumPy's own slices and transposes of addresses, and nothing is known of how programs are lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import popxl
from hypothesis import strategies
from popxl import ops
from popxl.ops import var_updates

Addresses = np.ndarray


class Step(NamedTuple):
    """One op: its number, its operands among the existing values, and a free choice."""

    op: int
    first: int
    second: int
    choice: int


class Program(NamedTuple):
    """Steps of the main graph, and of a graph that they call; how that takes its inputs."""

    steps: tuple[Step, ...]
    called: tuple[Step, ...]
    by_reference: tuple[bool, bool]


_numbers = strategies.integers(0, 1000)
_steps = strategies.lists(
    strategies.builds(Step, _numbers, _numbers, _numbers, _numbers), min_size=3, max_size=14
).map(tuple)
PROGRAMS = strategies.builds(
    Program, _steps, _steps, strategies.tuples(strategies.booleans(), strategies.booleans())
)

START = (
    np.arange(6, dtype=np.int32).reshape(2, 3),
    np.arange(6, 12, dtype=np.int32).reshape(3, 2) * 7,
    np.array([3, -5, 2, 1, -1, 8], np.int32),
)


class Memory:
    """The reference: numbers, and tensors as arrays of addresses."""

    def __init__(self) -> None:
        self.cells = np.zeros(0, np.int32)

    def new(self, values: Any) -> Addresses:
        """Returns a tensor with storage of its own."""
        values = np.asarray(values, np.int32)
        start = len(self.cells)
        self.cells = np.concatenate([self.cells, values.reshape(-1)])
        return np.arange(start, len(self.cells)).reshape(values.shape)

    def read(self, tensor: Addresses) -> np.ndarray:
        """Returns the values of a tensor."""
        return self.cells[tensor]

    def write(self, tensor: Addresses, values: Any) -> Addresses:
        """Writes into a tensor, and returns it."""
        self.cells[tensor] = values
        return tensor


class Pair(NamedTuple):
    """A tensor of PopXL, and its expected addresses."""

    tensor: popxl.Tensor
    addresses: Addresses


# An op takes the memory, two tensors and a choice; it returns None for what it has no use for.
_Op = Callable[[Memory, Pair, Pair, int], "Pair | None"]


def _fresh(build: Any, compute: Any) -> _Op:
    def op(memory: Memory, a: Pair, b: Pair, choice: int) -> Pair | None:
        if a.addresses.shape != b.addresses.shape:
            return None
        found = compute(memory.read(a.addresses), memory.read(b.addresses))
        return Pair(build(a.tensor, b.tensor), memory.new(found))

    return op


def _in_place(build: Any, compute: Any) -> _Op:
    def op(memory: Memory, a: Pair, b: Pair, choice: int) -> Pair | None:
        if a.addresses.shape != b.addresses.shape or len(set(a.addresses.flat)) < a.addresses.size:
            return None
        found = compute(memory.read(a.addresses), memory.read(b.addresses))
        return Pair(build(a.tensor, b.tensor), memory.write(a.addresses, found))

    return op


def _view(build: Any, take: Any) -> _Op:
    def op(memory: Memory, a: Pair, b: Pair, choice: int) -> Pair | None:
        made = build(a.tensor, choice)
        return Pair(made, take(a.addresses, choice))

    return op


def _copied(build: Any, take: Any) -> _Op:
    def op(memory: Memory, a: Pair, b: Pair, choice: int) -> Pair | None:
        return Pair(build(a.tensor, choice), memory.new(memory.read(take(a.addresses, choice))))

    return op


def _shape(size: int, choice: int) -> tuple[int, ...]:
    """Returns one of the shapes with N elements."""
    shapes = [(size,), *((n, size // n) for n in range(1, size + 1) if size % n == 0)]
    return shapes[choice % len(shapes)]


def _bounds(shape: Sequence[int], choice: int) -> tuple[list[int], list[int]]:
    """Returns where a slice begins and ends along each axis; no part is empty."""
    start, stop = [], []
    for size in shape:
        start.append(choice % size)
        choice //= size
        stop.append(start[-1] + 1 + choice % (size - start[-1]))
        choice //= 3
    return start, stop


def _slice(a: Addresses, choice: int) -> Addresses:
    start, stop = _bounds(a.shape, choice)
    return a[tuple(slice(*pair) for pair in zip(start, stop))]


def _join(memory: Memory, a: Pair, b: Pair, choice: int) -> Pair | None:
    x, y = a.addresses, b.addresses
    if x.ndim != y.ndim or x.shape[1:] != y.shape[1:] or set(x.flat) & set(y.flat):
        return None
    return Pair(ops.concat_([a.tensor, b.tensor], 0), np.concatenate([x, y]))


def _update_part(memory: Memory, a: Pair, b: Pair, choice: int) -> Pair | None:
    """Writes the elements from an index on, which is known at run time only."""
    x, y = a.addresses, b.addresses
    if x.ndim != y.ndim or x.shape[1:] != y.shape[1:] or len(y) > len(x):
        return None
    first = choice % (len(x) - len(y) + 1)
    index = popxl.constant([first], popxl.uint32)
    made = ops.dynamic_update_(a.tensor, index, b.tensor, [0], [len(y)], True)
    memory.write(x[first : first + len(y)], memory.read(y))
    return Pair(made, x)


OPS: tuple[_Op, ...] = (
    _fresh(ops.add, np.add),
    _fresh(ops.sub, np.subtract),
    _fresh(ops.mul, np.multiply),
    _in_place(ops.add_, np.add),
    _in_place(lambda a, b: a.__iadd__(b), np.add),
    _in_place(lambda a, b: ops.relu_(a), lambda a, b: np.maximum(a, 0)),
    _in_place(var_updates.copy_var_update_, lambda a, b: b),
    _in_place(var_updates.accumulate_, np.add),
    _in_place(lambda a, b: var_updates.accumulator_zero_(a), lambda a, b: 0 * a),
    _in_place(lambda a, b: ops.increment_mod_(a, 1, 5), lambda a, b: np.fmod(a + 1, 5)),
    _view(lambda t, n: t.reshape_(_shape(t.nelms, n)), lambda a, n: a.reshape(_shape(a.size, n))),
    _view(lambda t, n: t.flatten_(), lambda a, n: a.reshape(-1)),
    _view(lambda t, n: t.T_, lambda a, n: a.T),
    _view(lambda t, n: t.detach_(), lambda a, n: a),
    _view(lambda t, n: ops.slice_(t, *_bounds(t.shape, n)), _slice),
    _copied(lambda t, n: ops.slice(t, *_bounds(t.shape, n)) + 0, _slice),
    _copied(lambda t, n: t.T, lambda a, n: a.T),
    _copied(lambda t, n: t.reshape(_shape(t.nelms, n)), lambda a, n: a.reshape(_shape(a.size, n))),
    _join,
    _update_part,
)


class _Run:
    """A program while it is built, and computed by the reference."""

    def __init__(self, program: Program) -> None:
        self.memory = Memory()
        self._program = program

    def steps(self, steps: Sequence[Step], pairs: list[Pair], callable_: bool) -> None:
        """Adds ops, and their results to the existing tensors."""
        for step in steps:
            count = len(OPS) + (4 if callable_ else 0)
            a, b = (pairs[i % len(pairs)] for i in (step.first, step.second))
            if step.op % count < len(OPS):
                made = OPS[step.op % count](self.memory, a, b, step.choice)
            else:
                made = self._call(a, b, step.choice)
            if made is not None and made.addresses.size <= 24:
                pairs.append(made)

    def _call(self, a: Pair, b: Pair, choice: int) -> Pair | None:
        """Calls a graph, or repeats it, with copies of two tensors or by reference."""
        if set(a.addresses.flat) & set(b.addresses.flat):
            return None  # which of the two is written back last is left open
        by_reference = self._program.by_reference
        if any(
            ref and len(set(pair.addresses.flat)) < pair.addresses.size
            for ref, pair in zip(by_reference, (a, b))
        ):
            return None
        graph = popxl.gir().create_empty_graph("part")
        passed = [self.memory.new(self.memory.read(pair.addresses)) for pair in (a, b)]
        with graph, popxl.in_sequence():
            inputs = [
                popxl.graph_input(pair.tensor.shape, popxl.int32, "x", by_ref=ref)
                for pair, ref in zip((a, b), by_reference)
            ]
            times = choice % 4
            pairs = [Pair(t, at) for t, at in zip(inputs, passed)]
            before = self.memory.cells.copy()
            self.steps(self._program.called, pairs, False)
            results = [p for p in pairs[2:] if p.tensor.shape == a.tensor.shape]
            result = results[-1] if results else pairs[0]
            popxl.graph_output(result.tensor)
        if times == 0:
            outputs = ops.call(graph, a.tensor, b.tensor)
            return self._written_back(a, b, passed, outputs[0], result.addresses)
        # Iterations after the first are computed by building the graph anew, elsewhere.
        self.memory.cells[: len(before)] = before
        carried, kept = self.memory.read(passed[0]), self.memory.read(passed[1])
        for _ in range(times):
            first, second = self.memory.new(carried), self.memory.new(kept)
            scratch = popxl.Ir()
            with popxl_context(), scratch.main_graph:
                again = [Pair(popxl.variable(self.memory.read(at)), at) for at in (first, second)]
                self.steps(self._program.called, again, False)
            results = [p for p in again[2:] if p.tensor.shape == a.tensor.shape]
            last = results[-1] if results else again[0]
            carried = self.memory.read(last.addresses)
            if by_reference[1]:
                kept = self.memory.read(second)
        self.memory.write(passed[0], self.memory.read(first))
        self.memory.write(passed[1], self.memory.read(second))
        outputs = ops.repeat(graph, times, a.tensor, b.tensor)
        return self._written_back(a, b, passed, outputs[0], self.memory.new(carried))

    def _written_back(
        self, a: Pair, b: Pair, passed: Sequence[Addresses], output: Any, result: Addresses
    ) -> Pair:
        found = self.memory.new(self.memory.read(result))
        for pair, ref, inside in zip((a, b), self._program.by_reference, passed):
            if ref:
                self.memory.write(pair.addresses, self.memory.read(inside))
        return Pair(output, found)


@contextlib.contextmanager
def popxl_context() -> Any:
    """Leaves all graphs for a while, so that one of another Ir can be entered."""
    main, current = popxl.gmg(), popxl.gcg()
    main.__exit__(None, None, None)
    try:
        yield current
    finally:
        main.__enter__()


def build(program: Program) -> tuple[popxl.Ir, dict[popxl.DeviceToHostStream, np.ndarray]]:
    """Builds a program.

    Args:
        program: its steps.

    Returns:
        The Ir, and what each of its streams should get.
    """
    ir, run = popxl.Ir(), _Run(program)
    with ir.main_graph, popxl.in_sequence():
        pairs = [Pair(popxl.variable(values), run.memory.new(values)) for values in START]
        run.steps(program.steps, pairs, True)
        streams = {}
        for tensor, addresses in pairs:
            stream = popxl.d2h_stream(tensor.shape, tensor.dtype)
            ops.host_store(stream, tensor)
            streams[stream] = run.memory.read(addresses)
    return ir, streams
