"""A Keras optimizer that averages gradients over replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensorflow_ipu.compiler import strategy_scope, trace
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import cross_replica_ops


@registered
class CrossReplicaOptimizer(IpuOptimizer):
    """Averages gradients over the replicas of the program before they are applied.

    Keras's own optimizers add them up. All replicas do the same step, so their variables stay
    equal.
    """

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        """Wraps an optimizer.

        Args:
            opt: a Keras optimizer.
            name: name of this one.
        """
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        *args: Any,
        captured_grads: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Averages gradients over replicas, then updates variables.

        Args:
            grads_and_vars: pairs of gradient and variable. With several replicas sparse gradients
                are made dense.
            *args: further arguments of the wrapped optimizer's `apply_gradients`.
            captured_grads: see `IpuOptimizer.apply_gradients`.
            **kwargs: further arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
            What the wrapped optimizer returns.
        """
        pairs = [(_mean(gradient), variable) for gradient, variable in grads_and_vars]
        # The wrapped optimizer asks the strategy for a sum.
        with strategy_scope.without_reductions():
            return super().apply_gradients(pairs, *args, captured_grads=captured_grads, **kwargs)


def _mean(gradient: Any) -> Any:
    if gradient is None or not trace.in_cluster():
        return gradient
    return cross_replica_ops.cross_replica_mean(gradient)
