"""`Training`: what is trained and how; and the gradients of the loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.frontends.common.option_groups import AutomaticLossScalingSettings
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.enums import MeanReductionStrategy, ReductionType
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering import loss_scales
from tensorflow_ipu.frontends.popart.lowering.graphs import Lowering
from tensorflow_ipu.frontends.popart.ops import layouts, texts
from tensorflow_ipu.frontends.popart.optimizers.optimizer import (
    LOSS_SCALING_TENSOR,
    Optimizer,
)

GRADIENT = "Gradient___"
ACCUMULATOR = "Accum___"
# A weight after its update.
UPDATED = "UpdatedVar___"
# The loss scaling that a scaled state of the optimizer is for.
PREVIOUS_SCALING = "PreviousLossScaling_FLOAT"


@dataclasses.dataclass(frozen=True)
class Training:
    """How weights are trained.

    Attributes:
        loss: The tensor whose gradients train them.
        optimizer: What updates them.
        types: Names of the types of the weights that are updated, by id.
        reduction: What becomes of the gradients of micro-batches and replicas.
        strategy: When a mean is divided.
        accumulation: Micro-batches of a batch.
        replicas: Number of replicas, in all processes.
        has_accumulators: Whether gradients are added up in tensors of their own.
        scale: How the loss scale follows gradients; None if it does not.
        scales_in_float: Whether a float16 loss is scaled in float32, behind the node that makes it.
    """

    loss: str
    optimizer: Optimizer
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reduction: ReductionType = ReductionType.Sum
    strategy: MeanReductionStrategy = MeanReductionStrategy.Post
    accumulation: int = 1
    replicas: int = 1
    has_accumulators: bool = False
    scale: AutomaticLossScalingSettings | None = None
    scales_in_float: bool = False

    @property
    def trained(self) -> tuple[str, ...]:
        """The weights that are updated."""
        return tuple(self.types)

    @property
    def is_running_mean(self) -> bool:
        """Whether accumulators hold means."""
        is_mean = self.reduction is ReductionType.Mean
        return is_mean and self.strategy is MeanReductionStrategy.Running

    @property
    def count(self) -> int:
        """What sums of gradients are divided by in the update."""
        if self.reduction is not ReductionType.Mean or self.is_running_mean:
            return 1
        return self.accumulation * self.replicas

    def for_weights(self, weights: Mapping[str, np.ndarray]) -> Training:
        """Returns the same for some weights.

        Args:
            weights: values of the weights that are updated.
        """
        types = {name: datatypes.of_data(array).member.name for name, array in weights.items()}
        return dataclasses.replace(self, types=types)

    def scalars(self, optimizer: Optimizer | None = None) -> dict[str, np.ndarray]:
        """Returns the numbers of an optimizer that can change, by the ids of their tensors.

        Args:
            optimizer: the optimizer; by default that of the training.
        """
        return (optimizer or self.optimizer).scalars(self.types, self.count)

    def kept_scalars(self) -> dict[str, np.ndarray]:
        """Returns the numbers that the program keeps for itself, as they are at the start."""
        found = {} if self.scale is None else loss_scales.kept_of(self.scale)
        if self.optimizer.has_scaled_state and not self.optimizer.loss_scaling.isConst():
            found[PREVIOUS_SCALING] = np.array(self.optimizer.getLossScalingVal(), np.float32)
        return found

    def check(self) -> None:
        """Refuses settings that contradict each other.

        Raises:
            popart_exception: If there are some.
        """
        if self.scale is not None:
            loss_scales.check(self.scale, self.optimizer.has_scaled_state)

    def state(
        self, weights: Mapping[str, np.ndarray], groups: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        """Returns what is kept for weights besides them, as it is at the start, by id.

        Args:
            weights: values of the weights.
            groups: the number of groups of replicas of weights that have several: each has a
                value and a state.
        """
        state = {} if self.scale is None else loss_scales.state_of(self.scale)
        for name in self.trained:
            value = weights[name]
            for key, start in self.optimizer.state(name, value).items():
                is_whole = start.shape == value.shape or name not in groups
                state[key] = start if is_whole else np.stack([start] * groups[name])
            if self.has_accumulators:
                type_ = datatypes.of_member(self.optimizer.accumulator_type).numpy
                state[ACCUMULATOR + name] = np.zeros(value.shape, type_ or value.dtype)
        return state


def gradients(
    lowering: Lowering, training: Training, names: Iterable[str], scaling: Any
) -> dict[str, Any]:
    """Returns gradients of the loss by tensor, without those that do not lead to it.

    Args:
        lowering: the nodes of the model, in the function in scope.
        training: what the loss is.
        names: the tensors.
        scaling: what the loss is multiplied by.

    Raises:
        popart_exception: If the loss is no single number.
    """
    loss = lowering.tensor(training.loss)
    if loss.shape.num_elements() != 1:
        raise popart_exception(
            f"The loss tensor {training.loss} has the shape {texts.shape(loss.shape)}. The loss "
            "must be a scalar tensor"
        )
    names = list(dict.fromkeys(names))
    integers = [name for name in names if lowering.tensor(name).dtype.is_integer]
    names = [name for name in names if name not in integers]
    tensors = [lowering.tensor(name) for name in names]
    if training.scales_in_float and loss.dtype == tf.float16:
        found = _scaled_in_float(lowering, training.loss, tensors, scaling)
    else:
        start = tf.fill(loss.shape, tf.cast(scaling, loss.dtype))
        found = layouts.gradients(loss, tensors, start)
    made = {
        name: tf.convert_to_tensor(gradient)
        for name, gradient in zip(names, found)
        if gradient is not None
    }
    return {**made, **_of_integers(lowering, training.loss, integers, scaling)}


def _of_integers(
    lowering: Lowering, loss: str, names: list[str], scaling: Any
) -> dict[str, tf.Tensor]:
    """Returns gradients by integer tensors: as for real numbers, cast to integers."""
    if not names:
        return {}
    numbers = lowering.as_numbers(names)
    end = numbers.tensor(loss)
    start = tf.fill(end.shape, tf.cast(scaling, end.dtype))
    found = tf.gradients(end, [numbers.tensor(name) for name in names], grad_ys=start)
    return {
        name: tf.cast(gradient, lowering.tensor(name).dtype)
        for name, gradient in zip(names, found)
        if gradient is not None
    }


def _scaled_in_float(lowering: Lowering, loss: str, tensors: list[Any], scaling: Any) -> list[Any]:
    """Returns gradients of a float16 loss times a scale that float16 may not hold.

    The node that makes the loss is differentiated without the scale; what comes out of it is
    scaled in float32.
    """
    sources = [lowering.tensor(name) for name in lowering.sources_of(loss)]
    sources = [source for source in sources if source.dtype.is_floating]
    made = lowering.tensor(loss)
    found = layouts.gradients(made, sources, tf.ones_like(made))
    pairs = [
        (source, tf.cast(tf.cast(gradient, tf.float32) * scaling, source.dtype))
        for source, gradient in zip(sources, found)
        if gradient is not None
    ]
    if not pairs:
        return [None] * len(tensors)
    starts = [start for _, start in pairs]
    return layouts.gradients([source for source, _ in pairs], tensors, starts)


def loss_scaling(training: Training, variables: Mapping[str, Any]) -> Any:
    """Returns what the loss is multiplied by, as a float32 tensor.

    Args:
        training: how weights are trained.
        variables: the variables of the program.
    """
    value = training.optimizer.loss_scaling
    if value.isConst():
        return tf.constant(value.val(), tf.float32)
    return variables[LOSS_SCALING_TENSOR].read_value()
