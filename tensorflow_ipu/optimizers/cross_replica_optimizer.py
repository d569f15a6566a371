"""An optimizer that sums over replicas: the public module `ipu.cross_replica_optimizer`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.ops import cross_replica_ops
from tensorflow_ipu.optimizers import ipu_optimizer


class CrossReplicaOptimizer(ipu_optimizer.IpuOptimizer):
    """Wrapper that averages gradients over the replicas of the program.

    All replicas do the same step, so their variables stay equal.
    """

    def __init__(self, opt: optimizer_lib.Optimizer, name: str = "CrossReplicaOptimizer") -> None:
        """Wraps an optimizer.

        Args:
            opt: the optimizer.
            name: name of this one.
        """
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[tensor_lib.Tensor | None, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> ops.Operation:
        """Averages gradients over replicas, then updates variables.

        Args:
            grads_and_vars: pairs as `compute_gradients` returns them. Sparse gradients are made
                dense.
            global_step: variable to add one to afterwards.
            name: name of the returned operation.

        Returns:
            The operation that does all that.

        Raises:
            ValueError: If there is no pair with a gradient.
        """
        averaged = [
            (
                None
                if gradient is None
                else cross_replica_ops.cross_replica_mean(ipu_optimizer.dense(gradient, variable)),
                variable,
            )
            for gradient, variable in grads_and_vars
        ]
        # In a function of an IPUStrategy the wrapped optimizer would sum them over replicas too.
        with current_scope.without_reductions():
            return super().apply_gradients(averaged, global_step=global_step, name=name)
