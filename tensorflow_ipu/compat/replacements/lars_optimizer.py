"""The LARS optimizer of `tensorflow.contrib.opt`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_Optimizer: Any = tf.compat.v1.train.Optimizer


class LARSOptimizer(_Optimizer):
    """Gradient descent with momentum, where each variable has a rate by its norm.

    Args:
        learning_rate: number, or tensor of shape [].
        momentum: part of the last update that is kept.
        weight_decay: part of a variable that is added to its gradient.
        eeta: factor of the rate of a variable.
        epsilon: against a division by zero.
        name: of the ops.
        skip_list: parts of names of variables that are updated without decay and own rate.
        use_nesterov: whether the momentum is Nesterov's.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any = 0.9,
        weight_decay: Any = 0.0001,
        eeta: Any = 0.001,
        epsilon: Any = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Any = None,
        use_nesterov: bool = False,
    ) -> None:
        if momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"weight_decay should be positive: {weight_decay}")
        super().__init__(use_locking=False, name=name)
        self._learning_rate, self._momentum = learning_rate, momentum
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list, self._use_nesterov = skip_list, use_nesterov

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _scaled(self, grad: Any, var: Any) -> tuple[Any, Any]:
        """Returns the rate and the gradient of a variable."""
        rate = self._learning_rate
        rate = tf.cast(rate() if callable(rate) else rate, var.dtype.base_dtype)
        if self._skip_list is not None and any(part in var.name for part in self._skip_list):
            return rate, grad
        weight_norm, grad_norm = tf.norm(var), tf.norm(grad)
        bottom = grad_norm + self._weight_decay * weight_norm + self._epsilon
        known = tf.logical_and(weight_norm > 0, grad_norm > 0)
        trust = tf.where(known, self._eeta * weight_norm / bottom, tf.ones_like(weight_norm))
        return rate * trust, grad + self._weight_decay * var

    def _update(self, grad: Any, var: Any) -> Any:
        rate, grad = self._scaled(grad, var)
        slot = self.get_slot(var, "momentum")
        step = self._momentum * slot + grad
        kept = slot.assign(step)
        with tf.control_dependencies([kept]):
            if self._use_nesterov:
                step = grad + self._momentum * step
            return tf.group(var.assign_sub(rate * step))

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(grad, var)
