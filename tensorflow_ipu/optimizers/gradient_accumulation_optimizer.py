"""One update for several mini-batches: the public module `ipu.gradient_accumulation_optimizer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.training import gradient_descent, momentum
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.api.accumulators import AccumulatorDtype, accumulator_dtype
from tensorflow_ipu.api.gradient_accumulation import (
    MINI_BATCHES,
    GradientAccumulationReductionMethod,
    MiniBatches,
)
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.checks import accumulation
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.optimizers import ipu_optimizer
from tensorflow_ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from tensorflow_ipu.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.util.short_repr import shows

__all__ = [
    "CrossReplicaGradientAccumulationOptimizer",
    "CrossReplicaGradientAccumulationOptimizerV2",
    "GradientAccumulationOptimizer",
    "GradientAccumulationOptimizerV2",
]

# --- Base ---


class _AccumulatingOptimizer(ipu_optimizer.IpuOptimizer):
    """Wrapper that accumulates gradients of mini-batches for the wrapped optimizer.

    Use it in the body of a loop on the device. Accumulators belong to the run of the program: they
    are not among the variables of TensorFlow, and each run starts with zeros.
    """

    def __init__(
        self,
        opt: optimizer_lib.Optimizer,
        num_mini_batches: int,
        memory: Mapping[str, bool | None],
        dtype: AccumulatorDtype,
        reduction_method: GradientAccumulationReductionMethod,
        name: str,
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: the optimizer.
            num_mini_batches: Mini-batches for one update.
            memory: where variables are kept: see `compiler.memory_options.check_options`.
            dtype: type of the accumulators: see `accumulators.accumulator_dtype`.
            reduction_method: how the gradients of mini-batches become one.
            name: name of this optimizer.

        Raises:
            TypeError: If `num_mini_batches` is not an int.
            ValueError: If it is less than 1.
        """
        super().__init__(opt, name)
        self._num_mini_batches = _checked_count(num_mini_batches)
        self._memory = dict(memory)
        self._dtype = dtype
        self._reduction_method = reduction_method

    __repr__ = shows(
        lambda self: {
            "": ipu_optimizer.wrapped(self._opt),
            "num_mini_batches": self._num_mini_batches,
            "reduction_method": self._reduction_method,
            "dtype": self._dtype,
        }
    )

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[tensor_lib.Tensor | None, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> ops.Operation:
        """Accumulates gradients, and after the last mini-batch updates variables.

        Args:
            grads_and_vars: pairs as `compute_gradients` returns them. Sparse gradients are made
                dense.
            global_step: variable to add one to after each update.
            name: name of the returned operation.

        Returns:
            The operation that does all that, to run with each mini-batch.

        Raises:
            tf.errors.FailedPreconditionError: If this runs eagerly, so that there is no loop.
            ValueError: If there is no pair with a gradient.
        """
        description = self._description()
        if self._num_mini_batches > 1 and context.executing_eagerly():
            raise errors.FailedPreconditionError(None, None, accumulation.outside_loop(description))
        prefix = name or self._name
        batches = MiniBatches(self._num_mini_batches, ACCUMULATION_ATTRIBUTE, description, prefix)
        totals = [
            (self._accumulate(batches, gradient, variable, f"{prefix}/accumulator"), variable)
            for gradient, variable in grads_and_vars
        ]

        def update() -> list[ops.Operation]:
            pairs = [(total and total.value(), variable) for total, variable in totals]
            step = self._opt.apply_gradients(pairs, global_step=global_step, name=name)
            return [step.op if ops.is_symbolic_tensor(step) else step]

        return batches.then_update(update)

    def _accumulate(self, batches: MiniBatches, gradient: Any, variable: Any, name: str) -> Any:
        """Accumulates one gradient; does nothing for None."""
        if gradient is None:
            return None
        gradient = ipu_optimizer.dense(gradient, variable)
        dtype = accumulator_dtype(self._dtype, variable)
        return batches.accumulate(gradient, dtype, self._reduction_method, name)

    def _description(self) -> dict[str, Any]:
        """Returns the facts for the compiler, as data for JSON."""
        return {
            "optimizer": type(self).__name__,
            "name": self._name,
            "num_mini_batches": self._num_mini_batches,
            "reduction_method": self._reduction_method.name,
            "wrapped_by": self._wrapped_by,
            "memory": self._memory,
        }


def _checked_count(num_mini_batches: Any) -> int:
    if isinstance(num_mini_batches, bool) or not isinstance(num_mini_batches, (int, np.integer)):
        raise TypeError(
            "num_mini_batches must be an int that is known when the program is built. Received: "
            f"{num_mini_batches!r}"
        )
    return MINI_BATCHES.whole("num_mini_batches", num_mini_batches)


# --- Optimizers ---

_Method = Union[GradientAccumulationReductionMethod, str]


class GradientAccumulationOptimizerV2(_AccumulatingOptimizer):
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
        pipeline_plan.check_options(memory)
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


class GradientAccumulationOptimizer(_AccumulatingOptimizer):
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
