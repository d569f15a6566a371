"""The rule of automatic loss scaling, and its state."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.configs.ranges import COUNT, PROPORTION, shown
from tensorflow_ipu.ops import cross_replica_ops


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
        """Makes the variables, outside of what is being traced."""

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
