"""One step of training on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu import _optimizer_steps
from tensorflow_ipu.keras_layers.models import checks
from tensorflow_ipu.keras_layers.optimizers import accumulation, step

# Makes a step of an optimizer. Takes the loss, the variables and the tape that recorded it;
# returns an operation that has to run.
_Minimize = Callable[[tf.Tensor, Any, tf.GradientTape], Any]


def train_step(model: Any) -> Callable[[Any], dict[str, Any]]:
    """Returns the training step of a model.

    Args:
        model: An extended model that is not pipelined.

    Returns:
        A function from the data of a step to its logs. It is the model's own step or else Keras's,
        unless gradients are accumulated or captured.
    """
    if checks.is_overridden(model, "train_step"):
        return lambda data: model.train_step(data)
    if (model._ipu_options.gradient_accumulation_steps_per_replica or 1) > 1:
        return lambda data: _step(model, data, lambda *loss: _accumulated(model, *loss))
    optimizer = model.optimizer
    if _optimizer_steps.takes_captured_gradients(optimizer):
        return lambda data: _step(model, data, lambda *loss: step.minimize(optimizer, *loss))
    return lambda data: model.train_step(data)


def _step(model: Any, data: Any, minimize: _Minimize) -> dict[str, Any]:
    """Does what Keras's step does, with another way to minimize the loss."""
    x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight)
    model._validate_target_and_loss(y, loss)
    update = minimize(loss, model.trainable_variables, tape)
    with tf.control_dependencies([] if update is None else [update]):
        return model.compute_metrics(x, y, y_pred, sample_weight)


def _accumulated(
    model: Any, loss: tf.Tensor, variables: Any, tape: tf.GradientTape
) -> tf.Operation:
    """Updates the weights after the last of several mini-batches."""
    options = model._ipu_options
    return accumulation.minimize_accumulated(
        model.optimizer,
        loss,
        variables,
        tape,
        options.gradient_accumulation_steps_per_replica,
        options.gradient_accumulation_reduction_method,
        **options.gradient_accumulation_optimizer_kwargs,
    )
