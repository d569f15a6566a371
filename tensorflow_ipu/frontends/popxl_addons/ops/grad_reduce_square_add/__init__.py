"""The squared norm of a gradient; `popxl_addons.ops.grad_reduce_square_add`."""

from tensorflow_ipu.frontends.popxl_addons.ops.grad_reduce_square_add.grad_reduce_square_add import (  # noqa: E501
    grad_reduce_square_add,
)

__all__ = [
    "grad_reduce_square_add",
]
