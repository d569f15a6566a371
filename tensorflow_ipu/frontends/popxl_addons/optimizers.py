"""Updates of variables by their gradients: the module `popxl_addons.optimizers`."""

from __future__ import annotations

from typing import Any, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import var_updates
from tensorflow_ipu.frontends.popxl_addons import initial_values
from tensorflow_ipu.frontends.popxl_addons.module import Module
from tensorflow_ipu.frontends.popxl_addons.rts import shards_of

__all__ = ["AdamOptimizerStep", "grad_reduce_square_add"]


Number = Union[float, popxl.Tensor]


def grad_reduce_square_add(t: popxl.Tensor, loss_scaling: float | popxl.Tensor) -> popxl.Tensor:
    """Returns the sum of the squares of a gradient, without the scale of the loss.

    Args:
        t: the gradient.
        loss_scaling: the factor of the loss.

    Returns:
        A scalar of float32.
    """
    total = ops.lamb_square(t)
    if isinstance(loss_scaling, popxl.Tensor):
        scale = ops.cast(loss_scaling, popxl.float32)
        return total / scale / scale
    return total / float(loss_scaling) ** 2


class AdamOptimizerStep(Module):
    """One update of a variable by AdamW; its own variables are the moments and the step."""

    def build(
        self,
        var: popxl.TensorByRef,  # type: ignore[valid-type]
        grad: popxl.Tensor,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        *,
        lr: Number,
        beta1: Number = 0.9,
        beta2: Number = 0.999,
        eps: Number = 1e-5,
        weight_decay: Number = 0.01,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
        loss_scaling: Number = 1,
        global_norm: popxl.Tensor | None = None,
        global_norm_max: Number | None = None,
    ) -> None:
        """Updates a variable in place.

        Args:
            var: the variable, by reference.
            grad: its gradient.
            replica_grouping: which replicas have the same moments.
            lr: the learning rate.
            beta1: the decay of the first moment.
            beta2: the decay of the second moment.
            eps: a small number, added to the root of the second moment.
            weight_decay: the part of the variable that is added to its update.
            first_order_dtype: type of the first moment; the second is of float32.
            bias_correction: whether the moments are divided by how much they have grown since 0.
            loss_scaling: the factor of the loss.
            global_norm: norm of all gradients, a scalar.
            global_norm_max: the upper bound of that norm, to which gradients are scaled down.

        Raises:
            ValueError: If there is a `global_norm`, and no `global_norm_max`.
        """
        target: Any = var
        with popxl.in_sequence():
            grad = _scaled(grad, _scale(loss_scaling, global_norm, global_norm_max))
            first = self._moment("first_order", target, first_order_dtype, replica_grouping)
            second = self._moment("second_order", target, popxl.float32, replica_grouping)
            step = None
            if bias_correction:
                step = self.add_variable_input(
                    "step", initial_values.zeros(()), popxl.float32, True, replica_grouping
                )
            var_updates.accumulate_moving_average_(first, grad, f=beta1)
            var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
            update = var_updates.adam_updater(
                first, second, target, step, weight_decay, beta1, beta2, eps
            )
            if isinstance(lr, popxl.Tensor):
                ops.scaled_add_(target, update, b=ops.negate(lr))
            else:
                ops.scaled_add_(target, update, b=-lr)

    def _moment(
        self,
        name: str,
        like: popxl.Tensor,
        dtype: popxl.dtype,
        group: popxl.ReplicaGrouping | None,
    ) -> popxl.Tensor:
        """Adds a moment: zeros like the variable, and sharded as that is."""
        if like.meta_shape:
            draw = initial_values.zeros(like.meta_shape)
            over = shards_of(like, group)
            return self.add_replica_sharded_variable_input(name, draw, dtype, True, group, over)
        return self.add_variable_input(name, initial_values.zeros(like.shape), dtype, True, group)


def _scale(loss_scaling: Number, norm: popxl.Tensor | None, limit: Number | None) -> Number:
    """Returns the factor of the gradients: a number, or a tensor of float32."""
    if norm is None:
        return 1.0 / _wide(loss_scaling)
    if limit is None:
        raise ValueError("global_norm_max is required if there is a global_norm.")
    if not isinstance(limit, popxl.Tensor):
        limit = popxl.constant(limit, popxl.float32)
    norm, most = (ops.cast(tensor, popxl.float32) for tensor in (norm, limit))
    return (most / ops.maximum(norm, most)) / _wide(loss_scaling)


def _wide(number: Number) -> Number:
    """Returns a number as it is, and a tensor in float32."""
    return ops.cast(number, popxl.float32) if isinstance(number, popxl.Tensor) else number


def _scaled(grad: popxl.Tensor, scale: Number) -> popxl.Tensor:
    """Returns a gradient times a factor, in float32; as it is if the factor is 1."""
    if not isinstance(scale, popxl.Tensor) and scale == 1:
        return grad
    return ops.cast(grad, popxl.float32) * scale
