"""Accumulates gradients for Keras optimizers in the body of a loop on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.gradient_accumulation import (
    GradientAccumulationReductionMethod,
    MiniBatches,
)
from tensorflow_ipu.compiler.analysis import memory_options
from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE
from tensorflow_ipu.keras_layers.optimizers import step
from tensorflow_ipu.training import optimizer_steps
from tensorflow_ipu.training.accumulators import AccumulatorDtype, accumulator_dtype


def apply_accumulated(
    optimizer: Any,
    grads_and_vars: Sequence[tuple[Any, tf.Variable]],
    count: int,
    method: GradientAccumulationReductionMethod,
    memory: Mapping[str, bool | None] | None = None,
    dtype: AccumulatorDtype = None,
    name: str = "GradientAccumulation",
    captured_grads: Mapping[str, Any] | None = None,
    **apply_arguments: Any,
) -> tf.Operation:
    """Accumulates gradients, and lets an optimizer apply them after the last mini-batch.

    Args:
        optimizer: a Keras optimizer, of either generation, or one of TensorFlow 1 as Keras wraps
            it.
        grads_and_vars: gradients of a mini-batch and their variables.
        count: Mini-batches for one update.
        method: how the gradients of mini-batches become one.
        memory: where variables are kept: see `compiler.memory_options.check_options`.
        dtype: type of the accumulators: see `accumulators.accumulator_dtype`.
        name: name for the operations.
        captured_grads: captured gradients by tag: tensors or structures of tensors. They are
            accumulated likewise, if the optimizer takes them.
        **apply_arguments: further arguments of `optimizer.apply_gradients`.

    Returns:
        The operation to run with every mini-batch.
    """
    pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
    make_variables(optimizer, [variable for _, variable in pairs])
    memory_options.check_options(dict(memory or {}))
    description = {
        "optimizer": type(optimizer).__name__,
        "name": name,
        "num_mini_batches": count,
        "reduction_method": method.name,
        "wrapped_by": None,
        "memory": dict(memory or {}),
    }
    batches = MiniBatches(count, ACCUMULATION_ATTRIBUTE, description, name)
    totals = [
        (
            batches.accumulate(
                gradient, accumulator_dtype(dtype, variable), method, f"{name}/accumulator"
            ),
            variable,
        )
        for gradient, variable in pairs
    ]
    takes_captured = optimizer_steps.takes_captured_gradients(optimizer)
    captured = tf.nest.map_structure(
        lambda gradient: batches.accumulate(
            gradient, accumulator_dtype(dtype, gradient), method, f"{name}/captured"
        ),
        dict(captured_grads or {}) if takes_captured else {},
    )

    def update() -> list[tf.Operation]:
        values = [(tf.cast(total.value(), variable.dtype), variable) for total, variable in totals]
        found = tf.nest.map_structure(lambda total: total.value(), captured)
        done = optimizer_steps.apply_gradients(optimizer, values, found, **apply_arguments)
        return [] if done is None else [done.op if tf.is_tensor(done) else done]

    return batches.then_update(update)


def make_variables(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Makes the variables of an optimizer, outside of what is being traced.

    An optimizer makes them when it first applies gradients, which may be inside a conditional.

    Args:
        optimizer: a Keras optimizer, of either generation, or one of TensorFlow 1 as Keras wraps
            it.
        variables: what it will train.
    """
    if optimizer_steps.native_optimizer(optimizer) is not None:
        return  # makes them outside itself
    with tf.init_scope():
        if hasattr(optimizer, "_create_all_weights"):
            optimizer._create_all_weights(variables)
        else:
            optimizer.build(variables)


def minimize_accumulated(
    optimizer: Any,
    loss: tf.Tensor,
    variables: Sequence[tf.Variable],
    tape: tf.GradientTape,
    count: int,
    method: GradientAccumulationReductionMethod,
    dtype: AccumulatorDtype = None,
    name: str = "GradientAccumulation",
    **memory: bool | None,
) -> tf.Operation:
    """Minimizes the loss of several mini-batches with one update.

    Args:
        optimizer: a Keras optimizer, of either generation, or one of TensorFlow 1 as Keras wraps
            it.
        loss: the loss of a mini-batch, a scalar.
        variables: what to train.
        tape: has recorded the loss.
        count: Mini-batches for one update.
        method: how the gradients of mini-batches become one.
        dtype: type of the accumulators: see `accumulators.accumulator_dtype`.
        name: name for the operations.
        **memory: where variables are kept: see `compiler.memory_options.check_options`.

    Returns:
        The operation to run with every mini-batch.
    """
    gradients, captured = step.compute_gradients(optimizer, loss, variables, tape)
    return apply_accumulated(
        optimizer, gradients, count, method, memory, dtype, name, captured_grads=captured
    )
