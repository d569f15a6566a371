"""Captures gradients in the middle of a model: the public module `ipu.grad_util_ops`.

with ipu.eager.backprop.GradientCaptureTape() as tape:
    hidden = grad_util_ops.capture_upstream_gradients(layer(x), tag="hidden")
    loss = head(hidden)
gradients = tape.gradient(loss, weights)
tape.captured_gradients["hidden"]  # [the derivative of the loss by `hidden`]
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.api.eager.backprop import GradientCaptureContext
from tensorflow_ipu.ops.outlining import capture_points

__all__ = ["GradientCaptureContext", "capture_upstream_gradients"]


def capture_upstream_gradients(args: Any, tag: str = "") -> Any:
    """Returns its argument, and records the gradients that come back through it.

    They are recorded in a context or tape of `ipu.eager.backprop`. Computing gradients needs one;
    without gradients, as in inference, there need be none.

    Args:
        args: a tensor or a structure of tensors.
        tag: what the gradients are called in the context, where nothing else has that name.

    Returns:
        A structure like `args`, to be used in place of it.

    Raises:
        TypeError: If `tag` is not a string.
        RuntimeError: When gradients are computed, if there is no context or tape.
        ValueError: When gradients are computed, if the context has some with this tag.
    """
    if not isinstance(tag, str):
        raise TypeError(f"The tag of captured gradients must be a string. Received: tag={tag!r}")
    flat = [tf.convert_to_tensor(value) for value in tf.nest.flatten(args)]
    if not flat:
        return args
    point = capture_points.Point(tag, flat)

    @tf.custom_gradient
    def captured(*arguments: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        def gradient(*upstream: tf.Tensor) -> list[Any]:
            gradients = [tf.convert_to_tensor(value) for value in upstream]
            return [*gradients, *point.came_back(gradients)]

        return [tf.identity(tensor) for tensor in arguments[: len(flat)]], gradient

    return tf.nest.pack_sequence_as(args, tf.nest.flatten(captured(*flat, *point.carriers)))
