"""Shards of graph ops, read and copied to gradients: the public module `ipu.sharding`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.compiler.hooks import gradient_hooks, tensorflow_hooks
from tensorflow_ipu.compiler.ir.program import SHARDING_ATTRIBUTE

_COLOCATION = "_class"
_LOCATION = b"loc:@"


def dependencies(roots: Iterable[ops.Operation | tensor_lib.Tensor]) -> list[ops.Operation]:
    """Returns ops and all their predecessors.

    Control dependencies count as inputs. Functional loops, conditionals and calls are single ops.

    Args:
        roots: ops to start from, or their tensors.

    Returns:
        The roots and their ancestors, each once, nearest first.

    Raises:
        TypeError: If a root is neither an op nor a tensor of a graph.
    """
    pending = [_operation(root) for root in roots]
    found: dict[ops.Operation, None] = {}
    for operation in pending:  # grows
        if operation in found:
            continue
        found[operation] = None
        pending.extend(tensor.op for tensor in operation.inputs)
        pending.extend(operation.control_inputs)
    return list(found)


def has_attr(o: ops.Operation, attr_name: str) -> bool:
    """Returns whether an op has an attribute.

    Args:
        o: the op.
        attr_name: name of the attribute.

    Returns:
        Whether it has.
    """
    try:
        o.get_attr(attr_name)
    except ValueError:
        return False
    return True


def get_sharding(op: ops.Operation) -> list[int] | None:
    """Returns the shard of an op.

    Args:
        op: the op.

    Returns:
        Indices of its IPUs: `[1]` for an op made in `ipu_shard(1)`. None if it has no shard.
    """
    sharding = _attribute(op, SHARDING_ATTRIBUTE)
    return None if sharding is None else _devices(sharding)


def enable_sharded_gradient_tape() -> None:
    """Makes the ops of a `tf.GradientTape` take the shards of their forward ops.

    `ipu_shard` does so by itself, so a program need not call this.
    """
    tensorflow_hooks.install()
    gradient_hooks.follow_shards()


def get_shard_from_colocation(op: ops.Operation) -> int | None:
    """Finds the shard of an op through the ops that it is colocated with.

    The op that a colocation group is named after comes first, then the other ops of its group.

    Args:
        op: the op; its own shard is ignored.

    Returns:
        Index of the IPU (the first one if there are several), or None when nothing tells.
    """
    sharding = _Groups(op.graph).sharding_of(op)
    if sharding is None:
        return None
    devices = _devices(sharding)
    return devices[0] if devices else None


def _devices(sharding: bytes) -> list[int]:
    return list(xla_data_pb2.OpSharding.FromString(sharding).tile_assignment_devices)


def propagate_sharding(g: ops.Graph) -> None:
    """Copies the shards of forward ops onto the gradient ops that are colocated with them.

    Colocation comes from `colocate_gradients_with_ops=True`. Ops that have a shard keep it, and
    ops that are colocated with none get none.

    Args:
        g: the graph, which may be a function's being traced.
    """
    groups = _Groups(g)
    for operation in g.get_operations():
        if has_attr(operation, SHARDING_ATTRIBUTE):
            continue
        sharding = groups.sharding_of(operation)
        if sharding is not None:
            operation._set_attr(SHARDING_ATTRIBUTE, attr_value_pb2.AttrValue(s=sharding))


class _Groups:
    """The shards of a graph's colocation groups at the time of construction."""

    def __init__(self, graph: ops.Graph) -> None:
        self._members: dict[bytes, list[tuple[ops.Operation, bytes]]] = {}
        self._named: dict[bytes, bytes] = {}
        for operation in graph.get_operations():
            sharding = _attribute(operation, SHARDING_ATTRIBUTE)
            if sharding is None:
                continue
            self._named[_LOCATION + operation.name.encode()] = sharding
            for group in _groups(operation):
                self._members.setdefault(group, []).append((operation, sharding))

    def sharding_of(self, operation: ops.Operation) -> bytes | None:
        """Returns the sharding of the first colocated op that has one."""
        own = _LOCATION + operation.name.encode()
        groups = [group for group in _groups(operation) if group != own]
        for group in groups:
            if group in self._named:
                return self._named[group]
        for group in (*groups, own):
            for member, sharding in self._members.get(group, ()):
                if member is not operation:
                    return sharding
        return None


def _groups(operation: ops.Operation) -> list[bytes]:
    """Returns the colocation groups of an op, without the group of its own name."""
    groups = _attribute(operation, _COLOCATION) or []
    return [group for group in groups if group.startswith(_LOCATION)]


def _attribute(operation: ops.Operation, name: str) -> Any:
    """Returns an attribute of an op, or None."""
    try:
        return operation.get_attr(name)
    except ValueError:
        return None


def _operation(root: ops.Operation | tensor_lib.Tensor) -> ops.Operation:
    """Returns the op of a root."""
    if isinstance(root, ops.Operation):
        return root
    if ops.is_symbolic_tensor(root):
        return root.op
    raise TypeError(
        "Expected the roots to be operations, or tensors of a graph. Received: "
        f"{root!r} of type {type(root).__name__}. Eager tensors come from no graph."
    )
