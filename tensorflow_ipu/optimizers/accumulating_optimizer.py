"""Base of both generations of gradient-accumulation optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.api.gradient_accumulation import (
    MINI_BATCHES,
    GradientAccumulationReductionMethod,
    MiniBatches,
)
from tensorflow_ipu.compiler.checks import accumulation
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.optimizers import ipu_optimizer
from tensorflow_ipu.training.accumulators import AccumulatorDtype, accumulator_dtype
from tensorflow_ipu.util.short_repr import shows


class AccumulatingOptimizer(ipu_optimizer.IpuOptimizer):
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
