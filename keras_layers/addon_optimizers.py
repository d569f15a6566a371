"""Keras optimizers for the IPU: the public module `ipu_tensorflow_addons.keras.optimizers`.

They are of the generation `tf.keras.optimizers.legacy`. Other than the wrappers of
`ipu.keras.optimizers` they have rules of their own: with types for their state and their
arithmetic, and with one function of the program for all weights of a shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.configs.ranges import PROPORTION
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import functional_ops
from tensorflow_ipu.util.short_repr import Shown, shows

__all__ = ["AdamIpuOptimizer", "IpuOptimizerBase", "LAMBIpuOptimizer", "SGDIpuOptimizer"]

# Values of the state of a weight, by name.
State = dict[str, tf.Tensor]
_OUTLINING = ("unique_sharding", "keep_input_layouts", "name")


@registered
class IpuOptimizerBase(tf.keras.optimizers.legacy.Optimizer):
    """The base of optimizers whose update of a weight is one function of the program.

    A subclass makes its state with `add_slot` in `_create_slots`, and says in `_update` what a
    gradient does. Scalars such as the learning rate are made in `_scalars`.
    """

    _HAS_AGGREGATE_GRAD = True

    # How many parts of an update may have a type of their own.
    _stages = 1

    __repr__ = shows(
        lambda self: {
            "name": self._name,
            "optimizer_compute_precisions": Shown(
                f"({', '.join(dtype.name for dtype in self._precisions)})"
            ),
        }
    )

    def __init__(
        self,
        name: str,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32,),
        outline_apply_gradients: bool = True,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            name: name for its operations.
            optimizer_compute_precisions: types of the arithmetic of an update, one for each of its
                stages; one type stands for all stages.
            outline_apply_gradients: whether updates are outlined functions, which the program has
                once for all weights of a shape.
            outline_apply_gradients_kwargs: arguments of `ipu.functional_ops.outlined_function`.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If the types are not floating-point types, or of another number.
        """
        super().__init__(name, **kwargs)
        self._precisions = _precisions(optimizer_compute_precisions, self._stages)
        self._outlines = bool(outline_apply_gradients)
        self._outlining = dict(outline_apply_gradients_kwargs or {})
        for key in self._outlining:
            if key not in _OUTLINING:
                raise TypeError(
                    "outline_apply_gradients_kwargs are arguments of outlined_function: "
                    f"{', '.join(_OUTLINING)}. Received: {key!r}"
                )

    def _slot_dtype(self, slot_name: str) -> tf.DType | None:
        """Returns the type of a slot; None for the type of the weight."""
        del slot_name
        return None

    def _scalars(self, dtype: tf.DType) -> list[tf.Tensor]:
        """Returns the scalars that all updates of a step take."""
        return [self._decayed_lr(dtype)]

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, State]:
        """Returns a weight and its state after a step, each of any type.

        Args:
            weight_name: name of the weight.
            gradient: of the type of the first stage.
            weight: of the type of the last stage.
            state: of the type of the first stage.
            scalars: the result of `_scalars`, float32.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say how to update a weight. Use AdamIpuOptimizer, "
            "LAMBIpuOptimizer or SGDIpuOptimizer, or define _resource_apply_dense in your subclass."
        )

    def add_slot(
        self, var: Any, slot_name: str, initializer: Any = "zeros", shape: Any = None
    ) -> tf.Variable:
        """Makes a part of the state of a weight, of the type that it is to have.

        Args:
            var: the weight.
            slot_name: name of the part.
            initializer: as for Keras's optimizers.
            shape: its shape; the weight's shape if None.

        Returns:
            The variable; that of before if there is one.
        """
        dtype = self._slot_dtype(slot_name) or var.dtype

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            initial_value = kwargs["initial_value"]

            def converted() -> Any:
                value = initial_value() if callable(initial_value) else initial_value
                return tf.cast(getattr(value, "wrapped_value", value), dtype)

            return next_creator(**{**kwargs, "dtype": dtype, "initial_value": converted})

        if dtype == var.dtype:
            return super().add_slot(var, slot_name, initializer, shape)
        with tf.variable_creator_scope(creator):
            return super().add_slot(var, slot_name, initializer, shape)

    def _prepare_local(self, var_device: str, var_dtype: tf.DType, apply_state: Any) -> None:
        """Makes the scalars of a step: of float32, as float16 has not enough digits for them."""
        apply_state[(var_device, var_dtype)]["scalars"] = self._scalars(tf.float32)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: Any = None) -> tf.Operation:
        variables = [self.get_slot(var, name) for name in self._slots_of(var)]
        values = self._updated(grad, var, var, variables, apply_state)
        return tf.group(
            *(to.assign(value, read_value=False) for to, value in zip([var, *variables], values))
        )

    def _resource_apply_sparse(
        self, grad: Any, var: Any, indices: Any, apply_state: Any = None
    ) -> tf.Operation:
        """Updates all of a weight, as Keras's optimizers with moments do."""
        dense = tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(var)))
        dense.set_shape(var.shape)
        return self._resource_apply_dense(dense, var, apply_state)

    def _slots_of(self, var: Any) -> list[str]:
        """Returns the names of the state that a weight has."""
        return [name for name in self.get_slot_names() if self._has_slot(var, name)]

    def _has_slot(self, var: Any, name: str) -> bool:
        try:
            return self.get_slot(var, name) is not None
        except KeyError:  # it has none at all
            return False

    def _updated(
        self, gradient: Any, var: Any, weight: Any, state: Sequence[Any], apply_state: Any
    ) -> list[tf.Tensor]:
        """Returns the new values of a weight and of its state, or of some rows of them."""
        names, name = self._slots_of(var), var.name
        types = [part.dtype.base_dtype for part in (weight, *state)]
        found = (apply_state or {}).get((var.device, var.dtype.base_dtype))
        scalars = found["scalars"] if found else self._scalars(tf.float32)
        first, last = self._precisions[0], self._precisions[-1]

        def update(*tensors: tf.Tensor) -> list[tf.Tensor]:
            gradient, weight, *rest = tensors
            parts = {key: tf.cast(part, first) for key, part in zip(names, rest)}
            new_weight, new_parts = self._update(
                name, tf.cast(gradient, first), tf.cast(weight, last), parts, rest[len(names) :]
            )
            values = [new_weight, *(new_parts[key] for key in names)]
            return [tf.cast(value, dtype) for value, dtype in zip(values, types)]

        if self._outlines:
            update = functional_ops.outlined_function(
                update, **{"name": f"{self._name}_update", **self._outlining}
            )
        inputs = [gradient, *(tf.convert_to_tensor(part) for part in (weight, *state)), *scalars]
        return list(update(*inputs))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "optimizer_compute_precisions": [dtype.name for dtype in self._precisions],
            "outline_apply_gradients": self._outlines,
            "outline_apply_gradients_kwargs": dict(self._outlining),
        }


def _precisions(precisions: Any, stages: int) -> tuple[tf.DType, ...]:
    """Returns the types of the stages of an update.

    Raises:
        ValueError: If they are not floating-point types, or of another number.
    """
    wanted = f"{stages} floating-point types" if stages > 1 else "one floating-point type"
    if not isinstance(precisions, (list, tuple)) or len(precisions) not in (1, stages):
        raise ValueError(
            f"optimizer_compute_precisions must be a tuple of {wanted}, one for each stage of an "
            f"update. Received: {precisions!r}"
        )
    return tuple(floating("optimizer_compute_precisions", dtype) for dtype in precisions)


def floating(argument: str, dtype: Any) -> tf.DType:
    """Returns a floating-point type that somebody passed as an argument.

    Args:
        argument: name of the argument.
        dtype: a type, or the name of one.

    Raises:
        ValueError: If it is another type, or none.
    """
    try:
        found = tf.as_dtype(dtype)
    except TypeError:
        found = None
    if found not in (tf.float16, tf.bfloat16, tf.float32):
        raise ValueError(
            f"{argument} must be a floating-point type of the IPU: tf.float16 or tf.float32. "
            f"Received: {dtype!r}"
        )
    return found


def optional(argument: str, dtype: Any) -> tf.DType | None:
    """Converts a type argument as `floating` does; None stays None.

    Args:
        argument: name of the argument.
        dtype: a type, the name of one, or None.

    Raises:
        ValueError: If it is another type, or none.
    """
    return None if dtype is None else floating(argument, dtype)


def type_name(dtype: tf.DType | None) -> str | None:
    """Returns the name of a type, as configurations have it.

    Args:
        dtype: the type, or None.
    """
    return None if dtype is None else str(dtype.name)


# --- Adam ---


class MomentsOptimizer(IpuOptimizerBase):
    """Base of optimizers with two moments: `m`, the mean of gradients, and `v`, of squares."""

    _stages = 2

    def __init__(
        self,
        name: str,
        learning_rate: Any,
        beta_1: Any,
        beta_2: Any,
        epsilon: float,
        debiasing: bool,
        dtypes: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            name: name for its operations.
            learning_rate: a number, tensor, schedule or function without arguments.
            beta_1: how much of `m` stays in a step.
            beta_2: how much of `v` stays in a step.
            epsilon: addend of the square root of `v`.
            debiasing: whether to make up for the zeros that moments begin with.
            dtypes: type of each part of the state by its name; None for the weight's type.
            **kwargs: arguments of `IpuOptimizerBase`.
        """
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        self._set_hyper("beta_1", beta_1)
        self._set_hyper("beta_2", beta_2)
        self.epsilon = epsilon
        self.debiasing = bool(debiasing)
        self._dtypes = {part: optional(f"{part}_dtype", dtype) for part, dtype in dtypes.items()}

    def _slot_dtype(self, slot_name: str) -> tf.DType | None:
        return self._dtypes.get(slot_name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for slot in self._parts():
            for var in var_list:
                self.add_slot(var, slot)

    def _parts(self) -> tuple[str, ...]:
        """Returns the names of the parts of the state."""
        return ("m", "v")

    def _scalars(self, dtype: tf.DType) -> list[tf.Tensor]:
        """Returns the learning rate, both decay factors, and their bias corrections."""
        betas = [tf.identity(self._get_hyper(name, dtype)) for name in ("beta_1", "beta_2")]
        step = tf.cast(self.iterations + 1, dtype)
        left = [tf.pow(beta, step) for beta in betas] if self.debiasing else [tf.zeros([])] * 2
        return [self._decayed_lr(dtype), *betas, *left]

    def _moments(self, gradient: tf.Tensor, state: State, scalars: Sequence[tf.Tensor]) -> State:
        """Returns the moments after a step."""
        beta_1, beta_2 = (tf.cast(beta, gradient.dtype) for beta in scalars[1:3])
        return {
            "m": beta_1 * state["m"] + (1 - beta_1) * gradient,
            "v": beta_2 * state["v"] + (1 - beta_2) * tf.square(gradient),
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "decay": self._initial_decay,
            "beta_1": self._serialize_hyperparameter("beta_1"),
            "beta_2": self._serialize_hyperparameter("beta_2"),
            "epsilon": self.epsilon,
            "debiasing": self.debiasing,
            **{f"{part}_dtype": type_name(dtype) for part, dtype in self._dtypes.items()},
        }


@registered
class AdamIpuOptimizer(MomentsOptimizer):
    """Adam. Its state may be of other types than the weights.

    With the types of the weights it computes what `tf.keras.optimizers.legacy.Adam` does, in
    float32.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamIpuOptimizer",
        m_dtype: Any = None,
        v_dtype: Any = None,
        vhat_dtype: Any = None,
        debiasing: bool = True,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32, tf.float32),
        outline_apply_gradients: bool = True,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: a number, tensor, schedule or function without arguments.
            beta_1: how much of the mean of gradients, `m`, stays in a step.
            beta_2: how much of the mean of squared gradients, `v`, stays in a step.
            epsilon: addend of the square root of `v`.
            amsgrad: whether to divide by the root of the largest `v` so far, which is `vhat`.
            name: name for its operations.
            m_dtype: type of `m`; the weight's type if None.
            v_dtype: type of `v`; the weight's type if None.
            vhat_dtype: type of `vhat`; the weight's type if None.
            debiasing: whether to make up for the zeros that `m` and `v` begin with.
            optimizer_compute_precisions: types of the arithmetic of the moments, and of that of the
                weight.
            outline_apply_gradients: see `IpuOptimizerBase`.
            outline_apply_gradients_kwargs: likewise.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If a type is no floating-point type, or there are too many.
        """
        self.amsgrad = bool(amsgrad)
        super().__init__(
            name,
            learning_rate,
            beta_1,
            beta_2,
            epsilon or tf.keras.backend.epsilon(),
            debiasing,
            {"m": m_dtype, "v": v_dtype, "vhat": vhat_dtype},
            optimizer_compute_precisions=optimizer_compute_precisions,
            outline_apply_gradients=outline_apply_gradients,
            outline_apply_gradients_kwargs=outline_apply_gradients_kwargs,
            **kwargs,
        )

    def _parts(self) -> tuple[str, ...]:
        return ("m", "v", "vhat") if self.amsgrad else ("m", "v")

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, State]:
        del weight_name
        new = self._moments(gradient, state, scalars)
        largest = new["v"]
        if self.amsgrad:
            largest = new["vhat"] = tf.maximum(state["vhat"], new["v"])
        rate, _, _, left_1, left_2 = scalars
        rate = tf.cast(rate * tf.sqrt(1 - left_2) / (1 - left_1), weight.dtype)
        m, v = (tf.cast(value, weight.dtype) for value in (new["m"], largest))
        return weight - rate * m / (tf.sqrt(v) + tf.cast(self.epsilon, weight.dtype)), new

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {**super().get_config(), "amsgrad": self.amsgrad}


# --- LAMB ---


@registered
class LAMBIpuOptimizer(MomentsOptimizer):
    """LAMB. A step is as long as the weight is, times the learning rate; with weight decay."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        debiasing: bool = True,
        m_dtype: Any = None,
        v_dtype: Any = None,
        weight_norm_clip: float | None = None,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32, tf.float32),
        outline_apply_gradients: bool = True,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: a number, tensor, schedule or function without arguments.
            beta_1: how much of the mean of gradients, `m`, stays in a step.
            beta_2: how much of the mean of squared gradients, `v`, stays in a step.
            epsilon: addend of the square root of `v`.
            weight_decay_rate: fraction of the weight that is added to its step.
            exclude_from_weight_decay: regular expressions; weights in whose names one is found have
                no weight decay.
            exclude_from_layer_adaptation: likewise, for weights whose steps are not made as long as
                the weight is; as `exclude_from_weight_decay` if None.
            name: name for its operations.
            debiasing: whether to make up for the zeros that `m` and `v` begin with.
            m_dtype: type of `m`; the weight's type if None.
            v_dtype: type of `v`; the weight's type if None.
            weight_norm_clip: the most that the length of a weight counts for.
            optimizer_compute_precisions: types of the arithmetic of the moments, and of that of the
                weight.
            outline_apply_gradients: see `IpuOptimizerBase`.
            outline_apply_gradients_kwargs: likewise.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If a type is no floating-point type, or there are too many.
        """
        self.weight_decay_rate = weight_decay_rate
        self.exclude_from_weight_decay = list(exclude_from_weight_decay or [])
        self.exclude_from_layer_adaptation = (
            self.exclude_from_weight_decay
            if exclude_from_layer_adaptation is None
            else list(exclude_from_layer_adaptation)
        )
        self.weight_norm_clip = weight_norm_clip
        super().__init__(
            name,
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            debiasing,
            {"m": m_dtype, "v": v_dtype},
            optimizer_compute_precisions=optimizer_compute_precisions,
            outline_apply_gradients=outline_apply_gradients,
            outline_apply_gradients_kwargs=outline_apply_gradients_kwargs,
            **kwargs,
        )

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, State]:
        new = self._moments(gradient, state, scalars)
        rate, _, _, left_1, left_2 = (tf.cast(scalar, weight.dtype) for scalar in scalars)
        m, v = (tf.cast(new[part], weight.dtype) for part in ("m", "v"))
        root = tf.sqrt(v / (1 - left_2))
        step = m / (1 - left_1) / (root + tf.cast(self.epsilon, weight.dtype))
        if self.weight_decay_rate and not _found(self.exclude_from_weight_decay, weight_name):
            step += tf.cast(self.weight_decay_rate, weight.dtype) * weight
        if not _found(self.exclude_from_layer_adaptation, weight_name):
            step *= self._ratio(weight, step)
        return weight - rate * step, new

    def _ratio(self, weight: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Returns the norm of a weight divided by the norm of its step; 1 where either is 0."""
        # Sums of squares of many float16 numbers are beyond that type.
        lengths = [tf.norm(tf.cast(value, tf.float32), ord=2) for value in (weight, step)]
        if self.weight_norm_clip is not None:
            lengths[0] = tf.minimum(lengths[0], self.weight_norm_clip)
        both = (lengths[0] > 0) & (lengths[1] > 0)
        ratio = tf.where(both, lengths[0] / tf.where(both, lengths[1], 1.0), 1.0)
        return tf.cast(ratio, weight.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": list(self.exclude_from_weight_decay),
            "exclude_from_layer_adaptation": list(self.exclude_from_layer_adaptation),
            "weight_norm_clip": self.weight_norm_clip,
        }


def _found(patterns: Sequence[str], name: str) -> bool:
    """Returns whether one of some regular expressions is found in a name."""
    return any(re.search(pattern, name) is not None for pattern in patterns)


# --- SGD ---


@registered
class SGDIpuOptimizer(IpuOptimizerBase):
    """Gradient descent with momentum, whose state may be of another type than the weights.

    With the type of the weights it computes what `tf.keras.optimizers.legacy.SGD` does, in float32.
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: Any = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: Any = None,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32,),
        outline_apply_gradients: bool = True,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes an optimizer.

        Args:
            learning_rate: a number, tensor, schedule or function without arguments.
            momentum: how much of a step is made again in the next one, from 0 to 1.
            nesterov: whether momentum is that of Nesterov.
            name: name for its operations.
            momentum_accum_dtype: type of the state; the weight's type if None.
            optimizer_compute_precisions: type of the arithmetic.
            outline_apply_gradients: see `IpuOptimizerBase`.
            outline_apply_gradients_kwargs: likewise.
            **kwargs: `clipnorm`, `clipvalue`, `global_clipnorm` and `decay` of Keras's optimizers.

        Raises:
            TypeError: If an argument of `outlined_function` is unknown.
            ValueError: If a type is no floating-point type, there are too many, or `momentum` is
                out of range.
        """
        super().__init__(
            name,
            optimizer_compute_precisions=optimizer_compute_precisions,
            outline_apply_gradients=outline_apply_gradients,
            outline_apply_gradients_kwargs=outline_apply_gradients_kwargs,
            **kwargs,
        )
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)
        is_number = isinstance(momentum, (int, float))
        if is_number:
            PROPORTION.check("momentum", momentum)
        self._has_momentum = not is_number or momentum > 0
        self._set_hyper("momentum", momentum)
        self.nesterov = bool(nesterov)
        self._accum_dtype = optional("momentum_accum_dtype", momentum_accum_dtype)

    def _slot_dtype(self, slot_name: str) -> tf.DType | None:
        return self._accum_dtype

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        if self._has_momentum:
            for var in var_list:
                self.add_slot(var, "momentum")

    def _scalars(self, dtype: tf.DType) -> list[tf.Tensor]:
        return [self._decayed_lr(dtype), tf.identity(self._get_hyper("momentum", dtype))]

    def _update(
        self,
        weight_name: str,
        gradient: tf.Tensor,
        weight: tf.Tensor,
        state: State,
        scalars: Sequence[tf.Tensor],
    ) -> tuple[tf.Tensor, State]:
        del weight_name
        rate, momentum = (tf.cast(scalar, gradient.dtype) for scalar in scalars)
        if not state:
            return weight - rate * gradient, {}
        step = momentum * state["momentum"] - rate * gradient
        moved = momentum * step - rate * gradient if self.nesterov else step
        return weight + moved, {"momentum": step}

    def _resource_apply_sparse(
        self, grad: Any, var: Any, indices: Any, apply_state: Any = None
    ) -> tf.Operation:
        """Updates the rows that have gradients, as Keras's optimizer does."""
        variables = [self.get_slot(var, name) for name in self._slots_of(var)]
        rows, *state = [tf.gather(whole, indices) for whole in (var, *variables)]
        values = self._updated(grad, var, rows, state, apply_state)
        updates = zip([var, *variables], values)
        return tf.group(
            *(to.scatter_update(tf.IndexedSlices(value, indices)) for to, value in updates)
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter("learning_rate"),
            "decay": self._initial_decay,
            "momentum": self._serialize_hyperparameter("momentum"),
            "nesterov": self.nesterov,
            "momentum_accum_dtype": type_name(self._accum_dtype),
        }
