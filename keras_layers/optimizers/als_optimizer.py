"""Automatic loss scaling for Keras optimizers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.optimizers import loss_scale
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import statistics_ops

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
    """Makes a property that says what is wrong when it is set."""

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
            increase_factor: what the factor is multiplied with or divided by, a power of two.
            max_loss_scaling_factor: the factor stays below this power of two.
            accumulate_statistics_over_update_period: whether gradients are counted in each call,
                not only in those with an update.
            ratio_threshold: part of the gradients, in (0, 1), above which the factor gets smaller
                when they are large.
            captured_grads_only: whether only captured gradients are counted.
            lpf_alpha: weight of the old histogram in the new one.
            histogram_bin_edge: gradients whose absolute value is not below are large.
            name: name of this optimizer; by default that of its class.

        Raises:
            ValueError: If an argument is not allowed.
        """
        super().__init__(opt, name)
        rule = loss_scale.LossScaleRule(
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
        state = loss_scale.State(initial_loss_scaling_factor)
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
