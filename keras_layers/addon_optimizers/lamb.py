"""Keras LAMB: Adam with a rate for each layer, for large batches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.addon_optimizers import base
from tensorflow_ipu.keras_layers.addon_optimizers.adam import MomentsOptimizer
from tensorflow_ipu.keras_layers.registration import registered


@registered
class LAMBIpuOptimizer(MomentsOptimizer):
    """LAMB. A step is as long as the weight is, times the learning rate; with weight decay."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        debiasing: bool = True,
        m_dtype: Any = None,
        v_dtype: Any = None,
        weight_norm_clip: float | None = None,
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
            weight_decay_rate: what part of the weight is added to its step.
            exclude_from_weight_decay: regular expressions; weights in whose names one is found have
                no weight decay.
            exclude_from_layer_adaptation: likewise, for weights whose steps are not made as long as
                the weight is; as `exclude_from_weight_decay` if None.
            name: name for its operations.
            debiasing: whether to make up for the zeros that `m` and `v` begin with.
            m_dtype: type of `m`; that of the weight if None.
            v_dtype: type of `v`; that of the weight if None.
            weight_norm_clip: the most that the length of a weight counts for.
            optimizer_compute_precisions: types of the arithmetic of the moments, and of that of the
                weight.
            outline_apply_gradients: see `IpuOptimizerBase`.
            outline_apply_gradients_kwargs: likewise.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If a type is no floating-point type, or there are too many.
        """
        self.weight_decay_rate = weight_decay_rate
        self.exclude_from_weight_decay = list(exclude_from_weight_decay or [])
        self.exclude_from_layer_adaptation = (
            self.exclude_from_weight_decay
            if exclude_from_layer_adaptation is None
            else list(exclude_from_layer_adaptation)
        )
        self.weight_norm_clip = weight_norm_clip
        super().__init__(
            name,
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            debiasing,
            {"m": m_dtype, "v": v_dtype},
            optimizer_compute_precisions=optimizer_compute_precisions,
            outline_apply_gradients=outline_apply_gradients,
            outline_apply_gradients_kwargs=outline_apply_gradients_kwargs,
            **kwargs,
        )

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: base.State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, base.State]:
        new = self._moments(gradient, state, scalars)
        rate, _, _, left_1, left_2 = (tf.cast(scalar, weight.dtype) for scalar in scalars)
        m, v = (tf.cast(new[part], weight.dtype) for part in ("m", "v"))
        root = tf.sqrt(v / (1 - left_2))
        step = m / (1 - left_1) / (root + tf.cast(self.epsilon, weight.dtype))
        if self.weight_decay_rate and not _found(self.exclude_from_weight_decay, weight_name):
            step += tf.cast(self.weight_decay_rate, weight.dtype) * weight
        if not _found(self.exclude_from_layer_adaptation, weight_name):
            step *= self._ratio(weight, step)
        return weight - rate * step, new

    def _ratio(self, weight: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns the length of a weight over that of a step; 1 where one of them is 0."""
        # Sums of squares of many float16 numbers are beyond that type.
        lengths = [tf.norm(tf.cast(value, tf.float32), ord=2) for value in (weight, step)]
        if self.weight_norm_clip is not None:
            lengths[0] = tf.minimum(lengths[0], self.weight_norm_clip)
        both = (lengths[0] > 0) & (lengths[1] > 0)
        ratio = tf.where(both, lengths[0] / tf.where(both, lengths[1], 1.0), 1.0)
        return tf.cast(ratio, weight.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": list(self.exclude_from_weight_decay),
            "exclude_from_layer_adaptation": list(self.exclude_from_layer_adaptation),
            "weight_norm_clip": self.weight_norm_clip,
        }


def _found(patterns: Sequence[str], name: str) -> bool:
    """Returns whether one of some regular expressions is found in a name."""
    return any(re.search(pattern, name) is not None for pattern in patterns)
