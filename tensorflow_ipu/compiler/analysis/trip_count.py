"""Trip counts of loops whose condition tells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensorflow_ipu.compiler.ir.function_graphs import constant_value, through_identities

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tensorflow as tf

    from tensorflow_ipu.compiler.ir.function_graphs import FunctionGraph

# (comparison, counter on the right) -> the same with the counter on the left.
_MIRRORED = {
    "Less": "Greater",
    "LessEqual": "GreaterEqual",
    "Greater": "Less",
    "GreaterEqual": "LessEqual",
    "NotEqual": "NotEqual",
}


@dataclass(frozen=True)
class Trips:
    """The number of iterations of a loop, and the last values of its counters.

    Args:
        count: number of iterations; `None` when it depends on data or is not understood.
        counters: final values of the loop's counters by index of the loop variable. Empty unless
            the count is known.
    """

    count: int | None
    counters: dict[int, int]


class _Counter(NamedTuple):
    """A loop variable that changes by a constant in every iteration."""

    initial: int
    step: int


def trips(
    condition: FunctionGraph, body: FunctionGraph, initial: Sequence[np.ndarray | None]
) -> Trips:
    """Counts the iterations of a loop.

    Understood are conditions that compare counters with constants, joined by "and". `tf.range`,
    `tf.while_loop` with a bound, `maximum_iterations` and their gradients make such conditions.

    Args:
        condition: the condition's graph, loop-invariant constants bound as constants.
        body: the body's graph, bound likewise.
        initial: constant initial values of the loop variables, `None` where unknown.

    Returns:
        The number of iterations and the final counters.
    """
    limits = [_limit(clause, condition, body, initial) for clause in _clauses(condition.outputs[0])]
    if any(limit is None for limit in limits):
        return Trips(None, {})
    count = min(limit for limit in limits if limit is not None)
    if math.isinf(count):
        return Trips(None, {})
    counters = {}
    for index in range(len(body.inputs)):
        counter = _counter(index, body, initial)
        if counter is not None:
            counters[index] = counter.initial + counter.step * int(count)
    return Trips(int(count), counters)


def _clauses(predicate: tf.Tensor) -> list[tf.Tensor]:
    """Returns the parts of a predicate that all have to hold."""
    predicate = through_identities(predicate)
    if predicate.op.type != "LogicalAnd":
        return [predicate]
    return [clause for part in predicate.op.inputs for clause in _clauses(part)]


def _limit(
    clause: tf.Tensor,
    condition: FunctionGraph,
    body: FunctionGraph,
    initial: Sequence[np.ndarray | None],
) -> float | None:
    """Returns the iterations that a clause allows: infinity for all, `None` if unknown."""
    fixed = constant_value(clause)
    if fixed is not None:
        return math.inf if fixed else 0
    comparison = clause.op.type
    if comparison not in _MIRRORED:
        return None
    left, right = (through_identities(side) for side in clause.op.inputs)
    bound = constant_value(right)
    if bound is None:
        left, right, comparison = right, left, _MIRRORED[comparison]
        bound = constant_value(right)
    index = _argument_index(left, condition)
    counter = None if index is None else _counter(index, body, initial)
    if bound is None or counter is None:
        return None
    return _iterations(comparison, counter, int(bound))


def _argument_index(tensor: tf.Tensor, function: FunctionGraph) -> int | None:
    """Returns the index of the argument that is a tensor; None for other tensors."""
    for index, argument in enumerate(function.inputs):
        if argument is tensor or argument.name == tensor.name:
            return index
    return None


def _counter(
    index: int, body: FunctionGraph, initial: Sequence[np.ndarray | None]
) -> _Counter | None:
    """Returns the counter of a loop variable by index; None for other loop variables."""
    start = initial[index]
    if start is None or start.ndim or not np.issubdtype(start.dtype, np.integer):
        return None
    update = through_identities(body.outputs[index])
    if update.op.type not in ("Add", "AddV2", "Sub"):
        return None
    left, right = (through_identities(side) for side in update.op.inputs)
    if update.op.type != "Sub" and left.name != body.inputs[index].name:
        left, right = right, left
    step = constant_value(right)
    if step is None or left.name != body.inputs[index].name:
        return None
    return _Counter(int(start), -int(step) if update.op.type == "Sub" else int(step))


def _iterations(comparison: str, counter: _Counter, bound: int) -> float:
    """Returns the iterations until `counter <comparison> bound` first fails.

    With start s, step d and bound b: ceil((b - s) / d) for "less" and a rising counter; the other
    comparisons are brought to that form.
    """
    start, step = counter
    if comparison == "NotEqual":
        distance = bound - start
        if step and distance % step == 0 and distance // step >= 0:
            return distance // step
        return 0 if distance == 0 else math.inf
    if comparison in ("Greater", "GreaterEqual"):
        start, step, bound = -start, -step, -bound
    if comparison in ("LessEqual", "GreaterEqual"):
        bound += 1
    if start >= bound:
        return 0
    return -(-(bound - start) // step) if step > 0 else math.inf
