"""`Adam`: Adam, AdaMax and LAMB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.configs.notices import warn_once
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.debug import DebugContextLike
from tensorflow_ipu.frontends.popart.enums import AdamMode, DataType, WeightDecayMode
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.optimizers.clipping import ClipNormSettings
from tensorflow_ipu.frontends.popart.optimizers.optimizer import (
    Number,
    Optimizer,
    negative,
    not_positive,
)
from tensorflow_ipu.frontends.popart.optimizers.values import OptimizerValueMap

_UNBIASED = (AdamMode.Adam, AdamMode.Lamb, AdamMode.AdaMax)
_LAMB = (AdamMode.Lamb, AdamMode.LambNoBias)


class Adam(Optimizer):
    """Adam, AdaMax or LAMB, with or without correction of the bias."""

    kind = "Adam"
    defaults = {
        "learningRate": 0.1,
        "weightDecay": 0.0,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-6,
        "maxWeightNorm": 10.0,
    }
    rules = {
        "learningRate": negative("learning rate"),
        "weightDecay": negative("weight decay"),
        "beta1": negative("beta1"),
        "beta2": negative("beta2"),
        "eps": not_positive("eps"),
    }

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdamMode = AdamMode.Adam,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        clip_norm_settings: list[ClipNormSettings] = [],
        scaled_optimizer_state: bool = False,
        debugContext: DebugContextLike = "adam",
    ) -> None:
        """Takes the numbers.

        Args:
            values: for each name, such as "defaultBeta1", a pair of number and whether it never
                changes.
            mode: the variant.
            weight_decay_mode: where weight decay enters.
            accum_type: type of accumulated gradients.
            accl1_type: type of the first moment.
            accl2_type: type of the second one.
            clip_norm_settings: groups of weights whose gradients are clipped.
            scaled_optimizer_state: whether moments keep the loss scaling.
            debugContext: what it is called.

        Raises:
            popart_exception: If a name is unknown, or a number does not fit.
        """
        if scaled_optimizer_state:
            raise popart_exception("Adam: scaled_optimizer_state=True is not supported yet.")
        values = dict(values)
        if "maxWeightNorm" in values:
            warn_once("The key maxWeightNorm of Adam is deprecated. Use defaultMaxWeightNorm.")
            values["defaultMaxWeightNorm"] = values.pop("maxWeightNorm")
        super().__init__(values, clip_norm_settings)
        self.mode = mode
        self.weight_decay_mode = weight_decay_mode
        self.accumulator_type = accum_type
        self._moment_types = (accl1_type, accl2_type)

    def learningRates(self) -> OptimizerValueMap:
        """Returns the learning rates."""
        return self.values_of("learningRate")

    def weightDecays(self) -> OptimizerValueMap:
        """Returns the weight decays."""
        return self.values_of("weightDecay")

    def beta1s(self) -> OptimizerValueMap:
        """Returns the factors of the first moment."""
        return self.values_of("beta1")

    def beta2s(self) -> OptimizerValueMap:
        """Returns the factors of the second moment."""
        return self.values_of("beta2")

    def epss(self) -> OptimizerValueMap:
        """Returns the numbers that keep divisors from 0."""
        return self.values_of("eps")

    def maxWeightNorms(self) -> OptimizerValueMap:
        """Returns the largest norms of weights that LAMB counts."""
        return self.values_of("maxWeightNorm")

    def state(self, weight: str, value: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the moments of a weight at the start; see `Optimizer.state`."""
        found = {
            f"Accl{number}___{weight}": np.zeros(
                value.shape, datatypes.of_member(type_).numpy or value.dtype
            )
            for number, type_ in enumerate(self._moment_types, 1)
        }
        if self.mode in _UNBIASED:
            found[f"Step___{weight}"] = np.zeros([], np.float32)
        return found

    def updated(
        self, weight: str, value: Any, gradient: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns a weight after an update; see `Optimizer.updated`. It computes in float32."""
        wide = tf.cast(value, tf.float32)
        numbers = {name: tf.cast(number(name), tf.float32) for name in self.defaults}
        plain = tf.cast(gradient, tf.float32) / tf.cast(number("lossScaling"), tf.float32)
        if self.weight_decay_mode is WeightDecayMode.L2Regularization:
            plain += numbers["weightDecay"] * wide
        names = [f"Accl{position}___{weight}" for position in (1, 2)]
        moments = self._moments([state[name] for name in names], plain, numbers)
        kept = {name: tf.cast(new, state[name].dtype) for name, new in zip(names, moments)}
        first, second = moments
        if self.mode in _UNBIASED:
            step = f"Step___{weight}"
            kept[step] = state[step] + 1
            first /= 1 - numbers["beta1"] ** kept[step]
            if self.mode is not AdamMode.AdaMax:
                second /= 1 - numbers["beta2"] ** kept[step]
        root = second if self.mode is AdamMode.AdaMax else tf.sqrt(second)
        moved = first / (root + numbers["eps"])
        if self.weight_decay_mode is WeightDecayMode.Decay:
            moved += numbers["weightDecay"] * wide
        if self.mode in _LAMB:
            moved *= _trust_ratio(wide, moved, numbers["maxWeightNorm"])
        return tf.cast(wide - numbers["learningRate"] * moved, value.dtype), kept

    def check_replaceable(self, new: Optimizer) -> None:
        """Refuses an optimizer that cannot take the place of this one; see `Optimizer`."""
        super().check_replaceable(new)
        _check_modes(self, new)

    def _moments(self, state: list[Any], gradient: Any, numbers: Mapping[str, Any]) -> list[Any]:
        """Returns the moments after an update."""
        first, second = (tf.cast(moment, tf.float32) for moment in state)
        beta1, beta2 = numbers["beta1"], numbers["beta2"]
        first = beta1 * first + (1 - beta1) * gradient
        if self.mode is AdamMode.AdaMax:
            return [first, tf.maximum(beta2 * second, tf.abs(gradient))]
        return [first, beta2 * second + (1 - beta2) * tf.square(gradient)]


def _trust_ratio(value: Any, moved: Any, most: Any) -> Any:
    """Returns what LAMB multiplies the learning rate by."""
    norm, step = tf.norm(value), tf.norm(moved)
    one = tf.ones([])
    is_one = (norm == 0) | (step == 0) | (most == 0)
    return tf.where(is_one, one, tf.minimum(norm, most) / tf.where(step == 0, one, step))


def _check_modes(old: Adam, new: Any) -> None:
    if old.mode is not new.mode:
        raise popart_runtime_error("Adam modes do not match.")
    if old.weight_decay_mode is not new.weight_decay_mode:
        raise popart_runtime_error("Weight decay modes do not match.")
