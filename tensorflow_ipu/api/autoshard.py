"""Automatic sharding: the public module `ipu.autoshard`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.util import nest

from tensorflow_ipu.api import sharding
from tensorflow_ipu.compiler.hooks import gradient_hooks
from tensorflow_ipu.compiler.ir import function_graphs
from tensorflow_ipu.compiler.ir.function_nodes import sharding_attribute
from tensorflow_ipu.compiler.ir.program import SHARDING_ATTRIBUTE
from tensorflow_ipu.util import linear_partition
from tensorflow_ipu.util.notices import warn_once

EdgeFilter = Callable[[tuple[str, str]], bool]

_COLOCATION = "_class"


def automatic_sharding(
    num_shards: int,
    input_ts: Any,
    loss_ts: Any,
    edge_filter: EdgeFilter | None = None,
    frozen_inference: bool = False,
) -> None:
    """Distributes the ops between an input and a loss over IPUs.

    The ops, in the order they were made, are cut into contiguous shards that need about equal
    memory. An op costs the bytes of its results, which are kept for the backward pass, and of the
    variables that it is the first to use. Among splits whose largest shard is within 20 % of the
    smallest possible, the split with the fewest bytes to copy is taken. Ops that use the same
    variable or are colocated stay together, and a loop or conditional is one op. Other ops that the
    path from input to loss needs (constants, reads of variables) go to their first user. Unknown
    dimensions count as 1.

    Earlier shards of these ops are replaced. Gradient ops follow their forward op, whether they
    exist already or are made later. Nothing but attributes changes, so results stay the same.

    If the ops cannot be cut into `num_shards` shards, there are fewer, with a warning.

    Args:
        num_shards: number of shards.
        input_ts: tensor (or structure of tensors) closest to the data.
        loss_ts: tensor (or structure of tensors) closest to the loss.
        edge_filter: called with the names of the two ops of an edge, source first. Returns True for
            an edge that must not go from one shard to another.
        frozen_inference: the weights are constants and there is no backward pass: the constants and
            variables alone are the cost.

    Raises:
        ValueError: If `num_shards` is not an int >= 1, the tensors are not of one graph, or a loss
            does not depend on the input.
        TypeError: If an argument is no tensor of a graph, or the filter is no function.
    """
    if isinstance(num_shards, bool) or not isinstance(num_shards, int) or num_shards < 1:
        raise ValueError(f"num_shards must be an int >= 1. Received: num_shards={num_shards!r}")
    if edge_filter is not None and not callable(edge_filter):
        raise TypeError(
            "edge_filter must be a function of a pair of op names, or None. Received: "
            f"edge_filter={edge_filter!r}"
        )
    inputs, losses = _tensors("input_ts", input_ts), _tensors("loss_ts", loss_ts)
    graphs = {tensor.graph for tensor in (*inputs, *losses)}
    if len(graphs) != 1:
        raise ValueError(
            f"Expected input_ts and loss_ts in one graph. Received: tensors of {len(graphs)} "
            "graphs. Call automatic_sharding in the function that computes the loss."
        )
    forward = _Forward(inputs, losses)
    shards = linear_partition.partition(
        forward.costs(frozen_inference), forward.cuts(edge_filter), num_shards
    )
    made = max(shards, default=0) + 1
    if made < num_shards:
        warn_once(
            "automatic_sharding: %d shards were asked for, but the ops from %s to %s can be cut "
            "into %d only.",
            *(num_shards, inputs[0].name, losses[0].name, made),
        )
    attributes = [sharding_attribute([shard]) for shard in range(made)]
    for operation, position in forward.positions.items():
        operation._set_attr(SHARDING_ATTRIBUTE, attributes[shards[position]])
    _move_gradients(losses[0].graph, forward.positions)
    gradient_hooks.follow_shards()


class _Forward:
    """The ops that a loss needs, in the order in which they are cut.

    Args:
        inputs: start of the path.
        losses: end of the path.

    Attributes:
        positions: Index of each op. Ops on the path have one each, in order of creation; other ops
            share their first user's.
    """

    def __init__(
        self, inputs: Sequence[tensor_lib.Tensor], losses: Sequence[tensor_lib.Tensor]
    ) -> None:
        order = {op: index for index, op in enumerate(losses[0].graph.get_operations())}
        needed = sorted(sharding.dependencies(losses), key=order.__getitem__)
        path = _descendants(inputs, set(needed))
        for loss in losses:
            if loss.op not in path:
                raise ValueError(
                    f"Expected a loss that depends on the input. Received: loss_ts {loss.name!r}, "
                    f"which nothing leads to from {[tensor.name for tensor in inputs]}."
                )
        # The arguments of a function are no ops of its program.
        needed = [op for op in needed if op.type not in ("Placeholder", "PlaceholderWithDefault")]
        on_path = [op for op in needed if op in path]
        self.positions = {op: position for position, op in enumerate(on_path)}
        self._length = len(on_path)
        for op in reversed(needed):
            if op not in self.positions:
                users = [self.positions[user] for user in _users(op) if user in self.positions]
                self.positions[op] = min(users, default=0)

    def costs(self, frozen: bool) -> list[int]:
        """Returns the bytes of each position."""
        costs = [0] * self._length
        charged: set[str] = set()
        for op, position in sorted(self.positions.items(), key=lambda item: item[1]):
            for handle in _handles(op):
                if handle.name not in charged:
                    charged.add(handle.name)
                    held = function_graphs.binding_of(handle)
                    costs[position] += _bytes(held.dtype, held.shape)
            counts = op.type == "Const" if frozen else op.type != "ReadVariableOp"
            if counts:
                costs[position] += sum(map(_tensor_bytes, op.outputs))
        return costs

    def cuts(self, edge_filter: EdgeFilter | None) -> list[int | None]:
        """Returns the bytes that cross behind each position but the last, None where forbidden."""
        crossing, forbidden = [0] * (self._length + 1), [0] * (self._length + 1)
        for op, begin in self.positions.items():
            for tensor in op.outputs:
                size = 0 if op.type == "Const" else _tensor_bytes(tensor)
                users = [user for user in tensor.consumers() if user in self.positions]
                last = max((self.positions[user] for user in users), default=begin)
                _add(crossing, begin, last, size)
                for user in users if edge_filter is not None else ():
                    if edge_filter is not None and edge_filter((op.name, user.name)):
                        _add(forbidden, begin, self.positions[user], 1)
        for together in self._groups():
            _add(forbidden, min(together), max(together), 1)
        sums = zip(itertools.accumulate(crossing), itertools.accumulate(forbidden))
        return [None if never else size for size, never in sums][: max(self._length - 1, 0)]

    def _groups(self) -> Iterable[list[int]]:
        """Returns the positions of ops that have to stay together."""
        groups: dict[str | bytes, list[int]] = {}
        for op, position in self.positions.items():
            for handle in _handles(op):
                groups.setdefault(handle.name, []).append(position)
            if sharding.has_attr(op, _COLOCATION):
                for name in op.get_attr(_COLOCATION):
                    groups.setdefault(name, []).append(position)
            groups.setdefault(b"loc:@" + op.name.encode(), []).append(position)
        return groups.values()


def _descendants(
    inputs: Sequence[tensor_lib.Tensor], among: set[ops.Operation]
) -> set[ops.Operation]:
    """Returns the ops of the inputs, and the ops among `among` that depend on them."""
    pending = [user for tensor in inputs for user in tensor.consumers()]
    found = {tensor.op for tensor in inputs}
    while pending:
        op = pending.pop()
        if op in among and op not in found:
            found.add(op)
            pending.extend(user for tensor in op.outputs for user in tensor.consumers())
    return found


def _users(op: ops.Operation) -> list[ops.Operation]:
    """Returns the ops that wait for an op."""
    users = [user for tensor in op.outputs for user in tensor.consumers()]
    return users + list(op._control_outputs)


def _handles(op: ops.Operation) -> list[tensor_lib.Tensor]:
    """Returns the handles of variables among the inputs of an op."""
    return [tensor for tensor in op.inputs if tensor.dtype == dtypes.resource]


def _add(differences: list[int], begin: int, end: int, value: int) -> None:
    """Adds a value to the running sum of `differences` from `begin` up to, not with, `end`."""
    if begin < end:
        differences[begin] += value
        differences[end] -= value


def _tensor_bytes(tensor: tensor_lib.Tensor) -> int:
    """Returns the size of a tensor, 0 for a handle."""
    return _bytes(tensor.dtype, function_graphs.dimensions(tensor.shape))


def _bytes(dtype: dtypes.DType, shape: Sequence[int | None] | None) -> int:
    """Returns the size of a tensor with unknown dimensions taken as 1."""
    if dtype in (dtypes.resource, dtypes.variant, dtypes.string):
        return 0
    size = dtype.size
    for dimension in shape or ():
        size *= 1 if dimension is None else dimension
    return size


def _move_gradients(graph: ops.Graph, forward: dict[ops.Operation, int]) -> None:
    """Moves existing gradient ops to the shard of their forward op."""
    for op in graph.get_operations():
        # Ops made by `tf.gradients` record their forward op.
        if op not in forward and op._original_op in forward:
            sharding_bytes = op._original_op.get_attr(SHARDING_ATTRIBUTE)
            op._set_attr(SHARDING_ATTRIBUTE, attr_value_pb2.AttrValue(s=sharding_bytes))


def _tensors(name: str, value: Any) -> list[tensor_lib.Tensor]:
    """Returns the tensors of a structure."""
    tensors = nest.flatten(value)
    if not tensors or not all(ops.is_symbolic_tensor(tensor) for tensor in tensors):
        raise TypeError(
            f"{name} must be a tensor of a graph, or a structure of such. Received: "
            f"{name}={value!r}. Call automatic_sharding while the IPU program is being built."
        )
    return tensors
