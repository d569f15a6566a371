"""The two halves of an optimizer's step: computing gradients and applying them.

Gradient accumulation, pipelines and gradient capture come between the gradients and the update. The
optimizer itself computes the gradients, through the methods that Keras's own `minimize` calls. So
an optimizer that scales the loss does so here as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.ops import gradients
from tensorflow.python.training import optimizer as v1_optimizer

from tensorflow_ipu.ops import grad_util_ops

_Pairs = list[tuple[Any, Any]]


def compute_gradients(
    optimizer: Any, loss: Any, variables: Sequence[Any], tape: Any = None
) -> _Pairs:
    """Computes the pairs of gradient and variable for `optimizer.apply_gradients`.

    Args:
        optimizer: a Keras optimizer of either generation, one of TensorFlow 1 as Keras wraps it,
            or another object with `apply_gradients`.
        loss: the loss, a tensor, as the user means it. An optimizer that scales it does so here.
        variables: the variables to differentiate by.
        tape: a `tf.GradientTape` that recorded the loss, and may be recording still. None to
            differentiate the graph.

    Returns:
        Pairs of gradient and variable. Some gradients may be scaled still, for `apply_gradients`
        to undo; None where the loss does not depend on the variable.
    """
    variables = list(variables)
    native = native_optimizer(optimizer)
    if native is not None:  # differentiates graphs only
        return list(native.compute_gradients(loss, variables))
    source = _GraphGradients() if tape is None else reentrant(tape)
    if hasattr(optimizer, "_compute_gradients"):  # Keras up to 2.10, now "legacy"
        return list(optimizer._compute_gradients(loss, var_list=variables, tape=source))
    if hasattr(optimizer, "compute_gradients"):
        return list(optimizer.compute_gradients(loss, variables, tape=source))
    return list(zip(source.gradient(loss, variables), variables))


def apply_gradients(
    optimizer: Any, pairs: _Pairs, captured: Mapping[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """Applies gradients, and passes captured ones on to an optimizer that wants them.

    Args:
        optimizer: the optimizer.
        pairs: pairs of gradient and variable, as from `compute_gradients`.
        captured: captured gradients by tag: tensors or structures of tensors.
        *args: further arguments of `optimizer.apply_gradients`.
        **kwargs: likewise.

    Returns:
        The result of `optimizer.apply_gradients`.
    """
    if captured and takes_captured_gradients(optimizer):
        kwargs.setdefault("captured_grads", dict(captured))
    native = native_optimizer(optimizer)
    if native is not None:  # the method of Keras's wrapper returns nothing to wait for
        return native.apply_gradients(pairs, *args, global_step=optimizer.iterations, **kwargs)
    return optimizer.apply_gradients(pairs, *args, **kwargs)


def native_optimizer(optimizer: Any) -> Any:
    """Returns the optimizer of TensorFlow 1 that Keras has wrapped for `compile`, or None.

    Args:
        optimizer: the optimizer of a Keras model.
    """
    inner = getattr(optimizer, "optimizer", None)
    return inner if isinstance(inner, v1_optimizer.Optimizer) else None


def takes_captured_gradients(optimizer: Any) -> bool:
    """Returns whether an optimizer wants captured gradients.

    It says so itself with a property `supports_captured_grads`, or else its `apply_gradients` has
    the argument `captured_grads`.

    Args:
        optimizer: the optimizer.
    """
    stated = getattr(optimizer, "supports_captured_grads", None)
    if stated is not None:
        return bool(stated)
    return "captured_grads" in inspect.signature(optimizer.apply_gradients).parameters


def reentrant(tape: Any) -> Any:
    """Returns a tape that may be entered while it records.

    An optimizer that scales the loss enters the tape to record the scaling. The tape of a pipeline
    is recording already: the whole pipeline is built in its scope.

    Args:
        tape: a `tf.GradientTape`, or a result of this function.
    """
    return _ReentrantTape(tape) if isinstance(tape, backprop.GradientTape) else tape


class _GraphGradients:
    """The interface of a `tf.GradientTape`, for a loss in the graph that is being built."""

    def __enter__(self) -> _GraphGradients:
        return self

    def __exit__(self, *error: Any) -> None:
        """Does nothing: a graph records everything."""

    def gradient(
        self, target: Any, sources: Sequence[Any], output_gradients: Any = None
    ) -> list[Any]:
        """Differentiates `target` by the variables `sources`."""
        handles = [variable.handle for variable in sources]
        return list(gradients.gradients(target, handles, grad_ys=output_gradients))


class _ReentrantTape:
    """See `reentrant`."""

    def __init__(self, tape: Any) -> None:
        self._tape = tape
        self._entered = False

    def __enter__(self) -> _ReentrantTape:
        if not self._tape._recording:
            self._tape.__enter__()
            self._entered = True
        return self

    def __exit__(self, *error: Any) -> None:
        if self._entered:
            self._entered = False
            self._tape.__exit__(*error)

    def watch(self, variables: Any) -> None:
        """Makes the tape watch variables."""
        self._tape.watch(variables)

    def gradient(
        self, target: Any, sources: Sequence[Any], output_gradients: Any = None
    ) -> list[Any]:
        """Differentiates `target` by the variables `sources`."""
        return list(self._tape.gradient(target, sources, output_gradients))


# --- One training step with any Keras optimizer ---


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
    if not takes_captured_gradients(optimizer):
        with grad_util_ops.GradientCaptureContext():
            return optimizer.minimize(loss, variables, tape=tape)
    pairs, captured = compute_captured_gradients(optimizer, loss, variables, tape)
    return apply_gradients(optimizer, pairs, captured)


def compute_captured_gradients(
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
        pairs = compute_gradients(optimizer, loss, variables, tape)
    return pairs, context.captured_gradients
