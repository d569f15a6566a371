"""`SGD` and `ConstSGD`: gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common.enums import DataType, SGDAccumulatorAndMomentum
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
            debugContext: its name, or its debug context.

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
        """Returns the scale of velocities."""
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

    def compounds(self, weight: str, count: int) -> dict[str, OptimizerValue]:
        """Returns the numbers of an update; see `Optimizer.compounds`."""
        names = ("learningRate", "weightDecay", "dampening", "velocityScaling", "momentum")
        rate, decay, dampening, scale, momentum = (self.number(name, weight) for name in names)
        undamped = 1 - dampening.val()
        divisor = self.loss_scaling.val() * count
        if self.is_zero("momentum", weight):
            step = rate.val() * undamped
            of_gradient = (rate, dampening, self.loss_scaling)
            return {
                "scaledLearningRate0": compound(step / divisor, of_gradient),
                "weightDecayScaleFactor0": compound(
                    1 - step * decay.val(), (rate, dampening, decay)
                ),
            }
        number = 2 if self.is_separate else 1
        pushed = undamped * scale.val()
        return {
            "scaledWeightDecay1": compound(pushed * decay.val(), (dampening, decay, scale)),
            f"dampeningScaleFactor{number}": compound(
                pushed / divisor, (dampening, scale, self.loss_scaling)
            ),
            f"scaledLearningRate{number}": compound(rate.val() / scale.val(), (rate, scale)),
            f"scaledMomentum{number}": compound(momentum.val(), (momentum,)),
        }

    def direction(
        self, weight: str, value: Any, gradient: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the gradient, or the velocity that moves the weight; see `Optimizer`."""
        if not state:
            return gradient, {}
        variant = 2 if self.is_separate else 1
        momentum, decay = number(f"scaledMomentum{variant}"), number("scaledWeightDecay1")
        ((name, velocity),) = state.items()
        pushed = number(f"dampeningScaleFactor{variant}") * gradient
        if self.is_separate:
            velocity = momentum * velocity + decay * value
        velocity += pushed
        step = velocity
        if not self.is_zero("nesterov", weight) and self.number("momentum", weight).val() > 0:
            # Nesterov's momentum has no dampening.
            step = pushed + decay * value + momentum * velocity
        return step, {name: velocity}

    def moved(
        self, weight: str, value: Any, direction: Any, state: Mapping[str, Any], number: Number
    ) -> tuple[Any, dict[str, Any]]:
        """Returns a weight after an update; see `Optimizer.moved`."""
        if not state:
            kept = value * number("weightDecayScaleFactor0")
            return kept - number("scaledLearningRate0") * direction, {}
        variant = 2 if self.is_separate else 1
        moved = value - number(f"scaledLearningRate{variant}") * direction
        if self.is_separate:
            return moved, dict(state)
        ((name, velocity),) = state.items()
        velocity = number("scaledMomentum1") * velocity + number("scaledWeightDecay1") * moved
        return moved, {name: velocity}

    def check_replaceable(self, new: Optimizer) -> None:
        """Refuses an optimizer that cannot take the place of this one; see `Optimizer`."""
        if isinstance(new, SGD):
            _check_velocities(self, new)
        super().check_replaceable(new)

    def has_velocity(self) -> bool:
        """Returns whether any weight has a velocity."""
        values = self.values_of("momentum")
        return any(
            not value.isConst() or value.val() != 0
            for value in (values.getDefault(), *values.specific.values())
        )

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
            loss_scaling: the loss scale.
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


def _check_velocities(old: SGD, new: SGD) -> None:
    """Refuses an optimizer that keeps other tensors."""
    if old.has_velocity() != new.has_velocity():
        keeps, lacks = ("old", "new") if old.has_velocity() else ("new", "old")
        raise popart_runtime_error(
            f"The {keeps} optimizer requires a velocity tensor, and the {lacks} one does not "
            "require a velocity tensor."
        )
    if old.is_separate != new.is_separate:
        raise popart_runtime_error("The values of accumulatorAndMomentum do not match.")
    types = (old.accumulator_type, old.velocity_type), (new.accumulator_type, new.velocity_type)
    if old.is_separate and types[0] != types[1]:
        raise popart_runtime_error("The types accumType and accl1Type do not match.")
