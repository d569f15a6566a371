"""Live ranges of buffers, given an order of the ops."""

from __future__ import annotations

import dataclasses

import numpy as np

from tensorflow_ipu.planner.program.accesses import INPUT_KIND, TENSOR_KIND, VARIABLE_KIND, Accesses
from tensorflow_ipu.planner.workload import Workload

# Elementwise ops: their result may take the place of an operand that is not needed afterwards.
ELEMENTWISE = frozenset(
    """
    Abs Acos Acosh Add AddN AddV2 Asin Asinh Atan Atan2 Atanh BiasAdd BiasAddV1 Ceil Cos Cosh Div
    DivNoNan Elu EluGrad Erf Erfc Exp Expm1 Floor FloorDiv FloorMod InvGrad Inv IpuDropout IpuGelu
    IpuGeluGrad LeakyRelu LeakyReluGrad Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum
    Mod Mul MulNoNan Neg Pow RealDiv Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Rint
    Round Rsqrt RsqrtGrad Select SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Softplus
    SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square SquaredDifference Sub Tan Tanh TanhGrad
    TruncateDiv Where Xdivy Xlogy ClipByValue
    """.split()
)


@dataclasses.dataclass(frozen=True)
class Order:
    """An order of the ops.

    Attributes:
        ops: Index of the op at each position, int32.
        position: Position of each op, int32.
        last: Position of the last op that each op runs, int32; its own position for most.
    """

    ops: np.ndarray
    position: np.ndarray
    last: np.ndarray


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Live ranges of instances, as positions; an instance may have two.

    Attributes:
        instance: Index into the instances of `Accesses`, int32.
        start: First position at which it takes memory, int64.
        stop: Last one.
    """

    instance: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    def where(self, chosen: np.ndarray) -> Intervals:
        """Returns the stretches at some indices.

        Args:
            chosen: whether each is one of them.
        """
        return Intervals(self.instance[chosen], self.start[chosen], self.stop[chosen])


def in_order(ops: np.ndarray, end: np.ndarray) -> Order:
    """Returns an order with the positions of its ops.

    Args:
        ops: index of the op at each position.
        end: `Op.end` of each op.
    """
    position = np.empty(len(ops), np.int32)
    position[ops] = np.arange(len(ops), dtype=np.int32)
    return Order(ops, position, position + end - np.arange(len(end), dtype=np.int32) - 1)


def intervals(accesses: Accesses, order: Order, pairs: np.ndarray) -> Intervals:
    """Returns the live range of each transient instance.

    Args:
        accesses: accesses of ops to buffers.
        order: order of the ops.
        pairs: the result of `in_place_pairs`.
    """
    count = len(accesses.first)
    if not count:
        none = np.zeros(0, np.int64)
        return Intervals(none.astype(np.int32), none, none)
    at = order.position[accesses.op].astype(np.int64)
    # One past the last op stands for the whole program.
    last = np.append(order.last, np.int32(len(order.ops) - 1))
    until = np.where(accesses.until >= 0, last[accesses.until], at)
    start = np.minimum.reduceat(at, accesses.first)
    stop = np.maximum.reduceat(until, accesses.first)
    start[accesses.kind == INPUT_KIND] = 0
    _reuse(accesses, order, pairs, start, stop)
    transient = accesses.kind <= INPUT_KIND
    # A copy of another IPU's tensor is here only while it is used.
    transient |= ~accesses.home
    chosen = np.flatnonzero(transient & (start <= stop)).astype(np.int32)
    return Intervals(chosen, start[chosen], stop[chosen])


def in_place_pairs(workload: Workload, accesses: Accesses) -> np.ndarray:
    """Returns candidates for sharing memory: rows of op, instance read, instance made.

    Args:
        workload: the program.
        accesses: accesses of ops to buffers.
    """
    wanted = np.array([op.type in ELEMENTWISE for op in workload.ops], dtype=bool)
    chosen = wanted[accesses.op] & (accesses.kind[accesses.instance] == TENSOR_KIND)
    made = chosen & accesses.write & (accesses.maker[accesses.buffer] == accesses.op)
    target = np.full(len(workload.ops), -1, np.int32)
    target[accesses.op[made]] = accesses.instance[made]
    read = chosen & ~accesses.write & (target[accesses.op] >= 0)
    op, source = accesses.op[read], accesses.instance[read]
    result = target[op]
    numbers: dict[str, int] = {}
    types = np.fromiter(
        (numbers.setdefault(b.dtype, len(numbers)) for b in workload.buffers), np.int32
    )
    type_of = types[accesses.instance_buffer]
    alike = (type_of[source] == type_of[result]) & (
        accesses.num_bytes[source] == accesses.num_bytes[result]
    )
    rows = np.stack([op, source, result], axis=1)[alike & (source != result)]
    # By op, so that of several operands the first one in the order of buffers is taken.
    by_op: np.ndarray = rows[np.argsort(rows[:, 0], kind="stable")]
    return by_op


def _reuse(
    accesses: Accesses, order: Order, pairs: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> None:
    """Lets results reuse the memory of operands that die at their op: they begin after it."""
    if not len(pairs):
        return
    at = order.position[pairs[:, 0]]
    pairs = pairs[stop[pairs[:, 1]] == at]
    _, chosen = np.unique(pairs[:, 0], return_index=True)
    start[pairs[chosen, 2]] += 1


def curve(positions: int, found: Intervals, amounts: np.ndarray) -> np.ndarray:
    """Returns the live bytes at each position.

    Args:
        positions: number of positions.
        found: when each instance is live.
        amounts: the amount of each of these stretches, int64.
    """
    change = np.zeros(positions + 1, np.int64)
    np.add.at(change, found.start, amounts)
    np.subtract.at(change, found.stop + 1, amounts)
    result: np.ndarray = np.cumsum(change[:positions])
    return result


def streamed(accesses: Accesses, order: Order, ipu: int, num_bytes: np.ndarray) -> np.ndarray:
    """Returns rows of position and buffer at which a part of a variable is loaded on an IPU.

    Args:
        accesses: accesses of ops to buffers.
        order: order of the ops.
        ipu: the IPU.
        num_bytes: loaded of each buffer while it is used, 0 for most.
    """
    chosen = (
        (accesses.kind[accesses.instance] == VARIABLE_KIND)
        & accesses.home[accesses.instance]
        & (accesses.instance_ipu[accesses.instance] == ipu)
        & (num_bytes[accesses.buffer] > 0)
    )
    rows = np.stack([order.position[accesses.op[chosen]], accesses.buffer[chosen]], axis=1)
    unique: np.ndarray = np.unique(rows, axis=0)
    return unique
