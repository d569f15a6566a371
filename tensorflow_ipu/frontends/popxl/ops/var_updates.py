"""Updates of variables: assignments, accumulators, and the steps of optimizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes, tensor
from tensorflow_ipu.frontends.popxl.core import shapes, views
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ops import indexing
from tensorflow_ipu.frontends.popxl.tensor import Tensor

__all__ = [
    "accumulate_",
    "accumulate_mean_",
    "accumulate_moving_average_",
    "accumulate_moving_average_square_",
    "accumulate_square_",
    "accumulator_scale_",
    "accumulator_zero_",
    "adam_updater",
    "adam_var_update",
    "adamax_updater",
    "copy_var_update_",
    "lamb_updater",
    "sparse_accumulate_",
]


# What an updater may have, in the order of its inputs. Its attribute `given` names those that are
# tensors, its attribute `numbers` has the others.
_INPUTS = ("m", "v", "weight", "time_step", "weight_decay", "beta1", "beta2", "epsilon")
_LAMB_SQUARE = register(
    OpKind(
        "LambSquare",
        lambda specs: [TensorSpec((), dtypes.float32)],
        lambda t: tf.reduce_sum(tf.square(tf.cast(t, tf.float32))),
        GradientRule.CUT,
    )
)


def _result_spec(
    specs: shapes.Specs, given: tuple[str, ...], numbers: dict[str, float], **_: Any
) -> list[TensorSpec]:
    by_name = dict(zip(given, specs))
    return [by_name["weight" if "weight_decay" in (*given, *numbers) else "m"]]


def _with_decay(x: Any, values: dict[str, Any], dtype: Any) -> Any:
    if "weight_decay" not in values:
        return x
    return x + tf.cast(values["weight_decay"], dtype) * tf.cast(values["weight"], dtype)


def _adam(
    *inputs: Any, given: tuple[str, ...], numbers: dict[str, float], written: bool
) -> list[Any]:
    """The quotient of the moments, after correcting their bias if there is a time step."""
    values = {**numbers, **dict(zip(given, inputs))}
    m, v = values["m"], values["v"]
    dtype = values["weight"].dtype if "weight_decay" in values else m.dtype
    writes = []
    if written:
        step = values["time_step"] + tf.constant(1, values["time_step"].dtype)
        writes.append(step)
        count = tf.cast(step, tf.float32)
        beta1, beta2 = (tf.cast(values[name], tf.float32) for name in ("beta1", "beta2"))
        m = tf.cast(tf.cast(m, tf.float32) / (1 - tf.pow(beta1, count)), m.dtype)
        v = tf.cast(tf.cast(v, tf.float32) / (1 - tf.pow(beta2, count)), v.dtype)
    epsilon = tf.cast(values["epsilon"], v.dtype)
    quotient = tf.cast(tf.cast(m, v.dtype) / (tf.sqrt(v) + epsilon), dtype)
    return [_with_decay(quotient, values, dtype), *writes]


def _adamax(
    *inputs: Any, given: tuple[str, ...], numbers: dict[str, float], written: bool
) -> list[Any]:
    values = {**numbers, **dict(zip(given, inputs))}
    m, v = values["m"], values["v"]
    dtype = values["weight"].dtype if "weight_decay" in values else m.dtype
    step = values["time_step"] + tf.constant(1, values["time_step"].dtype)
    beta1 = tf.cast(values["beta1"], tf.float32)
    corrected = tf.cast(m, tf.float32) / (1 - tf.pow(beta1, tf.cast(step, tf.float32)))
    m = tf.cast(corrected, m.dtype)
    epsilon = tf.cast(values["epsilon"], v.dtype)
    quotient = tf.cast(tf.cast(m, v.dtype) / (v + epsilon), dtype)
    return [_with_decay(quotient, values, dtype), step]


def _var_update(
    t: Any, x: Any, r1: Any, r2: Any, *scalars: Any, given: tuple[str, ...], **numbers: float
) -> Any:
    """A step whose length the norms of tensor and update decide."""
    values = {"rate": 1.0, "limit": math.inf, **numbers, **dict(zip(given, scalars))}
    rate, limit = values["rate"], values["limit"]
    r1, r2, limit = (tf.cast(value, tf.float32) for value in (r1, r2, limit))
    none = (r1 == 0) | (r2 == 0) | (limit == 0)
    safe = tf.where(none, tf.ones_like(r2), r2)
    ratio = tf.where(none, tf.ones_like(r1), tf.minimum(tf.sqrt(r1), limit) / tf.sqrt(safe))
    return t - tf.cast(tf.cast(rate, tf.float32) * ratio, t.dtype) * tf.cast(x, t.dtype)


def _var_update_spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    t, x = specs[:2]
    if t.shape != x.shape:
        raise popart_exception(
            f"AdamVarUpdate: the update must have the shape {t.shape}. Received: {x.shape}"
        )
    return [t]


_ADAM = register(OpKind("AdamUpdater", _result_spec, _adam, GradientRule.REFUSED))
_ADAMAX = register(
    OpKind("AdamaxUpdater", _result_spec, _adamax, GradientRule.REFUSED, listed="AdamUpdater")
)
_ADAM_VAR_UPDATE = register(
    OpKind(
        "AdamVarUpdate",
        _var_update_spec,
        _var_update,
        GradientRule.REFUSED,
        writes=(0,),
        view=views.whole,
    )
)


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: float | Tensor | None = None,
    beta1: float | Tensor | None = None,
    beta2: float | Tensor | None = None,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """Returns the update of a variable as of Adam, and counts the time step up in place.

    Args:
        acc_first_order: mean of the gradients.
        acc_second_order: mean of their squares.
        weight: the variable, for weight decay.
        time_step: number of updates before; without it the means are taken as they are.
        weight_decay: part of the variable to add.
        beta1: decay of the first mean, to correct its bias.
        beta2: decay of the second.
        epsilon: a small number, added to the root.

    Raises:
        ValueError: If there is weight decay without a weight, or a time step without both betas.
    """
    _check_decay(weight, weight_decay)
    if time_step is not None and (beta1 is None or beta2 is None):
        raise ValueError("Bias correction requires both beta1 and beta2 to not be None.")
    values = _values(
        m=acc_first_order,
        v=acc_second_order,
        weight=weight,
        time_step=time_step,
        weight_decay=weight_decay,
        beta1=beta1 if time_step is not None else None,
        beta2=beta2 if time_step is not None else None,
        epsilon=epsilon,
    )
    return _updater(_ADAM, values, "adam_updater_out")


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: float | Tensor | None = None,
    beta1: float | Tensor = 0.9,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """Returns the update of a variable as of AdaMax, and counts the time step up in place.

    Args:
        acc_first_order: mean of the gradients.
        acc_second_order: greatest absolute value of the gradients, as it decays.
        weight: the variable, for weight decay.
        time_step: number of updates before.
        weight_decay: part of the variable to add.
        beta1: decay of the mean, to correct its bias.
        epsilon: a small number, added to the divisor.

    Raises:
        ValueError: If there is weight decay without a weight, or no time step.
    """
    _check_decay(weight, weight_decay)
    if time_step is None:
        raise ValueError("AdaMax requires time_step to not be None.")
    values = _values(
        m=acc_first_order,
        v=acc_second_order,
        weight=weight,
        time_step=time_step,
        weight_decay=weight_decay,
        beta1=beta1,
        epsilon=epsilon,
    )
    return _updater(_ADAMAX, values, "adamax_updater_out")


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: float | Tensor | None = None,
    beta1: float | Tensor | None = None,
    beta2: float | Tensor | None = None,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """Returns the LAMB update of a variable. The arguments are as for `adam_updater`."""
    return adam_updater(
        acc_first_order,
        acc_second_order,
        weight,
        time_step,
        weight_decay,
        beta1,
        beta2,
        epsilon,
    )


def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: float | Tensor | None = None,
    max_weight_norm: float | Tensor | None = None,
) -> Tensor:
    """Takes the update times the learning rate, and times a ratio of norms, off a variable.

    Args:
        t: the variable.
        x: the update.
        r1: squared norm of the variable, as of `lamb_square`.
        r2: squared norm of the update.
        learning_rate: the learning rate; 1 if it is missing.
        max_weight_norm: the greatest norm of the variable that counts; none if it is missing.

    Returns:
        A view of the variable.

    Raises:
        popart.popart_exception: If shapes differ, or the greatest norm is the number 0.
    """
    if max_weight_norm is not None and not isinstance(max_weight_norm, Tensor):
        if max_weight_norm == 0:
            raise popart_exception("The max_weight_norm of an update is the constant 0.")
    scalars = {"rate": learning_rate, "limit": max_weight_norm}
    tensors = {name: value for name, value in scalars.items() if isinstance(value, Tensor)}
    numbers: dict[str, Any] = {
        name: float(value)
        for name, value in scalars.items()
        if value is not None and not isinstance(value, Tensor)
    }
    given = tuple(tensors)
    return building.add(_ADAM_VAR_UPDATE, t, x, r1, r2, *tensors.values(), given=given, **numbers)


def lamb_square(t: Tensor) -> Tensor:
    """Returns the sum of squares of a tensor, in float32.

    Args:
        t: the tensor.
    """
    return building.add(_LAMB_SQUARE, t)


def _decays(weight_decay: float | Tensor | None) -> bool:
    """Returns whether there is weight decay."""
    return weight_decay is not None and (isinstance(weight_decay, Tensor) or weight_decay != 0)


def _check_decay(weight: Tensor | None, weight_decay: float | Tensor | None) -> None:
    """Refuses weight decay without a weight."""
    if _decays(weight_decay) and weight is None:
        raise ValueError("Weight decay requires weight to not be None.")


def _values(**values: Any) -> dict[str, Any]:
    """Returns the tensors and numbers of an updater by name."""
    tensors = [values[name] for name in ("m", "v", "weight", "time_step")]
    building.check_in_graph(
        context.get_current_graph(), [value for value in tensors if value is not None]
    )
    if not _decays(values.get("weight_decay")):
        values["weight"] = values["weight_decay"] = None
    return {name: values[name] for name in _INPUTS if values.get(name) is not None}


def _updater(kind: OpKind, values: dict[str, Any], name: str) -> Tensor:
    """Adds an updater, which writes the time step."""
    tensors = {key: value for key, value in values.items() if isinstance(value, Tensor)}
    numbers = {key: float(value) for key, value in values.items() if key not in tensors}
    given, written = tuple(tensors), "time_step" in tensors
    result = building.add(
        kind, *tensors.values(), name=name, given=given, numbers=numbers, written=written
    )
    if written and result.producer is not None:
        result.producer.modified.add(given.index("time_step"))
    return result


def _spec(specs: shapes.Specs, **_: Any) -> list[TensorSpec]:
    for spec in specs[1:2]:
        if spec.shape != specs[0].shape:
            raise popart_exception(
                f"An update must have the shape of the tensor, {specs[0].shape}. Received: "
                f"{spec.shape}"
            )
    return [specs[0]]


def _update(
    name: str, compute: Callable[..., Any], infer: Any = _spec, listed: str | None = None
) -> OpKind:
    """Enters an op into the table that writes its result into the first input."""
    return register(
        OpKind(
            name,
            infer,
            compute,
            GradientRule.REFUSED,
            writes=(0,),
            view=views.whole,
            listed=listed,
        )
    )


def _scalar(factor: Any, t: Any) -> Any:
    return tf.cast(factor, t.dtype)


def _accumulate(t: Any, x: Any, factor: Any = None) -> Any:
    x = tf.cast(x, t.dtype)
    return t + (x if factor is None else _scalar(factor, t) * x)


def _accumulate_mean(t: Any, x: Any, step: Any) -> Any:
    """The mean of one more value; the factor is computed in float32."""
    new = 1 / (tf.cast(step, tf.float32) + 1)
    return _scalar(1 - new, t) * t + _scalar(new, t) * tf.cast(x, t.dtype)


def _moving_average(t: Any, x: Any, factor: Any) -> Any:
    """The moving average, computed in float32 if the tensor is narrower."""
    wide = tf.float32 if t.dtype.size < tf.float32.size else t.dtype
    factor = tf.cast(factor, wide)
    return tf.cast(factor * tf.cast(t, wide) + (1 - factor) * tf.cast(x, wide), t.dtype)


def _sparse(t: Any, x: Any, indices: Any, factor: Any = None, *, axis: int) -> Any:
    axis = axis % len(t.shape)
    x = tf.cast(x, t.dtype)
    x = x if factor is None else _scalar(factor, t) * x
    places = indexing.coordinates(indexing.spread(indices, x.shape, axis), axis)
    return tf.tensor_scatter_nd_add(t, places, x)


def _sparse_spec(specs: shapes.Specs, axis: int, **_: Any) -> list[TensorSpec]:
    t, x, indices = specs[:3]
    axis = shapes.positive_axis(axis, t.rank, "SparseAccumulate")
    expected = (*t.shape[:axis], indices.nelms, *t.shape[axis + 1 :])
    if x.shape != expected or indices.rank != 1 or not indices.dtype.is_int:
        raise popart_exception(
            f"SparseAccumulate: X must have the shape {expected} for {indices.nelms} integer "
            f"indices. Received: {x.shape}, and indices of {indices.dtype.name}{indices.shape}"
        )
    return [t]


def _zero(t: Any) -> Any:
    return tf.zeros_like(t)


_ACCUMULATE = _update("Accumulate", _accumulate)
_ACCUMULATE_MEAN = _update("AccumulateMean", _accumulate_mean, listed="Accumulate")
_ACCUMULATE_SQUARE = _update(
    "AccumulateSquare",
    lambda t, x, factor: t + _scalar(factor, t) * tf.square(tf.cast(x, t.dtype)),
    listed="Accumulate",
)
_COPY = _update("CopyVarUpdate", lambda t, x: tf.cast(x, t.dtype))
_MOVING_AVERAGE = _update(
    "AccumulateMovingAverage",
    lambda t, x, factor: _moving_average(t, tf.cast(x, t.dtype), factor),
    listed="Accumulate",
)
_MOVING_AVERAGE_SQUARE = _update(
    "AccumulateMovingAverageSquare",
    lambda t, x, factor: _moving_average(t, tf.square(tf.cast(x, t.dtype)), factor),
    listed="Accumulate",
)
_SCALE = _update(
    "AccumulatorScale", lambda t, factor: _scalar(factor, t) * t, lambda specs, **_: [specs[0]]
)
_SPARSE = _update("SparseAccumulate", _sparse, _sparse_spec)
_ZERO = _update("AccumulatorZero", _zero)


def accumulate_(t: Tensor, X: Tensor, f: float | Tensor | None = None) -> Tensor:  # noqa: N803
    """Adds a tensor, times a factor, to another.

    Args:
        t: the tensor that is modified.
        X: what is added, of its shape.
        f: the factor; 1 by default.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ, or the factor is the number 0.
    """
    _check(f)
    if f is None:
        return building.add(_ACCUMULATE, t, X)
    return _scaled(_ACCUMULATE, [t, X], f)


def accumulate_mean_(t: Tensor, X: Tensor, step: float | Tensor) -> Tensor:  # noqa: N803
    """Updates a tensor, the mean of `step` earlier tensors, with one more.

    Args:
        t: the tensor that is modified.
        X: the tensor to accumulate, of its shape.
        step: the number of tensors accumulated before.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return building.add(_ACCUMULATE_MEAN, t, X, tensor.as_tensor(step))


def accumulate_moving_average_(t: Tensor, X: Tensor, f: float | Tensor) -> Tensor:  # noqa: N803
    """Makes a tensor `f` times itself plus `1 - f` times another.

    Args:
        t: the tensor that is modified.
        X: the other, of its shape.
        f: the factor.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return _scaled(_MOVING_AVERAGE, [t, X], f)


def accumulate_moving_average_square_(
    t: Tensor,
    X: Tensor,  # noqa: N803
    f: float | Tensor,
) -> Tensor:
    """Makes a tensor `f` times itself plus `1 - f` times the squares of another.

    Args:
        t: the tensor that is modified.
        X: the other, of its shape.
        f: the factor.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return _scaled(_MOVING_AVERAGE_SQUARE, [t, X], f)


def accumulate_square_(t: Tensor, X: Tensor, f: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """Adds the squares of a tensor, times a factor, to another.

    Args:
        t: the tensor that is modified.
        X: whose squares are added, of its shape.
        f: the factor.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ, or the factor is the number 0.
    """
    _check(f)
    return _scaled(_ACCUMULATE_SQUARE, [t, X], f)


def accumulator_scale_(t: Tensor, f: float | Tensor) -> Tensor:
    """Multiplies a tensor by a factor; by the number 0, makes all elements 0.

    Args:
        t: the tensor that is modified.
        f: the factor.

    Returns:
        A view of `t`.
    """
    if not isinstance(f, Tensor) and f == 0:
        return accumulator_zero_(t)
    return _scaled(_SCALE, [t], f)


def accumulator_zero_(t: Tensor) -> Tensor:
    """Makes all elements of a tensor 0.

    Args:
        t: the tensor that is modified.

    Returns:
        A view of `t`.
    """
    return building.add(_ZERO, t)


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:  # noqa: N803
    """Copies a tensor into another.

    Args:
        t: the tensor that is modified.
        X: what is copied, of its shape.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes differ.
    """
    return building.add(_COPY, t, X)


def sparse_accumulate_(
    t: Tensor,
    X: Tensor,  # noqa: N803
    indices: Tensor,
    axis: int = 0,
    f: float | Tensor | None = None,
    W: Tensor | None = None,  # noqa: N803
) -> Tensor:
    """Adds slices, times a factor, to the slices of a tensor at given indices.

    Args:
        t: the tensor that is modified.
        X: the slices.
        indices: the index of each; those that are there twice count twice.
        axis: the axis of the slices.
        f: the factor; 1 by default.
        W: a tensor to be laid out like; it has no effect on values.

    Returns:
        A view of `t`.

    Raises:
        popart.popart_exception: If shapes do not fit, or the factor is the number 0.
    """
    _check(f)
    if f is None:
        return building.add(_SPARSE, t, X, indices, axis=axis)
    return _scaled(_SPARSE, [t, X, indices], f, axis=axis)


def _scaled(kind: OpKind, tensors: Sequence[Tensor], f: float | Tensor, **given: Any) -> Tensor:
    """Adds an update with a factor: a tensor is its last input, a number an attribute."""
    if isinstance(f, Tensor):
        return building.add(kind, *tensors, f, **given)
    return building.add(kind, *tensors, factor=float(f), **given)


def _check(value: float | Tensor | None) -> None:
    """Refuses the number 0 as a factor."""
    if value is not None and not isinstance(value, Tensor) and value == 0:
        raise popart_exception("The factor of an accumulation is the constant 0: leave the op out.")
