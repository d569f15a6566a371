"""Keras optimizers that apply one update for several mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.gradient_accumulation import (
    MINI_BATCHES,
    GradientAccumulationReductionMethod,
)
from tensorflow_ipu.compiler.analysis import memory_options
from tensorflow_ipu.compiler.checks import accumulation as accumulation_check
from tensorflow_ipu.keras_layers.optimizers import accumulation
from tensorflow_ipu.keras_layers.optimizers.als_optimizer import ALSOptimizer
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer, wrapped
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.training.accumulators import AccumulatorDtype
from tensorflow_ipu.util.short_repr import shows


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
            dtype: type of the accumulators: None for that of the variable, a type, or a function
                from variable to type.
            name: name of this optimizer; by default that of its class.
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
        memory = {key: memory_options.state(key, value) for key, value in given.items()}
        memory_options.check_options(memory)
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
        return accumulation.apply_accumulated(
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
            **{key: memory_options.state_name(value) for key, value in self._memory.items()},
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
