"""`Adaptive`: AdaGrad, RMSProp and AdaDelta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.debug_info import DebugContextLike
from tensorflow_ipu.frontends.popart.enums import AdaptiveMode, DataType, WeightDecayMode
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.optimizers.optimizer import (
    Number,
    Optimizer,
    compound,
    negative,
    not_positive,
)
from tensorflow_ipu.frontends.popart.optimizers.values import OptimizerValue, OptimizerValueMap

_RMSPROP = (AdaptiveMode.RMSProp, AdaptiveMode.CenteredRMSProp)
_WITH_SECOND = (AdaptiveMode.CenteredRMSProp, AdaptiveMode.AdaDelta)


class Adaptive(Optimizer):
    """AdaGrad, RMSProp, centered RMSProp or AdaDelta."""

    kind = "Adaptive"
    defaults = {
        "learningRate": 0.01,
        "weightDecay": 0.0,
        "alpha": 0.99,
        "momentum": 0.0,
        "eps": 1e-6,
    }
    rules = {
        "learningRate": negative("learning rate"),
        "weightDecay": negative("weight decay"),
        "alpha": negative("alpha"),
        "momentum": negative("momentum"),
        "eps": not_positive("eps"),
    }

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdaptiveMode = AdaptiveMode.RMSProp,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        accl3_type: DataType = DataType.UNDEFINED,
        rmsprop_tf_variant: bool = False,
        debugContext: DebugContextLike = "adaptive",
    ) -> None:
        """Takes the numbers.

        Args:
            values: for each name, such as "defaultAlpha", a pair of number and whether it never
                changes.
            mode: the variant.
            weight_decay_mode: where weight decay enters.
            accum_type: type of accumulated gradients.
            accl1_type: type of the mean of squares.
            accl2_type: type of the second mean.
            accl3_type: type of the momentum.
            rmsprop_tf_variant: whether RMSProp is that of TensorFlow.
            debugContext: what it is called.

        Raises:
            popart_exception: If a name is unknown, or a number or the variant does not fit.
        """
        super().__init__(values, [])
        if rmsprop_tf_variant and mode not in _RMSPROP:
            raise popart_exception(
                "The TensorFlow variant is only valid with the RMSProp and CenteredRMSProp modes. "
                f"Received: {mode.name}"
            )
        self.mode = mode
        self.weight_decay_mode = weight_decay_mode
        self.accumulator_type = accum_type
        self._types = (accl1_type, accl2_type, accl3_type)
        self._is_tf_variant = rmsprop_tf_variant

    def learningRates(self) -> OptimizerValueMap:
        """Returns the learning rates."""
        return self.values_of("learningRate")

    def weightDecays(self) -> OptimizerValueMap:
        """Returns the weight decays."""
        return self.values_of("weightDecay")

    def alphas(self) -> OptimizerValueMap:
        """Returns the factors of the means."""
        return self.values_of("alpha")

    def momentums(self) -> OptimizerValueMap:
        """Returns the momentums."""
        return self.values_of("momentum")

    def epss(self) -> OptimizerValueMap:
        """Returns the numbers that keep divisors from 0."""
        return self.values_of("eps")

    def state(self, weight: str, value: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the means of a weight at the start; see `Optimizer.state`."""
        types = [datatypes.of_member(type_).numpy or value.dtype for type_ in self._types]
        first = np.ones if self._is_tf_variant else np.zeros
        found = {f"Accl1___{weight}": first(value.shape, types[0])}
        if self.mode in _WITH_SECOND:
            found[f"Accl2___{weight}"] = np.zeros(value.shape, types[1])
        if not self.is_zero("momentum", weight):
            found[f"Accl3___{weight}"] = np.zeros(value.shape, types[2])
        return found

    def compounds(self, weight: str, count: int) -> dict[str, OptimizerValue]:
        """Returns the numbers of an update; see `Optimizer.compounds`."""
        scaling = self.loss_scaling
        return {
            "learningRate": self.number("learningRate", weight),
            "weightDecay": self.number("weightDecay", weight),
            "adaptiveAlpha": self.number("alpha", weight),
            "adaptiveMomentum": self.number("momentum", weight),
            "adaptiveEps": self.number("eps", weight),
            "adaptiveGradientScaling": compound(1 / (scaling.val() * count), (scaling,)),
        }

    def direction(
        self, weight: str, value: Any, gradient: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the gradient that enters the means; see `Optimizer.direction`."""
        plain = gradient * number("adaptiveGradientScaling")
        if self.weight_decay_mode is WeightDecayMode.L2Regularization:
            plain += number("weightDecay") * value
        return plain, dict(state)

    def moved(
        self, weight: str, value: Any, direction: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns a weight after an update; see `Optimizer.moved`."""
        means = {name[:5]: tensor for name, tensor in state.items()}
        step, means = self._step(direction, means, number)
        rate = number("learningRate")
        has_momentum = "Accl3" in means
        if has_momentum:
            pushed = rate * step if self._is_tf_variant else step
            step = means["Accl3"] = number("adaptiveMomentum") * means["Accl3"] + pushed
        scaled = step if has_momentum and self._is_tf_variant else rate * step
        if self.weight_decay_mode is WeightDecayMode.Decay:
            decay = number("weightDecay")
            value *= 1 - (decay if has_momentum and self._is_tf_variant else rate * decay)
        return value - scaled, {name: means[name[:5]] for name in state}

    def check_replaceable(self, new: Optimizer) -> None:
        """Refuses an optimizer that cannot take the place of this one; see `Optimizer`."""
        super().check_replaceable(new)
        if isinstance(new, Adaptive) and new.mode is not self.mode:
            raise popart_runtime_error("Adaptive modes do not match.")
        if isinstance(new, Adaptive) and new.weight_decay_mode is not self.weight_decay_mode:
            raise popart_runtime_error("Weight decay modes do not match.")

    def _step(
        self, gradient: Any, means: dict[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns what the weight moves by before the learning rate, and the means after it."""
        alpha, eps = number("adaptiveAlpha"), number("adaptiveEps")
        means = dict(means)
        squares = tf.square(gradient)
        if self.mode is AdaptiveMode.AdaGrad:
            means["Accl1"] += squares
        else:
            means["Accl1"] = alpha * means["Accl1"] + (1 - alpha) * squares
        spread = means["Accl1"]
        if self.mode is AdaptiveMode.AdaDelta:
            step = gradient * tf.sqrt(means["Accl2"] + eps) / tf.sqrt(spread + eps)
            means["Accl2"] = alpha * means["Accl2"] + (1 - alpha) * tf.square(step)
            return step, means
        if self.mode is AdaptiveMode.CenteredRMSProp:
            means["Accl2"] = alpha * means["Accl2"] + (1 - alpha) * gradient
            spread -= tf.square(means["Accl2"])
        root = tf.sqrt(spread + eps) if self._is_tf_variant else tf.sqrt(spread) + eps
        return gradient / root, means
