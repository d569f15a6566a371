"""An optimizer for sharded models: the public module `ipu.sharded_optimizer`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.api import sharding
from tensorflow_ipu.compiler.hooks import gradient_hooks
from tensorflow_ipu.compiler.ir.program import SHARDING_ATTRIBUTE
from tensorflow_ipu.optimizers import ipu_optimizer


class ShardedOptimizer(ipu_optimizer.IpuOptimizer):
    """Wrapper that places gradients and updates on the IPUs of the forward pass.

    Values do not change. A gradient op is on the IPU of its forward op, and an update on the IPU
    that uses its variable. The compiler places ops that depend on no forward op, such as a decaying
    learning rate.
    """

    def __init__(self, optimizer: optimizer_lib.Optimizer) -> None:
        """Wraps an optimizer.

        Args:
            optimizer: the optimizer.
        """
        super().__init__(optimizer, name="ShardedOptimizer")

    def compute_gradients(
        self, loss: Any, var_list: Sequence[Any] | None = None, **kwargs: Any
    ) -> list[tuple[tensor_lib.Tensor | None, Any]]:
        """Computes the gradients of a loss, each op of them on the IPU of its forward op.

        Args:
            loss: the tensor to minimize.
            var_list: variables to differentiate by; by default all trainable ones of the graph.
            **kwargs: for the wrapped optimizer's `compute_gradients`. The argument
                `colocate_gradients_with_ops` is always True.

        Returns:
            Pairs of gradient and variable.
        """
        gradient_hooks.follow_shards()
        kwargs["colocate_gradients_with_ops"] = True
        gradients = super().compute_gradients(loss, var_list=var_list, **kwargs)
        sharding.propagate_sharding(ops.get_default_graph())
        return gradients

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[tensor_lib.Tensor | None, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> ops.Operation:
        """Updates variables, each on the IPU that uses it.

        Args:
            grads_and_vars: pairs as `compute_gradients` returns them.
            global_step: variable to add one to afterwards.
            name: name of the returned operation.

        Returns:
            The operation that does all that.

        Raises:
            ValueError: If there is no pair with a gradient.
        """
        graph = ops.get_default_graph()
        before = len(graph.get_operations())
        homes = _homes(graph)
        update = super().apply_gradients(grads_and_vars, global_step=global_step, name=name)
        for operation in graph.get_operations()[before:]:
            _place(operation, homes)
        return update


def _homes(graph: ops.Graph) -> dict[str, bytes]:
    """Returns the sharding of the first user of each variable, by the name of its handle."""
    found: dict[str, bytes] = {}
    for operation in graph.get_operations():
        if sharding.has_attr(operation, SHARDING_ATTRIBUTE):
            for tensor in operation.inputs:
                if tensor.dtype == dtypes.resource:
                    found.setdefault(tensor.name, operation.get_attr(SHARDING_ATTRIBUTE))
    return found


def _place(operation: ops.Operation, homes: dict[str, bytes]) -> None:
    """Places an op of the update beside its variable, else beside its first placed input."""
    if sharding.has_attr(operation, SHARDING_ATTRIBUTE):
        return
    found = [homes[tensor.name] for tensor in operation.inputs if tensor.name in homes]
    found += [
        tensor.op.get_attr(SHARDING_ATTRIBUTE)
        for tensor in operation.inputs
        if sharding.has_attr(tensor.op, SHARDING_ATTRIBUTE)
    ]
    if found:
        operation._set_attr(SHARDING_ATTRIBUTE, attr_value_pb2.AttrValue(s=found[0]))
