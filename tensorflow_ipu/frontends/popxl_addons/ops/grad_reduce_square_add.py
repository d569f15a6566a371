"""The squared norm of a gradient; `popxl_addons.ops.grad_reduce_square_add`."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops

__all__ = ["grad_reduce_square_add"]


def grad_reduce_square_add(t: popxl.Tensor, loss_scaling: float | popxl.Tensor) -> popxl.Tensor:
    """Returns the sum of the squares of a gradient, without the scale of the loss.

    Args:
        t: the gradient.
        loss_scaling: what the loss was multiplied by.

    Returns:
        A scalar of float32.
    """
    total = ops.lamb_square(t)
    if isinstance(loss_scaling, popxl.Tensor):
        scale = ops.cast(loss_scaling, popxl.float32)
        return total / scale / scale
    return total / float(loss_scaling) ** 2
