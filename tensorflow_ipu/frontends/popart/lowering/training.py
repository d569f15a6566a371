"""`Training` and `Update`: loss scale, gradients, and updates of weights after a batch."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.common.enums import (
    GradientTensorTrackingMethod,
    MeanReductionStrategy,
    ReductionType,
)
from tensorflow_ipu.frontends.common.option_groups import AutomaticLossScalingSettings
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.graphs import NodeLowering
from tensorflow_ipu.frontends.popart.lowering.replica_groups import ReplicaVariables
from tensorflow_ipu.frontends.popart.ops import operands, windows
from tensorflow_ipu.frontends.popart.optimizers import optimizer
from tensorflow_ipu.frontends.popart.optimizers.optimizer import LOSS_SCALING_TENSOR, Optimizer
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum

# --- Loss scale and gradients ---

# The loss scale follows the size of float16 gradients: elements of tracked gradients beyond an edge
# are counted. After each period of batches the scale is halved if their share is above a threshold,
# else doubled.

#: The tensor with the loss scale that the gradients of a micro-batch are made with.
FINAL = "finalLossScale"


#: What the loss scaling of the optimizer is multiplied by.
FACTOR = "lossScaleUpdateFactor"


#: Elements beyond the edge and within it in the period so far, and its batches.
COUNTS = "Accum___autoLossScaleStats"


COUNTER = "AutomaticLossScaleProxy___Histogram_counter"


_Methods = GradientTensorTrackingMethod


# They only change how elements are arranged.
_VIEWS = frozenset(
    {
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Concat"),
        *("Split", "Expand", "Pad", "DepthToSpace", "SpaceToDepth", "Subsample", "Detach"),
    }
)


_PRODUCTS = frozenset({"Conv", "MatMul", "Gemm", "ConvTranspose", "MultiConv"})


class LossScale:
    """The loss scale of a program, in the function in scope."""

    def __init__(
        self, settings: AutomaticLossScalingSettings, variables: Mapping[str, Any], replicas: int
    ) -> None:
        """Takes the settings.

        Args:
            settings: how it follows gradients.
            variables: the variables of the program, those of `variables_of` among them.
            replicas: number of replicas.
        """
        self._settings = settings
        self._variables = variables
        self._replicas = replicas

    def __repr__(self) -> str:
        return f"LossScale[every {self._settings.updatePeriod} batches]"

    def factor(self) -> Any:
        """Returns the factor on the optimizer's loss scaling."""
        return self._variables[FACTOR].read_value()

    def count(self, gradients: Iterable[Any]) -> list[tf.Operation]:
        """Counts elements of the gradients of a micro-batch.

        Args:
            gradients: the gradients that are tracked.

        Returns:
            The operations.
        """
        edge = self._settings.binEdgeLocation * float(np.finfo(np.float16).max)
        upper, total = tf.constant(0), 0
        for gradient in gradients:
            beyond = tf.abs(tf.cast(gradient, tf.float32)) > edge
            upper += tf.reduce_sum(tf.cast(beyond, tf.int32))
            total += int(gradient.shape.num_elements())
        counts = tf.stack([upper, total - upper])
        return [self._variables[COUNTS].assign_add(counts, read_value=False)]

    def updated(self) -> list[tf.Operation]:
        """Ends a batch, and a period of them if it was the last of it.

        Returns:
            The operations.
        """
        counts = self._variables[COUNTS].read_value()
        batches = self._variables[COUNTER].read_value() + 1
        factor = self.factor()
        total = cross_replica_sum(counts) if self._replicas > 1 else counts
        share = tf.cast(total[0], tf.float32) / tf.cast(tf.reduce_sum(total), tf.float32)
        is_high = share > self._settings.thresholdUpperCountProportion
        is_end = tf.greater_equal(batches, self._settings.updatePeriod)
        moved = tf.where(is_high, factor * 0.5, factor * 2.0)
        new = {
            FACTOR: tf.where(is_end, moved, factor),
            COUNTS: tf.where(is_end, tf.zeros_like(counts), counts),
            COUNTER: tf.where(is_end, 0, batches),
        }
        with tf.control_dependencies([counts.op, batches.op, factor.op]):
            return [
                self._variables[name].assign(value, read_value=False) for name, value in new.items()
            ]


def state_of(settings: AutomaticLossScalingSettings) -> dict[str, np.ndarray]:
    """Returns the initial state of a loss scale, as models store it.

    Args:
        settings: how the scale follows gradients. Only periods of several batches need a counter.
    """
    found = {FACTOR: np.array(1, np.float32)}
    return {**found, COUNTER: np.array(0, np.int32)} if settings.updatePeriod > 1 else found


def kept_of(settings: AutomaticLossScalingSettings) -> dict[str, np.ndarray]:
    """Returns the state that a program keeps besides `state_of`, at its start.

    Args:
        settings: how the scale follows gradients.
    """
    kept = {COUNTS: np.zeros(2, np.int32), COUNTER: np.array(0, np.int32)}
    return {name: value for name, value in kept.items() if name not in state_of(settings)}


def check(settings: AutomaticLossScalingSettings, has_scaled_state: bool) -> None:
    """Refuses settings that contradict each other.

    Args:
        settings: how the scale follows gradients.
        has_scaled_state: whether the optimizer keeps the loss scaling in its state.

    Raises:
        popart_exception: If they do.
    """
    if has_scaled_state:
        raise popart_exception("scaledOptimizerState and automaticLossScaling are not compatible.")
    for name in ("binEdgeLocation", "thresholdUpperCountProportion"):
        value = getattr(settings, name)
        if not 0 <= value <= 1:
            raise popart_exception(
                f"{name} of AutomaticLossScalingSettings must be in the range [0, 1]. Received: "
                f"{value}"
            )
    if settings.updatePeriod < 1:
        raise popart_exception(
            "updatePeriod of AutomaticLossScalingSettings must be at least 1. Received: "
            f"{settings.updatePeriod}"
        )
    by_user = settings.gradientTensorTrackingMethod is _Methods.GradientsOfUserSpecifiedTensors
    if settings.toTrackTensors == []:
        raise popart_exception(
            "toTrackTensors of AutomaticLossScalingSettings is an empty list. Name tensors, or "
            "leave it at None."
        )
    if by_user != (settings.toTrackTensors is not None):
        raise popart_exception(
            "toTrackTensors and the gradientTensorTrackingMethod GradientsOfUserSpecifiedTensors "
            f"belong together. Received: toTrackTensors={settings.toTrackTensors}, "
            f"{settings.gradientTensorTrackingMethod.name}"
        )


def tracked(
    settings: AutomaticLossScalingSettings,
    nodes: Iterable[onnx.NodeProto],
    types: Mapping[str, Any],
) -> list[str]:
    """Returns the tensors with tracked gradients, as far as the model says.

    Args:
        settings: how the scale follows gradients.
        nodes: the nodes of the model.
        types: TensorFlow's types of its tensors.

    Raises:
        popart_exception: If the settings name tensors that are not there, or none is left.
    """
    chosen = settings.toTrackTensors
    if chosen is not None:
        missing = [name for name in chosen if name not in types]
        if missing:
            raise popart_exception(
                f"The tensors {missing} of toTrackTensors do not exist in the model."
            )
    else:
        of_products = settings.gradientTensorTrackingMethod is _Methods.ConvAndMatmulGradients
        chosen = []
        for node in nodes:
            if of_products and node.op_type in _PRODUCTS:
                chosen += [*node.input, *node.output]
            elif not of_products and node.op_type not in _VIEWS:
                chosen += [*node.input, *node.output]
    names = [name for name in dict.fromkeys(chosen) if types.get(name) == tf.float16]
    if not names:
        raise popart_exception(
            "Automatic loss scaling is for models in FLOAT16. [AutomaticLossScale transform] No "
            "tracked gradient tensors of type fp16 were found."
        )
    return names


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
        """Divisor of accumulated gradients in the update."""
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
        found = {} if self.scale is None else kept_of(self.scale)
        if self.optimizer.has_scaled_state and not self.optimizer.loss_scaling.isConst():
            found[PREVIOUS_SCALING] = np.array(self.optimizer.getLossScalingVal(), np.float32)
        return found

    def check(self) -> None:
        """Refuses settings that contradict each other.

        Raises:
            popart_exception: If there are some.
        """
        if self.scale is not None:
            check(self.scale, self.optimizer.has_scaled_state)

    def state(
        self, weights: Mapping[str, np.ndarray], groups: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        """Returns the optimizer state of all weights at the start, by id.

        Args:
            weights: values of the weights.
            groups: the number of groups of replicas of weights that have several: each has a
                value and a state.
        """
        state = {} if self.scale is None else state_of(self.scale)
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
    lowering: NodeLowering, training: Training, names: Iterable[str], scaling: Any
) -> dict[str, Any]:
    """Returns gradients of the loss by tensor, without those that do not lead to it.

    Args:
        lowering: the nodes of the model, in the function in scope.
        training: the training, which names the loss.
        names: the tensors.
        scaling: the loss scale.

    Raises:
        popart_exception: If the loss is no single number.
    """
    loss = lowering.tensor(training.loss)
    if loss.shape.num_elements() != 1:
        raise popart_exception(
            f"The loss tensor {training.loss} has the shape {operands.shape_text(loss.shape)}. The "
            "loss "
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
        found = windows.gradients(loss, tensors, start)
    made = {
        name: tf.convert_to_tensor(gradient)
        for name, gradient in zip(names, found)
        if gradient is not None
    }
    return {**made, **_of_integers(lowering, training.loss, integers, scaling)}


def _of_integers(
    lowering: NodeLowering, loss: str, names: list[str], scaling: Any
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


def _scaled_in_float(
    lowering: NodeLowering, loss: str, tensors: list[Any], scaling: Any
) -> list[Any]:
    """Returns gradients of a float16 loss times a scale that float16 may not hold.

    The node that makes the loss is differentiated without the scale; what comes out of it is
    scaled in float32.
    """
    sources = [lowering.tensor(name) for name in lowering.sources_of(loss)]
    sources = [source for source in sources if source.dtype.is_floating]
    made = lowering.tensor(loss)
    found = windows.gradients(made, sources, tf.ones_like(made))
    pairs = [
        (source, tf.cast(tf.cast(gradient, tf.float32) * scaling, source.dtype))
        for source, gradient in zip(sources, found)
        if gradient is not None
    ]
    if not pairs:
        return [None] * len(tensors)
    starts = [start for _, start in pairs]
    return windows.gradients([source for source, _ in pairs], tensors, starts)


def loss_scaling(training: Training, variables: Mapping[str, Any]) -> Any:
    """Returns the loss scale as a float32 tensor.

    Args:
        training: how weights are trained.
        variables: the variables of the program.
    """
    value = training.optimizer.loss_scaling
    if value.isConst():
        return tf.constant(value.val(), tf.float32)
    return variables[LOSS_SCALING_TENSOR].read_value()


# --- Updates of weights ---

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
        return gradients(lowering, self._training, names, self.loss_scale)

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
        return loss_scaling(self._training, self._variables)

    def _loss_scale(self) -> Any:
        """Returns the loss scale."""
        base = self._base_scaling()
        return base if self._scale is None else base * self._scale.factor()
