"""Base of the addons' Keras optimizers: types of state and arithmetic, outlined updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import functional_ops
from tensorflow_ipu.util.short_repr import Shown, shows

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
        """Returns the type of a part of the state; None for that of the weight."""
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
        """Returns a weight and its state after a step. What it returns may be of any type.

        Args:
            weight_name: name of the weight.
            gradient: of the type of the first stage.
            weight: of the type of the last stage.
            state: of the type of the first stage.
            scalars: what `_scalars` returned, float32.
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
            shape: its shape; that of the weight if None.

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
    """Returns what `floating` returns, and None for None.

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
