"""Losses."""

from __future__ import annotations

from typing import Any, Literal, get_args

import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, dtypes, tensor
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.tensor import Tensor

REDUCTION_TYPE = Literal["mean", "sum", "none"]
_REDUCTIONS = get_args(REDUCTION_TYPE)
# What probabilities are at least, so that logarithms and quotients are finite.
_EPSILON = {tf.float16: 6.104e-5, tf.float32: 1e-7}
_GRADIENT_EPSILON = {tf.float16: 6.104e-5, tf.float32: 1e-10}


def _loss_spec(specs: shapes.Specs, reduction: str, **_: Any) -> list[TensorSpec]:
    probs, labels = specs[:2]
    if labels.shape != probs.shape[:-1]:
        raise popart_exception(
            f"Nll: the labels must have shape {probs.shape[:-1]}, that of the probabilities "
            f"without the classes. Received: {labels.shape}"
        )
    return [probs.with_shape(labels.shape if reduction == "none" else ())]


def _with_gradient_spec(specs: shapes.Specs, reduction: str, **_: Any) -> list[TensorSpec]:
    """The rule of a loss whose labels may have any shape with an element for each item."""
    probs, labels = specs[:2]
    if labels.nelms * probs.shape[-1] != probs.nelms:
        raise popart_exception(
            f"Nll: the labels must have shape {probs.shape[:-1]}, or another one with as many "
            f"elements. Received: {labels.shape}"
        )
    return [probs.with_shape(labels.shape if reduction == "none" else ()), probs]


def _mask(probs: Any, labels: Any, ignore_index: int | None) -> Any:
    """1 at the label of each item; 0 for all classes of items that are ignored."""
    labels = tf.cast(labels, tf.int32)
    mask = tf.one_hot(labels, probs.shape[-1], dtype=probs.dtype)
    if ignore_index is None:
        return mask
    counted = tf.cast(tf.not_equal(labels, ignore_index), probs.dtype)
    return mask * counted[..., tf.newaxis]


def _count(labels: Any, ignore_index: int | None, dtype: Any) -> Any:
    """The number of items that are not ignored, at least 1."""
    if ignore_index is None:
        return tf.constant(max(1, labels.shape.num_elements()), dtype)
    counted = tf.not_equal(tf.cast(labels, tf.int32), ignore_index)
    return tf.maximum(tf.reduce_sum(tf.cast(counted, dtype)), tf.constant(1, dtype))


def _reduced(items: Any, labels: Any, ignore_index: int | None, reduction: str) -> Any:
    if reduction == "none":
        return items
    total = tf.reduce_sum(items)
    return total if reduction == "sum" else total / _count(labels, ignore_index, items.dtype)


def _loss(probs: Any, labels: Any, ignore_index: int | None, reduction: str, log_prob: bool) -> Any:
    mask = _mask(probs, labels, ignore_index)
    if log_prob:
        logarithms = probs
    else:
        logarithms = tf.math.log(tf.maximum(probs, tf.constant(_EPSILON[probs.dtype], probs.dtype)))
    items = -tf.reduce_sum(tf.where(mask > 0, logarithms, tf.zeros_like(probs)), -1)
    return _reduced(items, labels, ignore_index, reduction)


def _loss_gradient(
    inputs: Any,
    outputs: Any,
    gradients: Any,
    ignore_index: int | None,
    reduction: str,
    log_prob: bool,
) -> list[Any]:
    probs, labels = inputs
    dtype = probs.dtype
    slope = -_mask(probs, labels, ignore_index)
    if not log_prob:
        slope = slope / tf.maximum(probs, tf.constant(_GRADIENT_EPSILON[dtype], dtype))
    scale = gradients[0][..., tf.newaxis] if reduction == "none" else gradients[0]
    if reduction == "mean":
        scale = scale / _count(labels, ignore_index, dtype)
    return [slope * scale, None]


def _with_gradient(
    probs: Any, labels: Any, loss_grad: Any, ignore_index: int | None, reduction: str
) -> list[Any]:
    dtype, shape = probs.dtype, labels.shape
    labels = tf.reshape(labels, probs.shape[:-1])
    if reduction == "none" and loss_grad.shape.rank:
        loss_grad = tf.reshape(loss_grad, labels.shape)
    mask = _mask(probs, labels, ignore_index)
    logarithms = tf.math.log(probs + tf.constant(_EPSILON[tf.float32], dtype))
    items = -tf.reduce_sum(mask * logarithms, -1)
    counted = tf.reduce_sum(mask, -1, keepdims=True)
    slope = (probs * counted - mask) * tf.cast(
        loss_grad[..., tf.newaxis] if reduction == "none" else loss_grad, dtype
    )
    if reduction == "mean":
        slope = slope / _count(labels, ignore_index, dtype)
    loss = _reduced(items, labels, ignore_index, reduction)
    return [tf.reshape(loss, shape) if reduction == "none" else loss, slope]


_NLL = register(OpKind("Nll", _loss_spec, _loss, _loss_gradient))
_NLL_WITH_GRADIENT = register(
    OpKind("NlllWithSoftmaxGradDirect", _with_gradient_spec, _with_gradient, GradientRule.REFUSED)
)


def nll_loss(
    probs: Tensor,
    labels: Tensor,
    ignore_index: int | None = None,
    reduction: str = "mean",
    log_prob: bool = False,
) -> Tensor:
    """Returns the negative logarithm of the probabilities of the labels.

    Args:
        probs: probabilities, with the classes in the last dimension.
        labels: the class of each item, an integer.
        ignore_index: a label whose items do not count.
        reduction: "mean" over the items that count, "sum", or "none".
        log_prob: whether `probs` are logarithms already.

    Raises:
        ValueError: If the reduction is another one.
        popart.popart_exception: If shapes do not fit.
    """
    _check_reduction(reduction)
    return building.add(
        _NLL,
        probs,
        labels,
        name="loss",
        ignore_index=ignore_index,
        reduction=reduction,
        log_prob=log_prob,
    )


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: float | Tensor = 1,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Returns the loss of probabilities, and its gradient for the operand of their softmax.

    Args:
        probs: probabilities that `softmax` returned, with the classes in the last dimension.
        labels: the class of each item, an integer, in any shape.
        loss_grad: the gradient of the loss.
        ignore_index: a label whose items do not count.
        reduction: "mean" over the items that count, "sum", or "none".

    Returns:
        The loss as of `nll_loss`, and the gradient.

    Raises:
        ValueError: If the reduction is another one.
        popart.popart_exception: If shapes do not fit.
    """
    _check_reduction(reduction)
    given = tensor.as_tensor(loss_grad, dtypes.float32)
    loss, gradient = building.add_all(
        _NLL_WITH_GRADIENT,
        [probs, labels, given],
        ["loss", "gradient"],
        ignore_index=ignore_index,
        reduction=reduction,
    )
    return loss, gradient


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"Not a valid reduction: {reduction!r}. Expected one of: {', '.join(_REDUCTIONS)}."
        )
