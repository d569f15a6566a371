"""One update for several mini-batches: the public module `ipu.gradient_accumulation_optimizer`."""

from __future__ import annotations

from typing import Union

from tensorflow.python.training import gradient_descent, momentum
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.compiler.analysis import memory_options
from tensorflow_ipu.optimizers.accumulating_optimizer import AccumulatingOptimizer
from tensorflow_ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from tensorflow_ipu.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.training.accumulators import AccumulatorDtype

_Method = Union[GradientAccumulationReductionMethod, str]


class GradientAccumulationOptimizerV2(AccumulatingOptimizer):
    """Sums gradients over mini-batches before the wrapped optimizer applies them.

    It has to be used in a training loop on the device, whose number of iterations is a multiple of
    `num_mini_batches`, and must be the outermost optimizer.
    """

    def __init__(
        self,
        opt: optimizer_lib.Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: AccumulatorDtype = None,
        name: str = "GradientAccumulationOptimizerV2",
        reduction_method: _Method = GradientAccumulationReductionMethod.SUM,
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: the optimizer.
            num_mini_batches: Mini-batches for one update. With 1 each mini-batch is an update.
            offload_weight_update_variables: whether variables that only the update uses, such as
                momentum, are in remote memory. None for "if it exists". Results do not change.
            replicated_optimizer_state_sharding: whether such variables in remote memory are split
                over the replicas. None for the same as `offload_weight_update_variables`.
            dtype: type of the accumulators and of the gradients that `opt` gets: None for the
                variable's type, a type, or a function from variable to type.
            name: name of this optimizer.
            reduction_method: how the gradients of mini-batches become one: a
                `GradientAccumulationReductionMethod` or its name.

        Raises:
            TypeError: If `opt` is not a `tf.compat.v1.train.Optimizer`, or `num_mini_batches` is
                not an int.
            ValueError: If `num_mini_batches` is less than 1, variables are to be split but not
                offloaded, or there is no such `reduction_method`.
        """
        memory = {
            "offload_weight_update_variables": offload_weight_update_variables,
            "replicated_optimizer_state_sharding": replicated_optimizer_state_sharding,
        }
        memory_options.check_options(memory)
        method = GradientAccumulationReductionMethod.parse(reduction_method)
        super().__init__(opt, num_mini_batches, memory, dtype, method, name)


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """Sums gradients over mini-batches, averages them over replicas, then applies them.

    Replicas meet once for each update, not once for each mini-batch.
    """

    def __init__(
        self,
        opt: optimizer_lib.Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: AccumulatorDtype = None,
        name: str = "CrossReplicaGradientAccumulationOptimizerV2",
        reduction_method: _Method = GradientAccumulationReductionMethod.SUM,
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: the optimizer.
            num_mini_batches: see `GradientAccumulationOptimizerV2`, as for all others.
            offload_weight_update_variables: see there.
            replicated_optimizer_state_sharding: see there.
            dtype: see there. Replicas exchange gradients of this type.
            name: name of this optimizer.
            reduction_method: see there.

        Raises:
            TypeError: See there.
            ValueError: See there.
        """
        super().__init__(
            CrossReplicaOptimizer(opt),
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            name,
            reduction_method,
        )


class GradientAccumulationOptimizer(AccumulatingOptimizer):
    """Sums gradients over mini-batches, for gradient descent with or without momentum.

    `GradientAccumulationOptimizerV2` works with every optimizer.
    """

    def __init__(
        self,
        opt: optimizer_lib.Optimizer,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: a `GradientDescentOptimizer` or `MomentumOptimizer` of TensorFlow 1.
            num_mini_batches: Mini-batches for one update.
            verify_usage: whether to refuse other optimizers.
            name: name of this optimizer.

        Raises:
            TypeError: If `opt` is not a `tf.compat.v1.train.Optimizer`, or `num_mini_batches` is
                not an int.
            ValueError: If `num_mini_batches` is less than 1, or `opt` is refused.
        """
        if verify_usage:
            _verify_usage(opt, type(self).__name__)
        # Its momentum stays where the accumulators are: in the original it is the same memory.
        memory = {"offload_weight_update_variables": False}
        method = GradientAccumulationReductionMethod.SUM
        super().__init__(opt, num_mini_batches, memory, None, method, name)


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """Like `GradientAccumulationOptimizer`, with a mean over replicas at each update."""

    def __init__(
        self,
        opt: optimizer_lib.Optimizer,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: see `GradientAccumulationOptimizer`, as for all others.
            num_mini_batches: see there.
            verify_usage: see there.
            name: name of this optimizer.

        Raises:
            TypeError: See there.
            ValueError: See there.
        """
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, verify_usage, name)


def _verify_usage(opt: optimizer_lib.Optimizer, name: str) -> None:
    """Raises for optimizers that the first generation does not support, also inside wrappers."""
    while isinstance(opt, IpuOptimizer):
        opt = opt._opt
    supported = (gradient_descent.GradientDescentOptimizer, momentum.MomentumOptimizer)
    if isinstance(opt, optimizer_lib.Optimizer) and not isinstance(opt, supported):
        raise ValueError(
            f"{name} supports GradientDescentOptimizer and MomentumOptimizer only. Received: a "
            f"{type(opt).__name__}. Use {name}V2, or pass verify_usage=False."
        )
