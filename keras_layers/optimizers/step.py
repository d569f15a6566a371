"""One training step with any Keras optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.ops import grad_util_ops, optimizer_steps


def minimize(
    optimizer: Any, loss: tf.Tensor, variables: Sequence[tf.Variable], tape: tf.GradientTape
) -> Any:
    """Makes a step like `optimizer.minimize`, with captured gradients for those that take them.

    Args:
        optimizer: a Keras optimizer of either generation.
        loss: the loss, a scalar.
        variables: the variables to train.
        tape: has recorded the loss.

    Returns:
        What `optimizer.minimize` or `optimizer.apply_gradients` returns.
    """
    if not optimizer_steps.takes_captured_gradients(optimizer):
        with grad_util_ops.GradientCaptureContext():
            return optimizer.minimize(loss, variables, tape=tape)
    pairs, captured = compute_gradients(optimizer, loss, variables, tape)
    return optimizer_steps.apply_gradients(optimizer, pairs, captured)


def compute_gradients(
    optimizer: Any, loss: tf.Tensor, variables: Sequence[tf.Variable], tape: tf.GradientTape
) -> tuple[list[tuple[Any, Any]], dict[str, Any]]:
    """Computes gradients for `optimizer.apply_gradients`, and the captured gradients.

    Args:
        optimizer: a Keras optimizer of either generation. If it scales the loss, it does so here.
        loss: the loss, a scalar.
        variables: the variables to differentiate by.
        tape: has recorded the loss.

    Returns:
        Pairs of gradient and variable, and the captured gradients by tag.
    """
    with grad_util_ops.GradientCaptureContext() as context:
        pairs = optimizer_steps.compute_gradients(optimizer, loss, variables, tape)
    return pairs, context.captured_gradients
