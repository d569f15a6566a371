"""One training step of a Keras model on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.keras_layers import padded_losses
from tensorflow_ipu.keras_layers.models import checks
from tensorflow_ipu.keras_layers.optimizers import accumulation, step
from tensorflow_ipu.ops import grad_util_ops
from tensorflow_ipu.training import optimizer_steps

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

# Makes a step of an optimizer. Takes the loss, the variables and the tape that recorded it;
# returns an operation that has to run.
_Minimize = Callable[[tf.Tensor, Any, tf.GradientTape], Any]


def train_step(model: IPUModel, sizes: Sequence[int] = ()) -> Callable[[Any], dict[str, Any]]:
    """Returns the training step of a model.

    Args:
        model: an extended model that is not pipelined.
        sizes: the numbers of real rows that batches have, if they are padded: the step then takes
            pairs of data and marks (see `padding.Batches`).

    Returns:
        A function from the data of a step to its logs. It is the model's own step or else Keras's,
        unless gradients are accumulated or captured, or batches are padded.

    Raises:
        RuntimeError: If batches are padded and the model has a step of its own.
    """
    if checks.is_overridden(model, "train_step"):
        if sizes:
            raise RuntimeError(
                f"The function `train_step` for the model {model.name} has been overridden, and "
                "fit() leaves padding out of losses and metrics in Keras's own step only. Use "
                "data whose number is a multiple of the batch size."
            )
        return functools.partial(_step_of_model, model)
    optimizer = model.optimizer
    minimize: _Minimize = functools.partial(step.minimize, optimizer)
    if checks.accumulation_steps(model) > 1:
        minimize = functools.partial(_accumulated, model)
    elif not sizes and not optimizer_steps.takes_captured_gradients(optimizer):
        return functools.partial(_step_of_model, model)
    if sizes:
        return lambda element: _padded_step(model, element, minimize, sizes)
    return lambda data: _step(model, data, minimize)


def _step_of_model(model: IPUModel, data: Any) -> dict[str, Any]:
    """Does the step that the model has, with a context for layers that capture gradients."""
    with grad_util_ops.GradientCaptureContext():
        logs: dict[str, Any] = model.train_step(data)
    return logs


def _step(model: IPUModel, data: Any, minimize: _Minimize) -> dict[str, Any]:
    """Does what Keras's step does, with another way to minimize the loss."""
    x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight)
    model._validate_target_and_loss(y, loss)
    update = minimize(loss, model.trainable_variables, tape)
    with tf.control_dependencies([] if update is None else [update]):
        return model.compute_metrics(x, y, y_pred, sample_weight)


def _padded_step(
    model: IPUModel, element: Any, minimize: _Minimize, sizes: Sequence[int]
) -> dict[str, Any]:
    """Does what Keras's step does with the real rows of a batch."""
    data, marks = element
    batch = tf.keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(batch[0], training=True)
        added = padded_losses.adding_layers(model)
        loss, logs = padded_losses.loss_and_logs(
            model, sizes, marks, batch, y_pred, list(model.losses), training=True
        )
    padded_losses.warn_of_whole_batches(model, added)
    update = minimize(loss, model.trainable_variables, tape)
    with tf.control_dependencies([] if update is None else [update]):
        return tf.nest.map_structure(tf.identity, logs)


def _accumulated(
    model: IPUModel, loss: tf.Tensor, variables: Any, tape: tf.GradientTape
) -> tf.Operation:
    """Updates the weights after the last of several mini-batches."""
    options = model._ipu_options
    return accumulation.minimize_accumulated(
        model.optimizer,
        loss,
        variables,
        tape,
        checks.accumulation_steps(model),
        options.gradient_accumulation_reduction_method,
        **options.gradient_accumulation_optimizer_kwargs,
    )
