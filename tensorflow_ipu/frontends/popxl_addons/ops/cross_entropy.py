"""The loss of a classifier, from its logits."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["cross_entropy", "cross_entropy_with_grad"]


def cross_entropy(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> popxl.Tensor:
    """Returns the cross entropy of logits and labels.

    Args:
        x: logits, with the classes in the last dimension.
        labels: the class of each item, integers.
        ignore_index: a label whose items do not count.
        reduction: "mean" over the items that count, "sum", or "none".

    Returns:
        The loss, in the type of the logits.

    Raises:
        ValueError: If the reduction is another one.
    """
    return ops.nll_loss(ops.softmax(x, -1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float | popxl.Tensor = 1,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Returns the cross entropy of logits and labels, and its gradient.

    Args:
        x: logits, with the classes in the last dimension.
        labels: the class of each item, integers.
        loss_scaling: a factor of the gradient; the loss is not scaled.
        ignore_index: a label whose items do not count.
        reduction: "mean" over the items that count, "sum", or "none".

    Returns:
        The loss, and the gradient with respect to the logits.

    Raises:
        ValueError: If the reduction is another one.
    """
    probs = ops.softmax(x, -1)
    return ops.nll_loss_with_softmax_grad(probs, labels, loss_scaling, ignore_index, reduction)
