"""Gradient accumulation: loops of mini-batches, and Keras optimizers with one update for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.accumulators import AccumulatorDtype, accumulator_dtype
from tensorflow_ipu.api.gradient_accumulation import (
    MINI_BATCHES,
    GradientAccumulationReductionMethod,
    MiniBatches,
)
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.checks import accumulation as accumulation_check
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer, wrapped
from tensorflow_ipu.keras_layers.optimizers.loss_scaling import ALSOptimizer
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import optimizer_steps
from tensorflow_ipu.util.short_repr import shows

# --- Loops ---


def apply_accumulated(
    optimizer: Any,
    grads_and_vars: Sequence[tuple[Any, tf.Variable]],
    count: int,
    method: GradientAccumulationReductionMethod,
    memory: Mapping[str, bool | None] | None = None,
    dtype: AccumulatorDtype = None,
    name: str = "GradientAccumulation",
    captured_grads: Mapping[str, Any] | None = None,
    **apply_arguments: Any,
) -> tf.Operation:
    """Accumulates gradients, and lets an optimizer apply them after the last mini-batch.

    Args:
        optimizer: a Keras optimizer, of either generation, or one of TensorFlow 1 as Keras wraps
            it.
        grads_and_vars: gradients of a mini-batch and their variables.
        count: Mini-batches for one update.
        method: how the gradients of mini-batches become one.
        memory: where variables are kept: see `compiler.memory_options.check_options`.
        dtype: type of the accumulators: see `accumulators.accumulator_dtype`.
        name: name for the operations.
        captured_grads: captured gradients by tag: tensors or structures of tensors. They are
            accumulated likewise, if the optimizer takes them.
        **apply_arguments: further arguments of `optimizer.apply_gradients`.

    Returns:
        The operation to run with every mini-batch.
    """
    pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
    make_variables(optimizer, [variable for _, variable in pairs])
    pipeline_plan.check_options(dict(memory or {}))
    description = {
        "optimizer": type(optimizer).__name__,
        "name": name,
        "num_mini_batches": count,
        "reduction_method": method.name,
        "wrapped_by": None,
        "memory": dict(memory or {}),
    }
    batches = MiniBatches(count, ACCUMULATION_ATTRIBUTE, description, name)
    totals = [
        (
            batches.accumulate(
                gradient, accumulator_dtype(dtype, variable), method, f"{name}/accumulator"
            ),
            variable,
        )
        for gradient, variable in pairs
    ]
    takes_captured = optimizer_steps.takes_captured_gradients(optimizer)
    captured = tf.nest.map_structure(
        lambda gradient: batches.accumulate(
            gradient, accumulator_dtype(dtype, gradient), method, f"{name}/captured"
        ),
        dict(captured_grads or {}) if takes_captured else {},
    )

    def update() -> list[tf.Operation]:
        values = [(tf.cast(total.value(), variable.dtype), variable) for total, variable in totals]
        found = tf.nest.map_structure(lambda total: total.value(), captured)
        done = optimizer_steps.apply_gradients(optimizer, values, found, **apply_arguments)
        return [] if done is None else [done.op if tf.is_tensor(done) else done]

    return batches.then_update(update)


def make_variables(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Makes the variables of an optimizer outside of the trace.

    An optimizer makes them when it first applies gradients, which may be inside a conditional.

    Args:
        optimizer: a Keras optimizer, of either generation, or one of TensorFlow 1 as Keras wraps
            it.
        variables: the variables to train.
    """
    if optimizer_steps.native_optimizer(optimizer) is not None:
        return  # makes them outside itself
    with tf.init_scope():
        if hasattr(optimizer, "_create_all_weights"):
            optimizer._create_all_weights(variables)
        else:
            optimizer.build(variables)


def minimize_accumulated(
    optimizer: Any,
    loss: tf.Tensor,
    variables: Sequence[tf.Variable],
    tape: tf.GradientTape,
    count: int,
    method: GradientAccumulationReductionMethod,
    dtype: AccumulatorDtype = None,
    name: str = "GradientAccumulation",
    **memory: bool | None,
) -> tf.Operation:
    """Minimizes the loss of several mini-batches with one update.

    Args:
        optimizer: a Keras optimizer, of either generation, or one of TensorFlow 1 as Keras wraps
            it.
        loss: the loss of a mini-batch, a scalar.
        variables: the variables to train.
        tape: has recorded the loss.
        count: Mini-batches for one update.
        method: how the gradients of mini-batches become one.
        dtype: type of the accumulators: see `accumulators.accumulator_dtype`.
        name: name for the operations.
        **memory: where variables are kept: see `compiler.memory_options.check_options`.

    Returns:
        The operation to run with every mini-batch.
    """
    gradients, captured = optimizer_steps.compute_captured_gradients(
        optimizer, loss, variables, tape
    )
    return apply_accumulated(
        optimizer, gradients, count, method, memory, dtype, name, captured_grads=captured
    )


# --- Optimizers ---


@registered
class GradientAccumulationOptimizer(IpuOptimizer):
    """Accumulates the gradients of mini-batches, then lets the wrapped optimizer apply them.

    It is for training loops of your own: call `minimize` or `apply_gradients` in the body of a loop
    on the device whose number of iterations is a multiple of `num_mini_batches`. For `fit` set it
    with `model.set_gradient_accumulation_options`. It must be the outermost optimizer. With one
    mini-batch the result is `opt` itself.
    """

    _is_outermost = True

    def __new__(
        cls, opt: Any = None, num_mini_batches: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Makes an optimizer, or returns the wrapped one if there is nothing to accumulate.

        Args:
            opt: a Keras optimizer.
            num_mini_batches: Mini-batches for one update.
            *args: other arguments of `__init__`.
            **kwargs: likewise.

        Raises:
            ValueError: If an argument is not allowed.
        """
        made = super().__new__(cls, opt)
        if cls._ipu_class is None:
            _check_count(num_mini_batches)
            if num_mini_batches == 1:
                return opt
        return made

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | str | None = None,
        replicated_optimizer_state_sharding: bool | str | None = False,
        dtype: AccumulatorDtype = None,
        name: str | None = None,
        reduction_method: GradientAccumulationReductionMethod | str = "sum",
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: a Keras optimizer.
            num_mini_batches: Mini-batches for one update.
            offload_weight_update_variables: whether variables that only the update uses, such as
                momentum, are in remote memory. None for "if it is there". Results stay the same.
                A string "THREESTATE_ON", "THREESTATE_OFF" or "THREESTATE_UNDEFINED", as
                `get_config` has them, stands for True, False or None.
            replicated_optimizer_state_sharding: whether such variables in remote memory are split
                over the replicas. None for the same as `offload_weight_update_variables`. The same
                strings are taken.
            dtype: type of the accumulators: None for the variable's type, a type, or a function
                from variable to type.
            name: name of this optimizer; by default its class's name.
            reduction_method: how the gradients of mini-batches become one: a
                `GradientAccumulationReductionMethod` or its name.

        Raises:
            TypeError: If one of the two that say where variables are is no such state.
            ValueError: If there is no such `reduction_method`, or variables are to be split but
                not offloaded.
        """
        super().__init__(opt, name)
        given = {
            "offload_weight_update_variables": offload_weight_update_variables,
            "replicated_optimizer_state_sharding": replicated_optimizer_state_sharding,
        }
        memory = {key: pipeline_plan.state(key, value) for key, value in given.items()}
        pipeline_plan.check_options(memory)
        method = GradientAccumulationReductionMethod.parse(reduction_method)
        settings = {
            "num_mini_batches": int(num_mini_batches),
            "dtype": dtype,
            "reduction_method": method,
            "_memory": memory,
        }
        for attribute, value in settings.items():
            object.__setattr__(self, attribute, value)

    __repr__ = shows(
        lambda self: {
            "": wrapped(self._opt),
            "num_mini_batches": self.num_mini_batches,
            "reduction_method": self.reduction_method,
            "dtype": self.dtype,
        }
    )

    def apply_gradients(  # type: ignore[override]
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        captured_grads: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> tf.Operation:
        """Accumulates gradients, and after the last mini-batch updates variables.

        Args:
            grads_and_vars: pairs of gradient and variable. Sparse gradients are made dense.
            name: name for the operations.
            captured_grads: captured gradients by tag, for a wrapped optimizer that wants them.
                They are accumulated too.
            **kwargs: further arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
            The operation that does all that, to run with each mini-batch.

        Raises:
            tf.errors.FailedPreconditionError: If this runs eagerly, so that there is no loop.
        """
        if tf.executing_eagerly():
            description = {
                "optimizer": type(self).__name__,
                "name": self.name,
                "num_mini_batches": self.num_mini_batches,
            }
            message = accumulation_check.outside_loop(description)
            raise tf.errors.FailedPreconditionError(None, None, message)
        return apply_accumulated(
            self._opt,
            list(grads_and_vars),
            self.num_mini_batches,
            self.reduction_method,
            self._memory,
            self.dtype,
            name or self.name,
            captured_grads=captured_grads,
            **kwargs,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        dtype = self.dtype
        return {
            **super().get_config(),
            "num_mini_batches": self.num_mini_batches,
            **{key: pipeline_plan.state_name(value) for key, value in self._memory.items()},
            "dtype": dtype.name if isinstance(dtype, tf.DType) else dtype,
            "reduction_method": self.reduction_method.name,
        }


@registered
class ALSGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """Accumulates gradients for an `ALSOptimizer`, which counts the accumulated ones."""

    def __new__(cls, als_opt: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Makes an optimizer; see `GradientAccumulationOptimizer`.

        Args:
            als_opt: an `ALSOptimizer`.
            *args: other arguments of `GradientAccumulationOptimizer`.
            **kwargs: likewise.

        Raises:
            ValueError: If an argument is not allowed.
        """
        if cls._ipu_class is None and not isinstance(als_opt, ALSOptimizer):
            raise ValueError(
                f"{cls.__name__} wraps an ALSOptimizer. Received: {als_opt!r} of type "
                f"{type(als_opt).__name__}. Use GradientAccumulationOptimizer for others."
            )
        return super().__new__(cls, als_opt, *args, **kwargs)

    def __init__(self, als_opt: Any, num_mini_batches: int, *args: Any, **kwargs: Any) -> None:
        """Wraps an optimizer.

        Args:
            als_opt: an `ALSOptimizer`.
            num_mini_batches: Mini-batches for one update.
            *args: other arguments of `GradientAccumulationOptimizer`.
            **kwargs: likewise.
        """
        super().__init__(als_opt, num_mini_batches, *args, **kwargs)


def _check_count(count: Any) -> None:
    MINI_BATCHES.whole("num_mini_batches", count)
