"""Automatic loss scaling (ALS): the rule, its state, and optimizers that use it."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.configs.ranges import COUNT, PROPORTION, shown
from tensorflow_ipu.keras_layers.optimizers import ipu_optimizer
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import cross_replica_ops, statistics_ops

# --- Rule and state ---


@dataclasses.dataclass(frozen=True)
class LossScaleRule:
    """How the loss scaling factor follows the gradients; see the arguments of `ALSOptimizer`."""

    initial_loss_scaling_factor: float = 1
    update_frequency: int = 8
    increase_factor: float = 2
    max_loss_scaling_factor: float = 32768
    accumulate_statistics_over_update_period: bool = True
    ratio_threshold: float = 1e-5
    captured_grads_only: bool = False
    lpf_alpha: float = 0.0
    histogram_bin_edge: float = 8192

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: If one is not allowed.
        """
        for name in ("initial_loss_scaling_factor", "increase_factor", "max_loss_scaling_factor"):
            self._check(name, _is_power_of_two, "a power of two")
        self._check_first_increase()
        self._check("update_frequency", _is_count, "nonzero and positive, a number of calls")
        self._check(
            "ratio_threshold", lambda value: 0 < value < 1, "greater than zero and less than one"
        )
        self._check("lpf_alpha", lambda value: value in PROPORTION, "from 0 to 1")
        edge = self.histogram_bin_edge
        self._check("histogram_bin_edge", lambda _: 0 <= edge < math.inf, "0 or more, and finite")

    def _check_first_increase(self) -> None:
        initial, increase = self.initial_loss_scaling_factor, self.increase_factor
        maximum = self.max_loss_scaling_factor
        if initial >= maximum:
            raise ValueError(
                "initial_loss_scaling_factor must be less than max_loss_scaling_factor. Received: "
                f"initial_loss_scaling_factor={initial!r}, max_loss_scaling_factor={maximum!r}"
            )
        if max(initial, initial * increase) >= maximum:
            raise ValueError(
                "initial_loss_scaling_factor x increase_factor must be less than "
                "max_loss_scaling_factor, or the factor could never grow. Received: "
                f"initial_loss_scaling_factor={initial!r}, increase_factor={increase!r}, "
                f"max_loss_scaling_factor={maximum!r}"
            )

    def _check(self, name: str, holds: Callable[[Any], bool], wanted: str) -> None:
        value = getattr(self, name)
        try:
            allowed = holds(value)
        except TypeError:  # no number
            allowed = False
        if not allowed:
            raise ValueError(f"{name} must be {wanted}. Received: {name}={shown(value)}")


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and operator.index(value) in COUNT


def _is_power_of_two(value: Any) -> bool:
    return value > 0 and math.frexp(value)[0] == 0.5


class State:
    """The variables of automatic loss scaling.

    With several replicas, histograms are added up over the replicas, so that all of them come to
    the same factor.

    Attributes:
        gradient_histogram: `[2]` float32: how many gradients are small, and how many large.
        lsf_update_counter: int32: calls since the last update.
        loss_scaling_factor: float32.
        prev_loss_scaling_factor: float32: the factor before the last update.
        period_counts: `[2]` float32: the counts of all calls since the last update, unfiltered.
    """

    def __init__(self, initial_factor: float) -> None:
        """Makes the variables outside of the trace."""

        def variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
            return tf.Variable(value, trainable=False, dtype=dtype, name=name)

        with tf.init_scope():
            self.gradient_histogram = variable([0.0, 0.0], tf.float32, "gradient_histogram")
            self.lsf_update_counter = variable(0, tf.int32, "lsf_update_counter")
            self.loss_scaling_factor = variable(initial_factor, tf.float32, "loss_scaling_factor")
            self.prev_loss_scaling_factor = variable(
                initial_factor, tf.float32, "prev_loss_scaling_factor"
            )
            self.period_counts = variable([0.0, 0.0], tf.float32, "period_counts")

    def reset(self, initial_factor: float) -> list[Any]:
        """Goes back to the start, with a factor."""
        return [
            self.gradient_histogram.assign([0.0, 0.0]),
            self.lsf_update_counter.assign(0),
            self.loss_scaling_factor.assign(initial_factor),
            self.prev_loss_scaling_factor.assign(initial_factor),
            self.period_counts.assign([0.0, 0.0]),
        ]

    def observe(self, gradients: Sequence[Any], rule: LossScaleRule) -> list[Any]:
        """Counts gradients, and updates the factor when that is due.

        Args:
            gradients: the scaled gradients of a step.
            rule: the rule.

        Returns:
            The assignments.
        """
        counter = tf.convert_to_tensor(self.lsf_update_counter)
        factor = tf.convert_to_tensor(self.loss_scaling_factor)
        due = tf.equal(counter % rule.update_frequency, 0)
        if rule.update_frequency != 1:
            due &= counter > 0
        new = self._counted(gradients, rule, due)
        histogram, period = self._next_histogram(new, rule, due), self.period_counts + new
        following = tf.where(due, _next_factor(histogram, period, factor, rule), factor)
        # Everything is read before anything is written.
        with tf.control_dependencies([following, histogram, period, counter]):
            return [
                self.prev_loss_scaling_factor.assign(
                    tf.where(due, factor, self.prev_loss_scaling_factor)
                ),
                self.loss_scaling_factor.assign(following),
                self.gradient_histogram.assign(tf.where(due, tf.zeros_like(histogram), histogram)),
                self.period_counts.assign(tf.where(due, tf.zeros_like(period), period)),
                self.lsf_update_counter.assign(tf.where(due, 0, counter + 1)),
            ]

    def _counted(self, gradients: Sequence[Any], rule: LossScaleRule, due: tf.Tensor) -> tf.Tensor:
        """Counts the gradients of this call on all replicas, or none if the rule leaves it out."""

        def counted() -> tf.Tensor:
            return _histogram(gradients, rule.histogram_bin_edge)

        if rule.accumulate_statistics_over_update_period:
            return _over_replicas(counted())
        return _over_replicas(tf.cond(due, counted, lambda: tf.zeros([2], tf.float32)))

    def _next_histogram(self, new: tf.Tensor, rule: LossScaleRule, due: tf.Tensor) -> tf.Tensor:
        """Filters the histogram with the counts of this call."""
        old = tf.convert_to_tensor(self.gradient_histogram)
        smoothed = rule.lpf_alpha * old + (1 - rule.lpf_alpha) * new
        if rule.accumulate_statistics_over_update_period:
            return smoothed
        return tf.where(due, smoothed, old)


def _over_replicas(counts: tf.Tensor) -> tf.Tensor:
    return cross_replica_ops.cross_replica_sum(counts) if trace.in_cluster() else counts


def _histogram(gradients: Sequence[Any], edge: float) -> tf.Tensor:
    """Counts the elements of float16 tensors below an edge, and the others, also NaN."""
    bins = tf.zeros([2], tf.float32)
    for gradient in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if values.dtype == tf.float16:
            small = tf.cast(tf.abs(tf.cast(values, tf.float32)) < edge, tf.float32)
            bins += tf.stack([tf.reduce_sum(small), tf.reduce_sum(1 - small)])
    return bins


def _next_factor(
    histogram: tf.Tensor, period: tf.Tensor, factor: tf.Tensor, rule: LossScaleRule
) -> tf.Tensor:
    """Returns the factor after an update.

    Large gradients anywhere in the period lower it. The filtered histogram alone may have forgotten
    them: a step along saturated gradients can leave a layer with gradients of 0.
    """
    # NaN if nothing was counted: not greater.
    too_large = _large_part(histogram) > rule.ratio_threshold
    too_large |= _large_part(period) > rule.ratio_threshold
    smaller = factor / rule.increase_factor
    proposed = tf.where(too_large, smaller, factor * rule.increase_factor)
    allowed = (
        tf.math.is_finite(proposed) & (proposed < rule.max_loss_scaling_factor) & (proposed >= 1)
    )
    return tf.where(allowed, proposed, factor)


def _large_part(counts: tf.Tensor) -> tf.Tensor:
    return counts[1] / tf.reduce_sum(counts)


# --- Wrapping optimizer ---

_STATE = (
    "gradient_histogram",
    "lsf_update_counter",
    "loss_scaling_factor",
    "prev_loss_scaling_factor",
    "period_counts",
)
# Settings that say what a histogram means: what was counted with other ones is of no use.
_RESETTING = ("captured_grads_only", "lpf_alpha", "histogram_bin_edge")


def _read_only(name: str, document: str, read: Any) -> property:
    """Makes a read-only property with an error that says so."""

    def refuse(self: Any, value: Any) -> None:
        raise ValueError(f"{name} is a read only property. Received: {name}={value!r}")

    return property(read, refuse, doc=document)


def _setting(name: str) -> property:
    """Makes a property of a value of the rule."""

    def read(self: Any) -> Any:
        return getattr(self._rule, name)

    def write(self: Any, value: Any) -> None:
        rule = dataclasses.replace(self._rule, **{name: value})
        changed = rule != self._rule
        object.__setattr__(self, "_rule", rule)
        if changed and name in _RESETTING:
            self._reset_now()

    resetting = " Another value resets the factor." if name in _RESETTING else ""
    return property(
        read,
        write,
        doc=f"See the argument `{name}`. Programs keep the value they were traced with.{resetting}",
    )


@registered
class ALSOptimizer(IpuOptimizer):
    """Multiplies the loss by a factor that follows the size of the float16 gradients.

    The factor keeps small gradients from becoming zero in float16. `minimize` and the methods for
    gradients differentiate the loss times the factor, `apply_gradients` divides by it: the wrapped
    optimizer sees true gradients. In a loop of your own, differentiate `get_scaled_loss(loss)`.

    Each call of `apply_gradients` counts the elements of float16 gradients (as they come, scaled;
    stored rows only of sparse ones) whose absolute values are below `histogram_bin_edge`, and those
    that are not, on all replicas together. The new histogram is `lpf_alpha` of the old and the rest
    of what was counted. An update is due when the counter is positive and a multiple of
    `update_frequency`: with a frequency of 8 in each ninth call. If more than `ratio_threshold` of
    the histogram, or of everything counted since the last update, is large, the factor is divided
    by `increase_factor`, else multiplied, as long as it stays at least 1 and below the maximum.
    """

    def __init__(
        self,
        opt: Any,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 1e-5,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str | None = None,
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: a Keras optimizer.
            initial_loss_scaling_factor: the factor at the start, a power of two. Times
                `increase_factor` it is less than `max_loss_scaling_factor`.
            update_frequency: the factor is updated in the call after so many; with 1 in each.
            increase_factor: multiplier or divisor of the factor, a power of two.
            max_loss_scaling_factor: the factor stays below this power of two.
            accumulate_statistics_over_update_period: whether gradients are counted in each call,
                not only in those with an update.
            ratio_threshold: part of the gradients, in (0, 1), above which the factor gets smaller
                when they are large.
            captured_grads_only: whether only captured gradients are counted.
            lpf_alpha: weight of the old histogram in the new one.
            histogram_bin_edge: gradients whose absolute value is not below are large.
            name: name of this optimizer; by default its class's name.

        Raises:
            ValueError: If an argument is not allowed.
        """
        super().__init__(opt, name)
        rule = LossScaleRule(
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
        )
        # Not by `self._state = ...`, which would look in `opt` first.
        object.__setattr__(self, "_rule", rule)
        state = State(initial_loss_scaling_factor)
        object.__setattr__(self, "_state", state)
        for variable in _STATE:
            self._track_trackable(getattr(state, variable), variable, overwrite=True)

    def get_scaled_loss(self, loss: Any) -> Any:
        """Multiplies a loss by the factor.

        Args:
            loss: a tensor, or a function without arguments that returns one.

        Returns:
            What to differentiate: a tensor or a function. Pass the gradients to `apply_gradients`
            as they are.
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        loss = tf.convert_to_tensor(loss)
        return loss * tf.cast(self._state.loss_scaling_factor, loss.dtype)

    def _scale_loss(self, loss: Any) -> Any:
        return self.get_scaled_loss(loss)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        *args: Any,
        captured_grads: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Updates variables with the true gradients, then the factor if that is due.

        Args:
            grads_and_vars: pairs of gradient and variable, of the scaled loss.
            *args: further arguments of the wrapped optimizer's `apply_gradients`.
            captured_grads: captured gradients by tag, of the scaled loss: tensors or structures
                of tensors, to be counted too.
            **kwargs: further arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
            What the wrapped optimizer returns.
        """
        pairs = list(grads_and_vars)
        factor = tf.convert_to_tensor(self._state.loss_scaling_factor)
        true = [_unscaled(gradient, factor) for gradient, _ in pairs]
        step = super().apply_gradients(
            list(zip(true, (variable for _, variable in pairs))),
            *args,
            captured_grads=captured_grads,
            **kwargs,
        )
        # After the reads: there are graphs that leave the order open.
        with tf.control_dependencies([factor, *(g for g in true if g is not None)]):
            updates = self._state.observe(self._counted(pairs, captured_grads), self._rule)
        return _after(step, updates)

    def _counted(self, pairs: list[tuple[Any, Any]], captured: Mapping[str, Any] | None) -> Any:
        """Returns the gradients that go into the histogram."""
        own = [] if self._rule.captured_grads_only else [gradient for gradient, _ in pairs]
        return [g for g in [*own, *tf.nest.flatten(dict(captured or {}))] if g is not None]

    def reset(self) -> Any:
        """Goes back to the initial factor, with an empty histogram and the counter at 0.

        Returns:
            In a graph an operation, else None.
        """
        assignments = self._state.reset(self._rule.initial_loss_scaling_factor)
        return None if tf.executing_eagerly() else tf.group(*assignments)

    def _reset_now(self) -> None:
        """Resets the state at once, where there is a value to reset."""
        with tf.init_scope():
            # A graph of TensorFlow 1 has operations only: there `reset` returns one to run.
            if tf.executing_eagerly():
                self.reset()

    initial_loss_scaling_factor = _setting("initial_loss_scaling_factor")
    update_frequency = _setting("update_frequency")
    increase_factor = _setting("increase_factor")
    max_loss_scaling_factor = _setting("max_loss_scaling_factor")
    accumulate_statistics_over_update_period = _setting("accumulate_statistics_over_update_period")
    ratio_threshold = _setting("ratio_threshold")
    captured_grads_only = _setting("captured_grads_only")
    lpf_alpha = _setting("lpf_alpha")
    histogram_bin_edge = _setting("histogram_bin_edge")

    histogram = _read_only(
        "histogram",
        "How many gradients are small, and how many large: a variable `[2]` of float32.",
        lambda self: self._state.gradient_histogram,
    )
    normalized_histogram = _read_only(
        "normalized_histogram",
        "The histogram divided by its sum.",
        lambda self: statistics_ops.histogram_normalize(self._state.gradient_histogram),
    )
    loss_scaling_factor = _read_only(
        "loss_scaling_factor",
        "The factor: a variable of float32.",
        lambda self: self._state.loss_scaling_factor,
    )
    previous_loss_scaling_factor = _read_only(
        "previous_loss_scaling_factor",
        "The factor before the last update: a variable of float32.",
        lambda self: self._state.prev_loss_scaling_factor,
    )
    update_counter = _read_only(
        "update_counter",
        "Calls since the last update: a variable of int32.",
        lambda self: self._state.lsf_update_counter,
    )
    decrease_factor = _read_only(
        "decrease_factor",
        "What the factor is multiplied with to get smaller: one divided by `increase_factor`.",
        lambda self: 1 / self._rule.increase_factor,
    )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {**super().get_config(), **dataclasses.asdict(self._rule)}


def _unscaled(gradient: Any, factor: tf.Tensor) -> Any:
    """Divides a gradient, in float32: a large factor has no float16."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            _unscaled(gradient.values, factor), gradient.indices, gradient.dense_shape
        )
    return tf.cast(tf.cast(gradient, tf.float32) / factor, gradient.dtype)


def _after(step: Any, updates: list[Any]) -> Any:
    """Returns the result of a step such that in a graph it comes after the updates."""
    if tf.executing_eagerly():
        return step
    if step is None or isinstance(step, tf.Operation):
        return tf.group(*updates, *([] if step is None else [step]))
    with tf.control_dependencies([tf.group(*updates)]):
        return tf.identity(step)


# --- Optimizers with hyperparameters ---

_legacy = tf.keras.optimizers.legacy


class _ALSOptimizerWithInner(ALSOptimizer):
    """An `ALSOptimizer` that makes the optimizer inside it.

    That is one of `tf.keras.optimizers.legacy`, the generation that these classes were made for.
    In the original they leave gradients scaled and undo that in the state of the inner optimizer:
    a matter of rounding and speed. Here the step is that of `ALSOptimizer`, which divides in
    float32. So slots hold what they hold without loss scaling, and can be loaded there.
    """

    # Names of the arguments that are for the inner optimizer.
    _hyperparameters: tuple[str, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an optimizer, with the arguments of `__init__`."""
        if cls._ipu_class is not None:
            return object.__new__(cls)
        wrapper: Any = cls
        return object.__new__(ipu_optimizer.of_generation(wrapper, ipu_optimizer.LEGACY))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        inner = self._opt.get_config()
        return {
            "name": self.name,
            **{name: inner[name] for name in self._hyperparameters},
            **dataclasses.asdict(self._rule),
        }

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> Any:
        """Makes an optimizer from the result of `get_config`.

        Args:
            config: the configuration.
            custom_objects: classes by name, for a learning rate that is a schedule.

        Returns:
            The optimizer.
        """
        arguments = dict(config)
        rate = arguments.get("learning_rate")
        if isinstance(rate, Mapping):
            arguments["learning_rate"] = tf.keras.optimizers.schedules.deserialize(
                rate, custom_objects, use_legacy_format=True
            )
        return (cls._ipu_class or cls)(**arguments)


def _check_learning_rate(cls: type, learning_rate: Any) -> None:
    """Raises if the learning rate is an optimizer, which `ALSOptimizer` takes in that place."""
    if ipu_optimizer.generation(learning_rate) is not None:
        raise ValueError(
            f"{cls.__name__} is made of hyperparameters and makes its optimizer itself: expected "
            "learning_rate to be a number, a tensor, a schedule or a function. Received an "
            f"optimizer: {learning_rate!r}. Use ALSOptimizer to wrap it."
        )


@registered
class ALSOptimizerAdam(_ALSOptimizerWithInner):
    """Adam with automatic loss scaling; see `ALSOptimizer`."""

    _hyperparameters = ("learning_rate", "beta_1", "beta_2", "epsilon")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str = "ALSOptimizerAdam",
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: see `tf.keras.optimizers.legacy.Adam`.
            beta_1: likewise.
            beta_2: likewise.
            epsilon: likewise.
            initial_loss_scaling_factor: see `ALSOptimizer`.
            update_frequency: likewise.
            increase_factor: likewise.
            max_loss_scaling_factor: likewise.
            accumulate_statistics_over_update_period: likewise.
            ratio_threshold: likewise.
            captured_grads_only: likewise.
            lpf_alpha: likewise.
            histogram_bin_edge: likewise.
            name: name of this optimizer.

        Raises:
            ValueError: If an argument is not allowed.
        """
        _check_learning_rate(ALSOptimizerAdam, learning_rate)
        super().__init__(
            _legacy.Adam(learning_rate, beta_1, beta_2, epsilon),
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
            name=name,
        )


@registered
class ALSOptimizerRMSProp(_ALSOptimizerWithInner):
    """RMSprop with automatic loss scaling; see `ALSOptimizer`."""

    _hyperparameters = ("learning_rate", "rho", "momentum", "epsilon", "centered")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str = "ALSOptimizerRMSProp",
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: see `tf.keras.optimizers.legacy.RMSprop`.
            rho: likewise.
            momentum: likewise.
            epsilon: likewise.
            centered: likewise.
            initial_loss_scaling_factor: see `ALSOptimizer`.
            update_frequency: likewise.
            increase_factor: likewise.
            max_loss_scaling_factor: likewise.
            accumulate_statistics_over_update_period: likewise.
            ratio_threshold: likewise.
            captured_grads_only: likewise.
            lpf_alpha: likewise.
            histogram_bin_edge: likewise.
            name: name of this optimizer.

        Raises:
            ValueError: If an argument is not allowed.
        """
        _check_learning_rate(ALSOptimizerRMSProp, learning_rate)
        super().__init__(
            _legacy.RMSprop(learning_rate, rho, momentum, epsilon, centered),
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
            name=name,
        )


@registered
class ALSOptimizerSGD(_ALSOptimizerWithInner):
    """Gradient descent, with or without momentum, with automatic loss scaling."""

    _hyperparameters = ("learning_rate", "momentum")

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 8192,
        name: str = "ALSOptimizerSGD",
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: see `tf.keras.optimizers.legacy.SGD`.
            momentum: likewise.
            initial_loss_scaling_factor: see `ALSOptimizer`.
            update_frequency: likewise.
            increase_factor: likewise.
            max_loss_scaling_factor: likewise.
            accumulate_statistics_over_update_period: likewise.
            ratio_threshold: likewise.
            captured_grads_only: likewise.
            lpf_alpha: likewise.
            histogram_bin_edge: likewise.
            name: name of this optimizer.

        Raises:
            ValueError: If an argument is not allowed.
        """
        _check_learning_rate(ALSOptimizerSGD, learning_rate)
        super().__init__(
            _legacy.SGD(learning_rate, momentum),
            initial_loss_scaling_factor=initial_loss_scaling_factor,
            update_frequency=update_frequency,
            increase_factor=increase_factor,
            max_loss_scaling_factor=max_loss_scaling_factor,
            accumulate_statistics_over_update_period=accumulate_statistics_over_update_period,
            ratio_threshold=ratio_threshold,
            captured_grads_only=captured_grads_only,
            lpf_alpha=lpf_alpha,
            histogram_bin_edge=histogram_bin_edge,
            name=name,
        )
