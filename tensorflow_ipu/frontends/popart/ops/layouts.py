"""Layouts of images: ONNX has channels second, TensorFlow's kernels have them last.

A tensor that an op makes with channels last keeps that form beside the one of ONNX. Ops that can
take either go on with it, so that a network is transposed where it begins and ends and not around
each op. What nobody takes is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# On a tensor of ONNX's layout: the same with channels last.
_LAST = "_popart_channels_last"


def last_of(x: Any) -> Any:
    """Returns the form of a tensor with channels last, if there is one already; else None.

    Args:
        x: the tensor [batch, channels, ...].
    """
    return getattr(x, _LAST, None)


def channels_last(x: Any) -> Any:
    """Returns a tensor with channels last.

    Args:
        x: the tensor [batch, channels, ...].
    """
    found = last_of(x)
    if found is not None:
        return found
    return tf.transpose(x, [0, *range(2, x.shape.rank), 1])


def channels_second(y: Any) -> Any:
    """Returns a tensor in ONNX's layout, which keeps the other form.

    Args:
        y: the tensor [batch, ..., channels].
    """
    rank = y.shape.rank
    result = tf.transpose(y, [0, rank - 1, *range(1, rank - 1)])
    setattr(result, _LAST, y)
    return result


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of elements go on with channels last where its inputs have that form.

    Args:
        function: takes tensors; each element of the result is of those at the same place.
    """

    def computed(*tensors: Any) -> Any:
        forms = [last_of(tensor) for tensor in tensors]
        same = all(tensor.shape == tensors[0].shape for tensor in tensors)
        if not same or any(form is None for form in forms):
            return function(*tensors)
        return channels_second(function(*forms))

    return computed


def gradients(loss: Any, tensors: Sequence[Any], start: Any) -> list[Any]:
    """Returns gradients by tensors that ops may have gone on with in the other form.

    Args:
        loss: the tensor or tensors to differentiate.
        tensors: the tensors to differentiate by.
        start: the gradient of the loss, or of each.
    """
    forms = [last_of(tensor) for tensor in tensors]
    wanted = [tensor if form is None else form for tensor, form in zip(tensors, forms)]
    found = tf.gradients(loss, wanted, grad_ys=start)
    return [
        gradient if form is None or gradient is None else channels_second(gradient)
        for gradient, form in zip(found, forms)
    ]
