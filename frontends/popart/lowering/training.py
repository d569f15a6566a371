"""Training: gradients of the loss, their reduction, and the updates of weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.enums import MeanReductionStrategy, ReductionType
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.graphs import Lowering
from tensorflow_ipu.frontends.popart.optimizers.optimizer import LOSS_SCALING, Optimizer
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum

GRADIENT = "Gradient___"
ACCUMULATOR = "Accum___"


@dataclasses.dataclass(frozen=True)
class Training:
    """How weights are trained.

    Attributes:
        loss: The tensor whose gradients train them.
        optimizer: What updates them.
        trained: The weights that are updated.
        reduction: What becomes of the gradients of micro-batches and replicas.
        strategy: When a mean is divided.
    """

    loss: str
    optimizer: Optimizer
    trained: tuple[str, ...] = ()
    reduction: ReductionType = ReductionType.Sum
    strategy: MeanReductionStrategy = MeanReductionStrategy.Post

    def for_weights(self, trained: Iterable[str]) -> Training:
        """Returns the same for some weights.

        Args:
            trained: the weights that are updated.
        """
        return dataclasses.replace(self, trained=tuple(trained))


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
            f"The loss tensor {training.loss} must be a scalar tensor. Received the shape "
            f"{loss.shape.as_list()}."
        )
    names = list(dict.fromkeys(names))
    tensors = [lowering.tensor(name) for name in names]
    start = tf.fill(loss.shape, tf.cast(scaling, loss.dtype))
    found = tf.gradients(loss, tensors, grad_ys=start)
    return {
        name: tf.convert_to_tensor(gradient)
        for name, gradient in zip(names, found)
        if gradient is not None
    }


class Update:
    """The update of weights after a batch, in the function in scope."""

    def __init__(
        self, training: Training, variables: Mapping[str, Any], accumulation: int, replicas: int
    ) -> None:
        """Takes what is updated.

        Args:
            training: how weights are trained.
            variables: weights, optimizer state and numbers that can change.
            accumulation: micro-batches of a batch.
            replicas: number of replicas.
        """
        self._training = training
        self._variables = variables
        self._accumulation = accumulation
        self._replicas = replicas

    def gradients(
        self, lowering: Lowering, weights: Iterable[str], anchored: Sequence[str]
    ) -> dict[str, Any]:
        """Returns gradients of the loss by tensor; see `gradients`.

        Args:
            lowering: the nodes of the model, in the function in scope.
            weights: the weights, of which those that are trained count.
            anchored: further tensors.
        """
        names = [*(name for name in weights if name in self._training.trained), *anchored]
        return gradients(lowering, self._training, names, self._number(LOSS_SCALING, ""))

    def accumulate(self, found: Mapping[str, Any], index: Any) -> list[Any]:
        """Adds gradients of a micro-batch to the accumulators.

        Args:
            found: the gradients by weight.
            index: number of the micro-batch in its batch: a scalar tensor.

        Returns:
            The operations.
        """
        done = []
        for name in self._training.trained:
            variable = self._variables[ACCUMULATOR + name]
            gradient = tf.cast(found[name], variable.dtype)
            if self._is_running_mean:
                before = tf.cast(index, variable.dtype)
                kept = variable.read_value() * (before / (before + 1))
                done.append(variable.assign(kept + gradient / (before + 1), read_value=False))
            else:
                done.append(variable.assign_add(gradient, read_value=False))
        return done

    def apply_accumulated(self) -> list[Any]:
        """Updates the weights by what was accumulated, and begins anew with zeros.

        Returns:
            The operations.
        """
        accumulators = [self._variables[ACCUMULATOR + name] for name in self._training.trained]
        found = [variable.read_value() for variable in accumulators]
        done = self.apply(dict(zip(self._training.trained, found)), [tensor.op for tensor in found])
        with tf.control_dependencies(done):
            return [
                *done,
                *(v.assign(tf.zeros(v.shape, v.dtype), read_value=False) for v in accumulators),
            ]

    def apply(self, found: Mapping[str, Any], after: Sequence[Any]) -> list[Any]:
        """Updates the weights.

        Args:
            found: the gradients of a batch by weight.
            after: operations that come before: those that read what is updated.

        Returns:
            The operations.
        """
        assigned: dict[str, Any] = {}
        reads = []
        for name in self._training.trained:
            value = self._variables[name].read_value()
            names = self._state_of(name)
            state = {key: self._variables[key].read_value() for key in names}
            reads += [tensor.op for tensor in (value, *state.values())]
            gradient = tf.cast(self._reduced(found[name]), value.dtype)
            moved, kept = self._training.optimizer.updated(
                name, value, gradient, state, self._numbers(name, value.dtype)
            )
            assigned[name] = moved
            assigned.update(kept)
        with tf.control_dependencies([*after, *reads]):
            return [
                self._variables[name].assign(value, read_value=False)
                for name, value in assigned.items()
            ]

    def _reduced(self, gradient: Any) -> Any:
        """Returns a gradient of all replicas and micro-batches."""
        if self._replicas > 1:
            gradient = cross_replica_sum(gradient)
        if self._training.reduction is not ReductionType.Mean:
            return gradient
        count = self._replicas * (1 if self._is_running_mean else self._accumulation)
        return gradient / count if count > 1 else gradient

    @property
    def _is_running_mean(self) -> bool:
        return (
            self._training.reduction is ReductionType.Mean
            and self._training.strategy is MeanReductionStrategy.Running
        )

    def _state_of(self, weight: str) -> list[str]:
        """Returns the ids of what the optimizer keeps for a weight."""
        suffix = f"___{weight}"
        return [
            name
            for name in self._variables
            if name.endswith(suffix)
            and name[: -len(suffix)] in ("Accl", "Accl1", "Accl2", "Accl3", "Step")
        ]

    def _numbers(self, weight: str, dtype: Any) -> Any:
        return lambda name: tf.cast(self._number(name, weight), dtype)

    def _number(self, name: str, weight: str) -> Any:
        """Returns a number of the optimizer as a float32 tensor."""
        optimizer = self._training.optimizer
        value = optimizer.number(name, weight)
        if value.isConst():
            return tf.constant(value.val(), tf.float32)
        return self._variables[optimizer.scalar_of(name, weight)].read_value()
