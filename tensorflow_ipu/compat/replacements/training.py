"""Losses and training steps of `contrib.seq2seq`, `contrib.layers` and `contrib.training`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the weighted cross entropy of sequences.

    Args:
        logits: floats, shape [batch, time, classes].
        targets: integers, shape [batch, time].
        weights: floats, shape [batch, time].
        average_across_timesteps: whether to divide by the weights over time.
        average_across_batch: whether to divide by the weights over the batch.
        softmax_loss_function: with the arguments `labels` and `logits`; else the sparse one.
        name: of the op.

    Returns:
        Floats, without the dimensions that were averaged.

    Raises:
        ValueError: an argument has another rank.
    """
    for what, value, rank in (("Logits", logits, 3), ("Targets", targets, 2)):
        if len(value.shape) != rank:
            raise ValueError(
                f"{what} must be a {rank}-dimensional tensor. Received: shape {value.shape}."
            )
    if len(weights.shape) != 2:
        raise ValueError(
            f"Weights must be a 2-dimensional tensor. Received: shape {weights.shape}."
        )
    function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with _v1.name_scope(name, "sequence_loss", [logits, targets, weights]):
        losses = function(labels=targets, logits=logits) * weights
        axes = [
            int(axis)
            for axis, on in enumerate((average_across_batch, average_across_timesteps))
            if on
        ]
        if not axes:
            return losses
        # Against a division by zero, where all weights are.
        return tf.reduce_sum(losses, axes) / (tf.reduce_sum(weights, axes) + 1e-12)


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = None,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Any], Any] | None = None,
    check_numerics: bool = True,
) -> tf.Tensor:
    """Returns the loss, evaluated after a training step.

    Args:
        total_loss: shape [].
        optimizer: of the TensorFlow 1 kind.
        global_step: counts steps; the graph's, if not given.
        update_ops: ops to run before; the collection `UPDATE_OPS`, if not given.
        variables_to_train: the trainable ones, if not given.
        transform_grads_fn: changes the list of gradients and variables.
        check_numerics: whether a loss that is not finite is an error.
    """
    step = global_step if global_step is not None else _v1.train.get_or_create_global_step()
    updates = update_ops if update_ops is not None else _v1.get_collection(_v1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(list(updates)):
        total_loss = tf.identity(total_loss)
    gradients = optimizer.compute_gradients(total_loss, variables_to_train)
    if transform_grads_fn is not None:
        gradients = transform_grads_fn(gradients)
    applied = optimizer.apply_gradients(gradients, global_step=step)
    if check_numerics:
        total_loss = tf.debugging.check_numerics(total_loss, "LossTensor is inf or nan")
    with tf.control_dependencies([applied]):
        train_op = tf.identity(total_loss, name="train_op")
    _v1.add_to_collection(_v1.GraphKeys.TRAIN_OP, train_op)
    return train_op


_OPTIMIZERS = {
    "Adagrad": _v1.train.AdagradOptimizer,
    "Adam": _v1.train.AdamOptimizer,
    "Ftrl": _v1.train.FtrlOptimizer,
    "Momentum": lambda rate: _v1.train.MomentumOptimizer(rate, momentum=0.9),
    "RMSProp": _v1.train.RMSPropOptimizer,
    "SGD": _v1.train.GradientDescentOptimizer,
}


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    clip_gradients: float | None = None,
    learning_rate_decay_fn: Callable[..., Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Returns the loss, evaluated after a training step.

    Args:
        loss: shape [].
        global_step: counts steps.
        learning_rate: number or tensor of shape [].
        optimizer: its name, class, or an instance.
        clip_gradients: largest norm of all gradients together.
        learning_rate_decay_fn: of the learning rate and the step.
        variables: the trainable ones, if not given.
        name: of the scope.

    Raises:
        ValueError: there is no optimizer of this name.
    """
    with _v1.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        rate = learning_rate
        if learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, global_step)
        if isinstance(optimizer, str):
            if optimizer not in _OPTIMIZERS:
                raise ValueError(
                    f"Optimizer name should be one of [{', '.join(_OPTIMIZERS)}], you provided "
                    f"{optimizer}."
                )
            optimizer = _OPTIMIZERS[optimizer]
        instance = optimizer if isinstance(optimizer, _v1.train.Optimizer) else optimizer(rate)

        def clipped(gradients: Any) -> Any:
            values, trained = zip(*gradients)
            return zip(tf.clip_by_global_norm(values, clip_gradients)[0], trained)

        return create_train_op(
            loss,
            instance,
            global_step,
            variables_to_train=variables,
            transform_grads_fn=clipped if clip_gradients is not None else None,
            check_numerics=False,
        )
