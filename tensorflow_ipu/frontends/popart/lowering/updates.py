"""`Update`: adds up gradients of micro-batches, and updates weights after a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tensorflow_ipu.frontends.popart.lowering import training as trainings
from tensorflow_ipu.frontends.popart.lowering.graphs import NodeLowering
from tensorflow_ipu.frontends.popart.lowering.replica_groups import ReplicaVariables
from tensorflow_ipu.frontends.popart.lowering.training import (
    ACCUMULATOR,
    PREVIOUS_SCALING,
    LossScale,
    Training,
)
from tensorflow_ipu.frontends.popart.optimizers import optimizer

_STATES = ("Accl", "Accl1", "Accl2", "Accl3", "Step")


class _Half(NamedTuple):
    """A weight in the middle of its update.

    Args:
        value: it, before.
        reads: the operations that read it and its state.
        direction: the direction to clip, in float32.
        state: its state, in float32.
        types: the types of that.
        number: returns a number of the optimizer for it.
    """

    value: Any
    reads: list[Any]
    direction: Any
    state: dict[str, Any]
    types: dict[str, Any]
    number: Any


class Update:
    """The update of weights after a batch, in the function in scope.

    Attributes:
        loss_scale: What the loss of the micro-batch is multiplied by; None before its gradients
            are made.
    """

    def __init__(
        self,
        training: Training,
        variables: Mapping[str, Any],
        replicated: ReplicaVariables,
        scale: LossScale | None = None,
    ) -> None:
        """Takes the variables to update.

        Args:
            training: how weights are trained.
            variables: weights, optimizer state and numbers that can change.
            replicated: the same as a replica sees them.
            scale: the loss scale that follows the gradients, if it does.
        """
        self._training = training
        self._variables = variables
        self._replicated = replicated
        self._scale = scale
        self.loss_scale: Any = None

    def __repr__(self) -> str:
        return f"Update[{len(self._training.trained)} weights]"

    def gradients(
        self, lowering: NodeLowering, weights: Iterable[str], others: Sequence[str]
    ) -> dict[str, Any]:
        """Returns gradients of the loss by tensor; see `training.gradients`.

        Args:
            lowering: the nodes of the model, in the function in scope.
            weights: the weights, of which those that are trained count.
            others: further tensors.
        """
        names = [*(name for name in weights if name in self._training.types), *others]
        self.loss_scale = self._loss_scale()
        return trainings.gradients(lowering, self._training, names, self.loss_scale)

    @property
    def training(self) -> Training:
        """How weights are trained."""
        return self._training

    def count(self, found: Mapping[str, Any], tracked: Iterable[str]) -> list[Any]:
        """Counts elements of gradients that the loss scale follows.

        Args:
            found: gradients of a micro-batch by tensor.
            tracked: the tensors that count.

        Returns:
            The operations.
        """
        if self._scale is None:
            return []
        return self._scale.count([found[name] for name in tracked])

    def accumulate(
        self,
        found: Mapping[str, Any],
        index: Any,
        place: Callable[[str], contextlib.AbstractContextManager[Any]],
    ) -> list[Any]:
        """Adds gradients of a micro-batch to the accumulators.

        Args:
            found: the gradients by weight.
            index: number of the micro-batch in its batch: a scalar tensor.
            place: returns a context for operations that are where a weight is.

        Returns:
            The operations.
        """
        done = []
        for name in self._training.trained:
            with place(name):
                done.append(self._added(ACCUMULATOR + name, found[name], index))
        return done

    def _added(self, total: str, gradient: Any, index: Any) -> Any:
        """Adds a gradient to an accumulator."""
        dtype = self._variables[total].dtype
        gradient = tf.cast(gradient, dtype)
        if not self._training.is_running_mean:
            return self._replicated.add(total, gradient)
        number = tf.cast(index, dtype)
        kept = self._replicated.read(total) * (number / (number + 1))
        return self._replicated.assign(total, kept + gradient / (number + 1))

    def apply_accumulated(self) -> list[Any]:
        """Updates the weights by the accumulated gradients, and zeroes the accumulators.

        Returns:
            The operations.
        """
        names = {name: ACCUMULATOR + name for name in self._training.trained}
        found = {name: self._replicated.read(total) for name, total in names.items()}
        done = self.apply(found, [tensor.op for tensor in found.values()])
        with tf.control_dependencies(done):
            cleared = [
                self._replicated.assign(names[name], tf.zeros_like(tensor))
                for name, tensor in found.items()
            ]
        return [*done, *cleared]

    def apply(self, found: Mapping[str, Any], after: Sequence[Any]) -> list[Any]:
        """Updates the weights.

        Args:
            found: the gradients of a batch by weight.
            after: operations to run before: reads of the updated variables.

        Returns:
            The operations.
        """
        numbers: dict[str, Any] = {}
        halves = {n: self._half(n, found[n], numbers) for n in self._training.trained}
        reads = [read for half in halves.values() for read in half.reads]
        factors = self._clipped(halves)
        assigned: dict[str, Any] = {}
        for name, half in halves.items():
            direction = half.direction * factors[name] if name in factors else half.direction
            wide = tf.cast(half.value, tf.float32)
            moved, kept = self._training.optimizer.moved(
                name, wide, direction, half.state, half.number
            )
            assigned[name] = tf.cast(moved, half.value.dtype)
            for key, dtype in half.types.items():
                assigned[key] = tf.cast(kept[key], dtype)
        reads += [tensor.op for tensor in numbers.values()]
        with tf.control_dependencies([*after, *reads]):
            done = [self._replicated.assign(name, value) for name, value in assigned.items()]
        with tf.control_dependencies(done):
            return [*done, *self._after(numbers)]

    def _half(self, name: str, gradient: Any, numbers: dict[str, Any]) -> _Half:
        """Returns a weight in the middle of its update."""
        optimizer = self._training.optimizer
        value = self._replicated.read(name)
        state = {key: self._replicated.read(key) for key in self._state_of(name)}
        types = {key: tensor.dtype for key, tensor in state.items()}
        gradient = tf.cast(self._reduced(name, gradient), tf.float32)
        if self._scale is not None:
            gradient = gradient / self._scale.factor()

        def number(key: str) -> Any:
            return self._number(key, name, numbers)

        wide = {key: tf.cast(tensor, tf.float32) for key, tensor in state.items()}
        if PREVIOUS_SCALING in self._variables:
            before = numbers.get(PREVIOUS_SCALING)
            if before is None:
                before = self._variables[PREVIOUS_SCALING].read_value()
                numbers[PREVIOUS_SCALING] = before
            wide = optimizer.rescaled(wide, self._base_scaling() / before)
        reads = [tensor.op for tensor in (value, *state.values())]
        direction, wide = optimizer.direction(
            name, tf.cast(value, tf.float32), gradient, wide, number
        )
        return _Half(value, reads, direction, wide, types, number)

    def _clipped(self, halves: Mapping[str, _Half]) -> dict[str, Any]:
        """Returns the clipping factor of each clipped direction."""
        factors = {}
        settings = self._training.optimizer.clip_norm_settings
        for weights, most in optimizer.groups_of(settings, self._training.trained):
            squares = [tf.reduce_sum(tf.square(halves[name].direction)) for name in weights]
            norm = tf.sqrt(tf.add_n(squares))
            factors.update(dict.fromkeys(weights, most / tf.maximum(norm, most)))
        return factors

    def _after(self, numbers: Mapping[str, Any]) -> list[Any]:
        """Writes the state that the next update reads."""
        done = [] if self._scale is None else self._scale.updated()
        if PREVIOUS_SCALING in numbers:
            variable = self._variables[PREVIOUS_SCALING]
            done.append(variable.assign(self._base_scaling(), read_value=False))
        return done

    def _reduced(self, name: str, gradient: Any) -> Any:
        """Returns a gradient of all replicas that share the weight."""
        replicas = self._training.replicas
        if replicas == 1:
            return gradient
        gradient = self._replicated.sum(name, gradient, replicas)
        return gradient / replicas if self._training.is_running_mean else gradient

    def _state_of(self, weight: str) -> list[str]:
        """Returns the ids of the optimizer state of a weight."""
        suffix = f"___{weight}"
        return [
            name
            for name in self._variables
            if name.endswith(suffix) and name[: -len(suffix)] in _STATES
        ]

    def _number(self, name: str, weight: str, found: dict[str, Any]) -> Any:
        """Returns a number of the optimizer as a float32 tensor; each is read once."""
        training = self._training
        value = training.optimizer.compounds(weight, training.count)[name]
        if value.isConst():
            return tf.constant(value.val(), tf.float32)
        key = training.optimizer.scalar_of(name, weight, training.types[weight])
        if key not in found:
            found[key] = self._variables[key].read_value()
        return found[key]

    def _base_scaling(self) -> Any:
        """Returns the loss scaling of the optimizer."""
        return trainings.loss_scaling(self._training, self._variables)

    def _loss_scale(self) -> Any:
        """Returns the loss scale."""
        base = self._base_scaling()
        return base if self._scale is None else base * self._scale.factor()
