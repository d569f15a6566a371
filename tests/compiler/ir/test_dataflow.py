"""The walk through calls, branches and loops, against all runs of small random programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.compiler.ir import dataflow
from tensorflow_ipu.compiler.ir.dataflow import Fixpoint, ProgramFunction, ProgramOp, Summaries
from tensorflow_ipu.compiler.ir.program import Program
from tests.support.programs.compiled_programs import program_of

# What a tensor was made from: names of sources and of the program's arguments.
Labels = frozenset[str]
# What a tensor is, None if that is not known.
Number = int


class Op(NamedTuple):
    """An op of an invented program. Its name decides its transfer function."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Function, ...] = ()


class Function(NamedTuple):
    """A function of such a program."""

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    ops: tuple[Op, ...]


@st.composite
def functions(
    draw: st.DrawFn, arguments: int, results: int, depth: int = 2, prefix: str = ""
) -> Function:
    """Returns functions of a few ops, with calls, branches and loops in them."""
    names = [f"{prefix}argument{index}" for index in range(arguments)]
    known, ops = list(names), []
    kinds = ["Sum", "Swap", "Const", *(("If", "Case", "While", "PartitionedCall") * (depth > 0))]
    for number in range(draw(st.integers(1, 3))):
        name = f"{prefix}op{number}"
        ops.append(draw(_ops(draw(st.sampled_from(kinds)), tuple(known), name, depth)))
        known += ops[-1].outputs
    returned = draw(st.lists(st.sampled_from(known), min_size=results, max_size=results))
    return Function(tuple(names), tuple(returned), tuple(ops))


@st.composite
def _ops(draw: st.DrawFn, kind: str, known: tuple[str, ...], name: str, depth: int) -> Op:
    """Returns ops of some type."""

    def inputs(count: int) -> tuple[str, ...]:
        return tuple(draw(st.lists(st.sampled_from(known), min_size=count, max_size=count)))

    def called(arguments: int, results: int, number: int = 0) -> Function:
        return draw(functions(arguments, results, depth - 1, f"{name}/{number}/"))

    count = draw(st.integers(1, 3 if kind == "While" else 2))
    outputs = tuple(f"{name}:{index}" for index in range(count))
    if kind == "Const":
        return Op(kind, (), outputs[:1])
    if kind in ("Sum", "Swap"):
        return Op(kind, inputs(2), tuple(f"{name}:{i}" for i in range(2 if kind == "Swap" else 1)))
    if kind == "While":
        return Op(kind, inputs(count), outputs, (called(count, 1), called(count, count, 1)))
    if kind == "PartitionedCall":
        return Op(kind, inputs(count), outputs, (called(count, count),))
    branches = tuple(called(count, count, number) for number in range(2 if kind == "If" else 3))
    return Op(kind, inputs(1 + count), outputs, branches)


PROGRAMS = functions(arguments=2, results=2)


class Origins(Fixpoint[Op, Labels]):
    """Finds the arguments that each result may depend on."""

    def transfer(
        self, op: Op, inputs: list[Labels], inside: Sequence[list[Labels]]
    ) -> Sequence[Labels]:
        """Returns the facts of each result."""
        if op.type == "Const":
            return [frozenset({op.outputs[0]})]
        if op.type == "Swap":
            return inputs[::-1]
        return [frozenset().union(*inputs, *itertools.chain(*inside))] * len(op.outputs)

    def join(self, value: Labels, other: Labels) -> Labels:
        """Returns the union of two facts."""
        return value | other

    def unknown(self, op: Op, inputs: list[Labels], name: str) -> Labels:
        """Returns the union of the facts of all inputs."""
        return frozenset().union(*inputs)


class OriginsOnce(Origins, Summaries[Op, Labels]):
    """The same with a summary of each function."""

    nothing: Labels = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.visited: list[str] = []

    def visit(self, op: Op, inputs: list[Labels]) -> Sequence[Labels]:
        """Notes which ops are looked at."""
        self.visited.append(op.type)
        return super().visit(op, inputs)


class Numbers(Fixpoint[Op, "Number | None"]):
    """Finds which results are always the same number, of those that are computed modulo 3."""

    def transfer(
        self, op: Op, inputs: list[Number | None], inside: Sequence[list[Number | None]]
    ) -> Sequence[Number | None]:
        """Computes with known values."""
        return _numbers(op, inputs)

    def join(self, value: Number | None, other: Number | None) -> Number | None:
        """Returns the number if it is the same."""
        return value if value == other else None

    def unknown(self, op: Op, inputs: list[Number | None], name: str) -> None:
        """Knows nothing."""


def _numbers(op: Op, inputs: Sequence[Number | None]) -> Sequence[Number | None]:
    """Computes an op."""
    if op.type == "Const":
        return [len(op.outputs[0]) % 3]
    if op.type == "Swap":
        return inputs[::-1]
    first, second = inputs
    return [None if first is None or second is None else (first + second) % 3]


# A run of a function: what it returns. `Run` is one of labels or of numbers.
Run = tuple


def _runs(function: Function, arguments: Run, transfer: object, rounds: int) -> set[Run]:
    """Returns the outcomes of all runs of a function: any branch, up to `rounds` iterations."""
    states = {arguments}
    names = list(function.arguments)
    for op in function.ops:
        following = set()
        for state in states:
            known = dict(zip(names, state))
            inputs = tuple(known[name] for name in op.inputs)
            following |= {(*state, *end) for end in _ends(op, inputs, transfer, rounds)}
        states, names = following, [*names, *op.outputs]
    return {tuple(dict(zip(names, state))[name] for name in function.results) for state in states}


def _ends(op: Op, inputs: Run, transfer: object, rounds: int) -> set[Run]:
    """Returns the facts of an op's results."""
    if op.type in ("If", "Case"):
        return set().union(*(_runs(call, inputs[1:], transfer, rounds) for call in op.calls))
    if op.type == "PartitionedCall":
        return _runs(op.calls[0], inputs, transfer, rounds)
    if op.type != "While":
        return {tuple(transfer(op, inputs))}
    ends = last = {inputs}
    for _ in range(rounds):
        last = set().union(*(_runs(op.calls[1], one, transfer, rounds) for one in last))
        if last <= ends:
            break
        ends = ends | last
    return ends


def _labels(op: Op, inputs: Run) -> Run:
    """Returns the union of the facts of an op's inputs."""
    return tuple(Origins().transfer(op, list(inputs), ()))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(PROGRAMS)
def test_the_fixpoint_is_all_that_runs_come_to(program: Function) -> None:
    arguments = (frozenset({"first"}), frozenset({"second"}))
    runs = _runs(program, arguments, _labels, rounds=6)
    expected = [frozenset().union(*results) for results in zip(*runs)]
    assert Origins().run(program, arguments) == expected
    assert OriginsOnce().run(program, arguments) == expected


@settings(derandomize=True, max_examples=40, deadline=None)
@given(PROGRAMS, st.integers(0, 2), st.integers(0, 2))
def test_what_is_known_holds_in_each_run(program: Function, first: int, second: int) -> None:
    known = Numbers().run(program, [first, second])
    for results in _runs(program, (first, second), _numbers, rounds=6):
        assert all(number in (None, result) for number, result in zip(known, results))


def _loop(body: Function, count: int) -> Function:
    names = tuple(f"x{index}" for index in range(count))
    condition = Function(names, names[:1], ())
    outputs = tuple(f"loop:{index}" for index in range(count))
    return Function(names, outputs, (Op("While", names, outputs, (condition, body)),))


SHIFT = Function(("a", "b", "c", "d"), ("a", "a", "b", "c"), ())


def test_value_takes_all_rounds_it_needs() -> None:
    arguments = [frozenset({name}) for name in "abcd"]
    assert Origins().run(_loop(SHIFT, 4), arguments)[3] == frozenset("abcd")


@pytest.mark.parametrize(("rounds", "expected"), [(0, "d"), (1, "cd"), (2, "bcd")])
def test_rounds_can_be_limited(rounds: int, expected: str) -> None:
    walk = Origins()
    walk.rounds = rounds
    arguments = [frozenset({name}) for name in "abcd"]
    assert walk.run(_loop(SHIFT, 4), arguments)[3] == frozenset(expected)


def test_branches_run_when_their_results_are_asked_for() -> None:
    class Order(Origins):
        """Records the calls."""

        def __init__(self) -> None:
            self.events: list[str] = []

        def merge(
            self, op: Op, predicate: Labels, branches: Iterator[list[Labels]]
        ) -> Sequence[Labels]:
            """Asks for branch after branch."""
            for _ in branches:
                self.events.append("joined")
            return ()

        def transfer(
            self, op: Op, inputs: list[Labels], inside: Sequence[list[Labels]]
        ) -> Sequence[Labels]:
            """Notes the op."""
            self.events.append(op.outputs[0])
            return super().transfer(op, inputs, inside)

    branches = tuple(Function((), (name,), (Op("Const", (), (name,)),)) for name in "abc")
    walk = Order()
    walk.run(Function(("p",), (), (Op("Case", ("p",), ("q",), branches),)), [frozenset()])
    assert walk.events == ["a", "joined", "b", "joined", "c", "joined"]


def test_an_op_that_chooses_what_it_passes() -> None:
    one = Function(("x",), ("x",), ())
    two = Function((), ("y",), (Op("Const", (), ("y",)),))
    program = Function(("a", "b"), ("c",), (Op("Own", ("a", "b"), ("c",), (one, two)),))
    assert Origins().run(program, [frozenset("a"), frozenset("b")]) == [frozenset("aby")]


def test_tensorflow_1_loop_back_edge_is_left_out() -> None:
    ops = (Op("Sum", ("a", "later"), ("merged",)), Op("Sum", ("merged", "merged"), ("later",)))
    assert Origins().run(Function(("a",), ("later",), ops), [frozenset("a")]) == [frozenset("a")]


def test_function_is_looked_at_once_for_equal_arguments() -> None:
    inner = Function(("x",), ("y",), (Op("Sum", ("x",), ("y",)),))
    calls = tuple(Op("PartitionedCall", (name,), (f"{name}c",), (inner,)) for name in "aab")
    walk = OriginsOnce()
    walk.run(Function(("a", "b"), ("ac", "bc"), calls), [frozenset("a"), frozenset("b")])
    assert walk.visited.count("Sum") == 2
    walk.context = "another"
    walk.run(inner, [frozenset("a")])
    assert walk.visited.count("Sum") == 3


def test_function_that_calls_itself_comes_to_an_end() -> None:
    class Recursive:
        """Returns its argument, or the result of calling itself with it."""

        arguments, results = ("x",), ("z",)

        @property
        def ops(self) -> tuple[Op, ...]:
            return (
                Op("PartitionedCall", ("x",), ("y",), (self,)),  # type: ignore[arg-type]
                Op("Sum", ("x", "y"), ("z",)),
            )

    assert OriginsOnce().run(Recursive(), [frozenset("a")]) == [frozenset("a")]


# --- Functions of a Program with the names and order of their tensors ---

_SPEC = tf.TensorSpec([4], tf.float32)


def _entry(function: Any) -> ProgramFunction:
    return dataflow.entry(program_of(function, _SPEC))


def _only(function: ProgramFunction, op_type: str) -> ProgramOp:
    (found,) = [op for op in function.ops if op.type == op_type]
    return found


def test_results_have_the_names_that_other_nodes_use() -> None:
    def function(x: tf.Tensor) -> Any:
        values, indices = tf.math.top_k(x, 2)
        first, second = tf.split(values, 2)
        return indices, first + second

    entry = _entry(function)
    top, split, add = (_only(entry, kind) for kind in ("TopKV2", "Split", "AddV2"))
    assert top.outputs == (f"{top.node.name}:values:0", f"{top.node.name}:indices:0")
    assert split.outputs == (f"{split.node.name}:output:0", f"{split.node.name}:output:1")
    assert split.inputs[1] == top.outputs[0]
    assert add.inputs == split.outputs
    assert top.inputs[0] == entry.arguments[0]
    made = {name for op in entry.ops for name in op.outputs}
    assert made.issuperset(entry.results)


def test_a_loop_runs_a_condition_and_a_body() -> None:
    entry = _entry(lambda x: tf.while_loop(lambda y: y[0] < 3.0, lambda y: [tf.exp(y)], [x])[0])
    (loop,) = [op for op in entry.ops if op.calls]
    condition, body = loop.calls
    assert _only(condition, "Less")
    assert _only(body, "Exp").function == body.name
    assert len(body.arguments) == len(body.results) == len(loop.inputs) == len(loop.outputs)


def test_ops_follow_inputs_in_any_node_order() -> None:
    program = program_of(lambda x: tf.exp(tf.tanh(x)), _SPEC)
    nodes = program.functions[program.entry].node_def
    backwards = list(reversed(nodes))
    del nodes[:]
    nodes.extend(backwards)
    types = [op.type for op in dataflow.entry(program).ops]
    assert types.index("Tanh") < types.index("Exp")


def test_function_is_one_object_wherever_it_is_called() -> None:
    @tf.function
    def doubled(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    first, second = [op for op in _entry(lambda x: doubled(doubled(x))).ops if op.calls]
    assert first.calls[0] is second.calls[0]
    assert second.inputs == first.outputs


def test_the_program_is_left_as_it_is() -> None:
    program = program_of(lambda x: tf.cond(x[0] > 0.0, lambda: tf.exp(x), lambda: x), _SPEC)
    before = Program.from_library(program.to_library(), program.entry)
    dataflow.entry(program)
    assert program == before
