"""Gives recurrent layers gradients of their own, and runs them outside programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

Tensors = Sequence[tf.Tensor]
# Takes a hashable description of what is computed, and tensors.
Function = Callable[..., Any]


def differentiable(
    forward: Function, backward: Function, static: Hashable, arguments: Tensors, results: int
) -> list[tf.Tensor]:
    """Computes something whose gradient is computed by hand.

    Automatic differentiation of a loop adds up the weights' gradients at each step. Backward
    functions here leave that to one matrix product for all steps.

    Args:
        forward: called with `static` and the arguments. Returns the results, and after them tensors
            to be kept for `backward`.
        backward: called with `static`, the arguments, what `forward` returned, and the gradients of
            the results. Returns the gradients of the arguments.
        static: what else the two need; equal values give equal computations.
        arguments: tensors of floating-point numbers.
        results: how many there are.

    Returns:
        The results.
    """

    @tf.custom_gradient
    def compute(*arguments: tf.Tensor) -> Any:
        values = list(_run(forward, static, *arguments))

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            gradients = _run(backward, static, *arguments, *values, *upstream)
            # TensorFlow does not see what the kept tensors depend on, so a second derivative
            # would lack terms: better an error.
            message = "Recurrent layers have first derivatives only."
            return [tf.raw_ops.PreventGradient(input=g, message=message) for g in gradients]

        return values[:results], gradient

    # Not variables: custom gradients take those for hidden inputs.
    return list(compute(*(tf.convert_to_tensor(argument) for argument in arguments)))


def _run(function: Function, static: Hashable, *tensors: tf.Tensor) -> Any:
    """Calls a function; outside graphs as a graph, so that no step of a loop is in Python."""
    if tf.executing_eagerly():
        return _graph_function(function, static)(*tensors)
    return function(static, *tensors)


@functools.lru_cache(maxsize=256)
def _graph_function(function: Function, static: Hashable) -> Function:
    result: Function = tf.function(functools.partial(function, static), autograph=False)
    return result


def without_gradient(x: tf.Tensor, layer: str) -> tf.Tensor:
    """Returns a tensor that has no gradient.

    Args:
        x: what a layer computed for inference.
        layer: name of the layer, for the error that asking for the gradient raises.
    """

    @tf.custom_gradient
    def identity(x: tf.Tensor) -> Any:
        def gradient(_: tf.Tensor) -> NoReturn:
            raise ValueError(
                f"{layer} was called with training=False and has no gradient. Call it with "
                "training=True, or do not differentiate with respect to its inputs and weights."
            )

        return tf.identity(x), gradient

    return identity(tf.convert_to_tensor(x))
