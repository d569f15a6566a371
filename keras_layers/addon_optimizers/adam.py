"""Keras Adam with chosen types for its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.addon_optimizers import base
from tensorflow_ipu.keras_layers.registration import registered


class MomentsOptimizer(base.IpuOptimizerBase):
    """Base of optimizers with two moments: `m`, the mean of gradients, and `v`, of squares."""

    _stages = 2

    def __init__(
        self,
        name: str,
        learning_rate: Any,
        beta_1: Any,
        beta_2: Any,
        epsilon: float,
        debiasing: bool,
        dtypes: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            name: name for its operations.
            learning_rate: a number, tensor, schedule or function without arguments.
            beta_1: how much of `m` stays in a step.
            beta_2: how much of `v` stays in a step.
            epsilon: what is added to the square root of `v`.
            debiasing: whether to make up for the zeros that moments begin with.
            dtypes: type of each part of the state by its name; None for that of the weight.
            **kwargs: arguments of `IpuOptimizerBase`.
        """
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon
        self.debiasing = bool(debiasing)
        self._dtypes = {
            part: base.optional(f"{part}_dtype", dtype) for part, dtype in dtypes.items()
        }

    def _slot_dtype(self, slot_name: str) -> tf.DType | None:
        return self._dtypes.get(slot_name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for slot in self._parts():
            for var in var_list:
                self.add_slot(var, slot)

    def _parts(self) -> tuple[str, ...]:
        """Returns the names of the parts of the state."""
        return ("m", "v")

    def _scalars(self, dtype: tf.DType) -> list[tf.Tensor]:
        """Returns the learning rate, both factors, and what is left of zeros in the moments."""
        betas = [tf.identity(self._get_hyper(name, dtype)) for name in ("beta_1", "beta_2")]
        step = tf.cast(self.iterations + 1, dtype)
        left = [tf.pow(beta, step) for beta in betas] if self.debiasing else [tf.zeros([])] * 2
        return [self._decayed_lr(dtype), *betas, *left]

    def _moments(
        self, gradient: tf.Tensor, state: base.State, scalars: Sequence[tf.Tensor]
    ) -> base.State:
        """Returns the moments after a step."""
        beta_1, beta_2 = (tf.cast(beta, gradient.dtype) for beta in scalars[1:3])
        return {
            "m": beta_1 * state["m"] + (1 - beta_1) * gradient,
            "v": beta_2 * state["v"] + (1 - beta_2) * tf.square(gradient),
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "decay": self._initial_decay,
            "beta_1": self._serialize_hyperparameter("beta_1"),
            "beta_2": self._serialize_hyperparameter("beta_2"),
            "epsilon": self.epsilon,
            "debiasing": self.debiasing,
            **{f"{part}_dtype": base.type_name(dtype) for part, dtype in self._dtypes.items()},
        }


@registered
class AdamIpuOptimizer(MomentsOptimizer):
    """Adam. Its state may be of other types than the weights.

    With the types of the weights it computes what `tf.keras.optimizers.legacy.Adam` does, in
    float32.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamIpuOptimizer",
        m_dtype: Any = None,
        v_dtype: Any = None,
        vhat_dtype: Any = None,
        debiasing: bool = True,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32, tf.float32),
        outline_apply_gradients: bool = True,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: a number, tensor, schedule or function without arguments.
            beta_1: how much of the mean of gradients, `m`, stays in a step.
            beta_2: how much of the mean of squared gradients, `v`, stays in a step.
            epsilon: what is added to the square root of `v`.
            amsgrad: whether to divide by the root of the largest `v` so far, which is `vhat`.
            name: name for its operations.
            m_dtype: type of `m`; that of the weight if None.
            v_dtype: type of `v`; that of the weight if None.
            vhat_dtype: type of `vhat`; that of the weight if None.
            debiasing: whether to make up for the zeros that `m` and `v` begin with.
            optimizer_compute_precisions: types of the arithmetic of the moments, and of that of the
                weight.
            outline_apply_gradients: see `IpuOptimizerBase`.
            outline_apply_gradients_kwargs: likewise.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If a type is no floating-point type, or there are too many.
        """
        self.amsgrad = bool(amsgrad)
        super().__init__(
            name,
            learning_rate,
            beta_1,
            beta_2,
            epsilon or tf.keras.backend.epsilon(),
            debiasing,
            {"m": m_dtype, "v": v_dtype, "vhat": vhat_dtype},
            optimizer_compute_precisions=optimizer_compute_precisions,
            outline_apply_gradients=outline_apply_gradients,
            outline_apply_gradients_kwargs=outline_apply_gradients_kwargs,
            **kwargs,
        )

    def _parts(self) -> tuple[str, ...]:
        return ("m", "v", "vhat") if self.amsgrad else ("m", "v")

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: base.State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, base.State]:
        del weight_name
        new = self._moments(gradient, state, scalars)
        largest = new["v"]
        if self.amsgrad:
            largest = new["vhat"] = tf.maximum(state["vhat"], new["v"])
        rate, _, _, left_1, left_2 = scalars
        rate = tf.cast(rate * tf.sqrt(1 - left_2) / (1 - left_1), weight.dtype)
        m, v = (tf.cast(value, weight.dtype) for value in (new["m"], largest))
        return weight - rate * m / (tf.sqrt(v) + tf.cast(self.epsilon, weight.dtype)), new

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {**super().get_config(), "amsgrad": self.amsgrad}
