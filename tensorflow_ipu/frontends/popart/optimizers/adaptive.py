"""`Adam` and `Adaptive`: optimizers that adapt the step of each element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.enums import AdamMode, AdaptiveMode, DataType, WeightDecayMode
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.debug_info import DebugContextLike
from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.optimizers.optimizer import (
    ClipNormSettings,
    Number,
    Optimizer,
    OptimizerValue,
    OptimizerValueMap,
    compound,
    negative,
    not_positive,
)
from tensorflow_ipu.util.notices import warn_once

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
            debugContext: its name, or its debug context.

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
        """Returns the direction of the update before the learning rate, and the new means."""
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
            debugContext: its name, or its debug context.

        Raises:
            popart_exception: If a name is unknown, or a number does not fit.
        """
        values = dict(values)
        if "maxWeightNorm" in values:
            warn_once("The key maxWeightNorm of Adam is deprecated. Use defaultMaxWeightNorm.")
            values["defaultMaxWeightNorm"] = values.pop("maxWeightNorm")
        super().__init__(values, clip_norm_settings)
        self.mode = mode
        self.weight_decay_mode = weight_decay_mode
        self.accumulator_type = accum_type
        self.has_scaled_state = scaled_optimizer_state
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

    def compounds(self, weight: str, count: int) -> dict[str, OptimizerValue]:
        """Returns the numbers of an update; see `Optimizer.compounds`.

        With a scaled state the moments are those of the gradient times the loss scaling, and so
        are the numbers that are added to them or to what is made of them.
        """
        names = ("learningRate", "beta1", "beta2", "eps", "weightDecay", "maxWeightNorm")
        rate, beta1, beta2, eps, decay, norm = (self.number(name, weight) for name in names)
        scaling = self.loss_scaling
        gradient = compound(1 / (scaling.val() * count), (scaling,))
        if self.has_scaled_state:
            gradient = OptimizerValue(1 / count)
            eps = compound(eps.val() * scaling.val(), (eps, scaling))
            if self.weight_decay_mode is WeightDecayMode.L2Regularization:
                decay = compound(decay.val() * scaling.val(), (decay, scaling))
        return {
            "learningRate": rate,
            "weightDecay": decay,
            "adamBeta1": beta1,
            "adamBeta2": beta2,
            "adamEps": eps,
            "adamGradientScaling": gradient,
            **({"maxWeightNorm": norm} if self.mode in _LAMB else {}),
        }

    def direction(
        self, weight: str, value: Any, gradient: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the gradient that enters the moments; see `Optimizer.direction`."""
        plain = gradient * number("adamGradientScaling")
        if self.weight_decay_mode is WeightDecayMode.L2Regularization:
            plain += number("weightDecay") * value
        return plain, dict(state)

    def moved(
        self, weight: str, value: Any, direction: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns a weight after an update; see `Optimizer.moved`."""
        names = [f"Accl{position}___{weight}" for position in (1, 2)]
        beta1, beta2 = number("adamBeta1"), number("adamBeta2")
        first = beta1 * state[names[0]] + (1 - beta1) * direction
        second = self._second_moment(beta2, state[names[1]], direction)
        kept = dict(zip(names, (first, second)))
        if self.mode in _UNBIASED:
            step = kept[f"Step___{weight}"] = state[f"Step___{weight}"] + 1
            first /= 1 - beta1**step
            if self.mode is not AdamMode.AdaMax:
                second /= 1 - beta2**step
        root = second if self.mode is AdamMode.AdaMax else tf.sqrt(second)
        moved = first / (root + number("adamEps"))
        if self.weight_decay_mode is WeightDecayMode.Decay:
            moved += number("weightDecay") * value
        if self.mode in _LAMB:
            moved *= _trust_ratio(value, moved, number("maxWeightNorm"))
        return value - number("learningRate") * moved, kept

    def rescaled(self, state: Mapping[str, Any], ratio: Any) -> dict[str, Any]:
        """Returns the state after the loss scaling has changed; see `Optimizer.rescaled`."""
        if not self.has_scaled_state:
            return dict(state)
        squared = ratio if self.mode is AdamMode.AdaMax else tf.square(ratio)
        factors = {"Accl1": ratio, "Accl2": squared}
        return {
            name: tensor * factors[name[:5]] if name[:5] in factors else tensor
            for name, tensor in state.items()
        }

    def check_replaceable(self, new: Optimizer) -> None:
        """Refuses an optimizer that cannot take the place of this one; see `Optimizer`."""
        super().check_replaceable(new)
        _check_modes(self, new)

    def _second_moment(self, beta: Any, before: Any, gradient: Any) -> Any:
        if self.mode is AdamMode.AdaMax:
            return tf.maximum(beta * before, tf.abs(gradient))
        return beta * before + (1 - beta) * tf.square(gradient)


def _trust_ratio(value: Any, moved: Any, most: Any) -> Any:
    """Returns LAMB's factor on the learning rate."""
    norm, step = tf.norm(value), tf.norm(moved)
    one = tf.ones([])
    is_one = (norm == 0) | (step == 0) | (most == 0)
    return tf.where(is_one, one, tf.minimum(norm, most) / tf.where(step == 0, one, step))


def _check_modes(old: Adam, new: Any) -> None:
    if old.mode is not new.mode:
        raise popart_runtime_error("Adam modes do not match.")
    if old.weight_decay_mode is not new.weight_decay_mode:
        raise popart_runtime_error("Weight decay modes do not match.")
    if old.has_scaled_state != new.has_scaled_state:
        raise popart_runtime_error("The values of scaled_optimizer_state do not match.")
