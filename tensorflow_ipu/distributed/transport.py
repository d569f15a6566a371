"""Transfers between instances: the only module in which processes exchange data.

With one instance nothing does. All functions take an eager or symbolic tensor, and return one on
the CPU; in a program for the IPU they are operations that the host runs in the middle of it.
"""

from __future__ import annotations

import contextlib

from tensorflow.python.framework import dtypes, func_graph, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, math_ops

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.runtime import native

# Types that are added up as another, in which sums of theirs have the same low bits.
_ADDED_AS = {
    dtypes.int16: dtypes.int32,
    dtypes.uint16: dtypes.int32,
    dtypes.uint64: dtypes.int64,
}


def count() -> int:
    """Returns the number of instances that this process has joined, itself included."""
    return joining.current().count


def total(value: tensor_lib.Tensor, name: str | None = None) -> tensor_lib.Tensor:
    """Returns the sum of the values of all instances, added in the order of the instances.

    Args:
        value: the value of this one.
        name: name that the instances find each other by.
    """
    dtype = value.dtype.base_dtype
    with on_host():
        if count() == 1:
            return array_ops.identity(value, name=name)
        meeting = _meeting(value, name)
        if dtype == dtypes.float64:
            rows = _unordered(native.ops().ipu_instance_gather(value[None], meeting=meeting))
            return math_ops.add_n(array_ops.unstack(rows, num=count()))
        added = math_ops.cast(value, _ADDED_AS.get(dtype, dtype))
        summed = native.ops().ipu_instance_sum(added, given=dtype, meeting=meeting)
        return math_ops.cast(_unordered(summed), dtype)


def from_instance(
    value: tensor_lib.Tensor, index: int, name: str | None = None
) -> tensor_lib.Tensor:
    """Returns the value of one instance.

    Args:
        value: the value of this one.
        index: which instance.
        name: name that the instances find each other by.
    """
    with on_host():
        if count() == 1:
            return array_ops.identity(value, name=name)
        meeting = _meeting(value, name)
        return _unordered(native.ops().ipu_instance_broadcast(value, root=index, meeting=meeting))


def joined(value: tensor_lib.Tensor, name: str | None = None) -> tensor_lib.Tensor:
    """Returns the values of all instances, joined along dimension 0 in the order of the instances.

    Args:
        value: the value of this one, of rank 1 or more.
        name: name that the instances find each other by.
    """
    with on_host():
        if count() == 1:
            return array_ops.identity(value, name=name)
        return _unordered(native.ops().ipu_instance_gather(value, meeting=_meeting(value, name)))


def name_of(value: tensor_lib.Tensor) -> str | None:
    """Returns the name of a tensor, in the form of an op's name; None for an eager tensor.

    Args:
        value: the tensor.
    """
    if isinstance(value, ops.EagerTensor):
        return None
    name: str = value.op.name
    return name if value.value_index == 0 else f"{name}_{value.value_index}"


def _meeting(value: tensor_lib.Tensor, name: str | None) -> str:
    """Returns the name of a collective, unique in its graph.

    In a graph it is made from the tensor's name. Eager tensors have none: they meet in order.
    """
    found = name or name_of(value)
    if found is None or isinstance(value, ops.EagerTensor):
        return found or "eager"
    unique: str = ops.get_default_graph().unique_name(found, mark_as_used=True)
    return unique


def _unordered(result: tensor_lib.Tensor) -> tensor_lib.Tensor:
    """Makes a collective of a `tf.function` independent of its other stateful ops.

    Instances may trace their collectives in another order, and would wait for each other.

    Args:
        result: output of the collective.

    Returns:
        The same.
    """
    if not isinstance(result, ops.EagerTensor) and not trace.in_cluster():
        manager = result.graph.experimental_acd_manager
        if manager is not None:
            manager.run_independently(result.op)
    return result


def on_host() -> contextlib.AbstractContextManager[None]:
    """Returns a scope for operations on the host, in the middle of a program if one is traced."""
    # Initial values of variables are computed around the program that is being traced.
    in_program = isinstance(ops.get_default_graph(), func_graph.FuncGraph)
    if not trace.in_cluster() or (count() > 1 and not in_program):
        return scopes.host_scope()
    if count() == 1 or scopes.is_outside_compilation():
        return contextlib.nullcontext()
    return scopes.outside_compilation_scope("instances")
