"""Keras SGD with momentum and a chosen type for its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.configs.ranges import PROPORTION
from tensorflow_ipu.keras_layers.addon_optimizers import base
from tensorflow_ipu.keras_layers.registration import registered


@registered
class SGDIpuOptimizer(base.IpuOptimizerBase):
    """Gradient descent with momentum, whose state may be of another type than the weights.

    With the type of the weights it computes what `tf.keras.optimizers.legacy.SGD` does, in float32.
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: Any = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: Any = None,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32,),
        outline_apply_gradients: bool = True,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: a number, tensor, schedule or function without arguments.
            momentum: how much of a step is made again in the next one, from 0 to 1.
            nesterov: whether momentum is that of Nesterov.
            name: name for its operations.
            momentum_accum_dtype: type of the state; that of the weight if None.
            optimizer_compute_precisions: type of the arithmetic.
            outline_apply_gradients: see `IpuOptimizerBase`.
            outline_apply_gradients_kwargs: likewise.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If a type is no floating-point type, there are too many, or `momentum` is
                out of range.
        """
        super().__init__(
            name,
            optimizer_compute_precisions=optimizer_compute_precisions,
            outline_apply_gradients=outline_apply_gradients,
            outline_apply_gradients_kwargs=outline_apply_gradients_kwargs,
            **kwargs,
        )
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        is_number = isinstance(momentum, (int, float))
        if is_number:
            PROPORTION.check("momentum", momentum)
        self._has_momentum = not is_number or momentum > 0
        self._set_hyper("momentum", momentum)
        self.nesterov = bool(nesterov)
        self._accum_dtype = base.optional("momentum_accum_dtype", momentum_accum_dtype)

    def _slot_dtype(self, slot_name: str) -> tf.DType | None:
        return self._accum_dtype

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        if self._has_momentum:
            for var in var_list:
                self.add_slot(var, "momentum")

    def _scalars(self, dtype: tf.DType) -> list[tf.Tensor]:
        return [self._decayed_lr(dtype), tf.identity(self._get_hyper("momentum", dtype))]

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: base.State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, base.State]:
        del weight_name
        rate, momentum = (tf.cast(scalar, gradient.dtype) for scalar in scalars)
        if not state:
            return weight - rate * gradient, {}
        step = momentum * state["momentum"] - rate * gradient
        moved = momentum * step - rate * gradient if self.nesterov else step
        return weight + moved, {"momentum": step}

    def _resource_apply_sparse(
        self, grad: Any, var: Any, indices: Any, apply_state: Any = None
    ) -> tf.Operation:
        """Updates the rows that have gradients, as Keras's optimizer does."""
        variables = [self.get_slot(var, name) for name in self._slots_of(var)]
        rows, *state = [tf.gather(whole, indices) for whole in (var, *variables)]
        values = self._updated(grad, var, rows, state, apply_state)
        updates = zip([var, *variables], values)
        return tf.group(
            *(to.scatter_update(tf.IndexedSlices(value, indices)) for to, value in updates)
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "decay": self._initial_decay,
            "momentum": self._serialize_hyperparameter("momentum"),
            "nesterov": self.nesterov,
            "momentum_accum_dtype": base.type_name(self._accum_dtype),
        }
