"""Optimizers of `tensorflow.contrib.opt`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# --- LARS ---

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


# --- Adam, momentum and Nadam ---

_v1 = tf.compat.v1

_Adam: Any = _v1.train.AdamOptimizer

_Momentum: Any = _v1.train.MomentumOptimizer


class DecoupledWeightDecayExtension:
    """Mixin that decays an optimizer's variables before each update; the first base.

    Args:
        weight_decay: part of a variable to subtract; it is not scaled by the learning rate.
        **kwargs: arguments of the optimizer.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._weight_decay = weight_decay
        self._decayed: list[Any] | None = None
        super().__init__(**kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """Minimizes a loss by one training step.

        Args:
            loss: shape [].
            *args: further arguments of the optimizer.
            decay_var_list: the variables that decay; all if not given.
            **kwargs: further arguments of the optimizer, by name.
        """
        self._decayed = decay_var_list
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]

    def apply_gradients(self, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """Updates the variables; takes arguments of `minimize` and of the optimizer."""
        if decay_var_list is not None:
            self._decayed = decay_var_list
        return super().apply_gradients(*args, **kwargs)  # type: ignore[misc]

    def _decay(self, grad: Any, var: Any) -> Any:
        """Decays a variable, after the gradient was computed with its value."""
        if self._decayed is not None and not any(var is other for other in self._decayed):
            return tf.no_op()
        decay = tf.cast(self._weight_decay, var.dtype.base_dtype)
        with tf.control_dependencies([grad]):
            return var.assign_sub(decay * var, self._use_locking)  # type: ignore[attr-defined]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies([self._decay(grad, var)]):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies([self._decay(grad, var)]):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies([self._decay(grad.values, var)]):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        with tf.control_dependencies([self._decay(grad, var)]):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """Returns a class like an optimizer, whose first argument is `weight_decay`.

    Args:
        base_optimizer: class of the TensorFlow 1 kind.
    """
    name = f"{base_optimizer.__name__}WithDecoupledWeightDecay"

    def init(self: Any, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        self._weight_decay = weight_decay
        self._decayed = None
        base_optimizer.__init__(self, *args, **kwargs)  # type: ignore[misc]

    bases = (DecoupledWeightDecayExtension, base_optimizer)
    return type(name, bases, {"__init__": init, "__doc__": base_optimizer.__doc__})


class AdamWOptimizer(DecoupledWeightDecayExtension, _Adam):
    """Adam with weight decay.

    Args:
        weight_decay: which part of a variable is taken away at each step.
        learning_rate: of Adam, as the arguments below.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        epsilon: against a division by zero.
        use_locking: whether updates are locked.
        name: of the ops.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )


class MomentumWOptimizer(DecoupledWeightDecayExtension, _Momentum):
    """Gradient descent with momentum and weight decay.

    Args:
        weight_decay: which part of a variable is taken away at each step.
        learning_rate: of the optimizer, as the arguments below.
        momentum: part of the last update that is kept.
        use_locking: whether updates are locked.
        name: of the ops.
        use_nesterov: whether the momentum is Nesterov's.
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


class NadamOptimizer(_Adam):
    """Adam with Nesterov's momentum; takes arguments of `tf.train.AdamOptimizer`."""

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        beta1_power, beta2_power = self._get_beta_accumulators()
        dtype = var.dtype.base_dtype
        return tf.raw_ops.ResourceApplyAdam(
            var=var.handle,
            m=self.get_slot(var, "m").handle,
            v=self.get_slot(var, "v").handle,
            beta1_power=tf.cast(beta1_power, dtype),
            beta2_power=tf.cast(beta2_power, dtype),
            lr=tf.cast(self._lr_t, dtype),
            beta1=tf.cast(self._beta1_t, dtype),
            beta2=tf.cast(self._beta2_t, dtype),
            epsilon=tf.cast(self._epsilon_t, dtype),
            grad=grad,
            use_locking=self._use_locking,
            use_nesterov=True,
        )

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        beta1_power, beta2_power = self._get_beta_accumulators()
        dtype = var.dtype.base_dtype
        # The reference variables of TensorFlow 1 are arguments themselves.
        return tf.raw_ops.ApplyAdam(
            var=var._ref(),
            m=self.get_slot(var, "m")._ref(),
            v=self.get_slot(var, "v")._ref(),
            beta1_power=tf.cast(beta1_power, dtype),
            beta2_power=tf.cast(beta2_power, dtype),
            lr=tf.cast(self._lr_t, dtype),
            beta1=tf.cast(self._beta1_t, dtype),
            beta2=tf.cast(self._beta2_t, dtype),
            epsilon=tf.cast(self._epsilon_t, dtype),
            grad=grad,
            use_locking=self._use_locking,
            use_nesterov=True,
        )


class LazyAdamOptimizer(_Adam):
    """Adam that updates only the rows of moments that a sparse gradient has.

    It takes the arguments of `tf.train.AdamOptimizer`.
    """

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._update_rows(grad, var, indices)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._update_rows(grad.values, var, grad.indices)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        dtype = var.dtype.base_dtype
        power1, power2 = (tf.cast(power, dtype) for power in self._get_beta_accumulators())
        rate = tf.cast(self._lr_t, dtype) * tf.sqrt(1 - power2) / (1 - power1)
        beta1, beta2 = tf.cast(self._beta1_t, dtype), tf.cast(self._beta2_t, dtype)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        first = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        second = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * first / (tf.sqrt(second) + tf.cast(self._epsilon_t, dtype))
        return tf.group(
            _v1.scatter_update(m, indices, first),
            _v1.scatter_update(v, indices, second),
            _v1.scatter_sub(var, indices, step),
        )
