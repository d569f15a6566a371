"""`SGD` and `ConstSGD`: gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.debug import DebugContextLike
from tensorflow_ipu.frontends.popart.enums import DataType, SGDAccumulatorAndMomentum
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.optimizers.clipping import ClipNormSettings
from tensorflow_ipu.frontends.popart.optimizers.optimizer import (
    Number,
    Optimizer,
    negative,
    not_positive,
)
from tensorflow_ipu.frontends.popart.optimizers.values import OptimizerValueMap

_TYPES = (DataType.UNDEFINED, DataType.FLOAT, DataType.FLOAT16)


class SGD(Optimizer):
    """Gradient descent, with momentum, weight decay, dampening and velocity scaling."""

    kind = "SGD"
    defaults = {
        "learningRate": 0.1,
        "weightDecay": 0.0,
        "momentum": 0.0,
        "dampening": 0.0,
        "velocityScaling": 1.0,
        "nesterov": 0.0,
    }
    rules = {
        "learningRate": negative("learning rate"),
        "weightDecay": negative("weight decay"),
        "momentum": negative("momentum"),
        "dampening": negative("dampening"),
        "velocityScaling": not_positive("velocity scaling"),
    }

    def __init__(
        self,
        pyd: Mapping[str, Any] | None = None,
        clip_norm_settings: list[ClipNormSettings] = [],
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum.Combined,
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: DebugContextLike = "sgd",
    ) -> None:
        """Takes the numbers.

        Args:
            pyd: for each name, such as "defaultLearningRate", a pair of number and whether it
                never changes.
            clip_norm_settings: groups of weights whose gradients are clipped.
            accumulatorAndMomentum: whether momentum has a tensor of its own.
            accumType: type of accumulated gradients.
            accl1Type: type of the momentum.
            debugContext: what it is called.

        Raises:
            popart_exception: If a name is unknown, or a number or a type does not fit.
        """
        for given in (accumType, accl1Type):
            if given not in _TYPES:
                raise popart_exception(
                    f"The type {given.name} is not supported: currently only FLOAT16 and FLOAT are "
                    "supported."
                )
        super().__init__(pyd or {}, clip_norm_settings)
        self.is_separate = accumulatorAndMomentum is SGDAccumulatorAndMomentum.Separate
        self.accumulator_type = accumType
        self.velocity_type = accl1Type

    def learningRates(self) -> OptimizerValueMap:
        """Returns the learning rates."""
        return self.values_of("learningRate")

    def weightDecays(self) -> OptimizerValueMap:
        """Returns the weight decays."""
        return self.values_of("weightDecay")

    def momentums(self) -> OptimizerValueMap:
        """Returns the momentums."""
        return self.values_of("momentum")

    def dampenings(self) -> OptimizerValueMap:
        """Returns the dampenings."""
        return self.values_of("dampening")

    def velocityScalings(self) -> OptimizerValueMap:
        """Returns what velocities are multiplied by."""
        return self.values_of("velocityScaling")

    def nesterov(self) -> OptimizerValueMap:
        """Returns whether momentum is Nesterov's, where it is not 0."""
        return self.values_of("nesterov")

    def state(self, weight: str, value: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the velocity of a weight at the start, if it has one; see `Optimizer.state`."""
        if self.is_zero("momentum", weight):
            return {}
        if self.is_separate:
            type_ = datatypes.of_member(self.velocity_type).numpy or value.dtype
            return {f"Accl1___{weight}": np.zeros(value.shape, type_)}
        decay, dampening = (self.number(n, weight).val() for n in ("weightDecay", "dampening"))
        scale = (1 - dampening) * decay * self.number("velocityScaling", weight).val()
        return {f"Accl___{weight}": (value * scale).astype(value.dtype)}

    def updated(
        self, weight: str, value: Any, gradient: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns a weight after an update; see `Optimizer.updated`."""
        rate, decay = number("learningRate"), number("weightDecay")
        undamped = 1 - number("dampening")
        plain = gradient / number("lossScaling")
        if not state:
            return value * (1 - rate * undamped * decay) - rate * undamped * plain, {}
        momentum, scale = number("momentum"), number("velocityScaling")
        ((name, velocity),) = state.items()
        kept = velocity.dtype
        velocity = velocity if kept == value.dtype else _cast(velocity, value.dtype)
        pushed = undamped * scale * plain
        if self.is_separate:
            velocity = momentum * velocity + pushed + undamped * scale * decay * value
        else:
            velocity = velocity + pushed
        step = velocity
        if not self.is_zero("nesterov", weight):
            step = scale * (plain + decay * value) + momentum * velocity
        moved = value - rate / scale * step
        if not self.is_separate:
            velocity = momentum * velocity + undamped * decay * scale * moved
        return moved, {name: _cast(velocity, kept)}

    def _check(self, numbers: Any) -> None:
        super()._check(numbers)
        if numbers["nesterov"].val() and numbers["momentum"].val() > 0:
            if numbers["dampening"].val():
                raise popart_exception(
                    "When enable nesterov momentum, dampening "
                    f"{numbers['dampening'].val()} shouled be zero."
                )


class ConstSGD(SGD):
    """Gradient descent whose numbers never change."""

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0,
        loss_scaling: float = 1,
        clip_norm_settings: list[ClipNormSettings] = [],
    ) -> None:
        """Takes the numbers.

        Args:
            learning_rate: the learning rate.
            weight_decay: the weight decay.
            loss_scaling: what the loss is multiplied by.
            clip_norm_settings: groups of weights whose gradients are clipped.

        Raises:
            popart_exception: If a number does not fit.
        """
        numbers = {
            "defaultLearningRate": learning_rate,
            "defaultWeightDecay": weight_decay,
            "lossScaling": loss_scaling,
        }
        super().__init__({key: (value, True) for key, value in numbers.items()}, clip_norm_settings)


def _cast(tensor: Any, dtype: Any) -> Any:
    return tensor if tensor.dtype == dtype else tf.cast(tensor, dtype)
