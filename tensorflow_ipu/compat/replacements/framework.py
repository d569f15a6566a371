"""`tensorflow.contrib.framework`, and the initializers and regularizers of its variables."""

from __future__ import annotations

import contextlib
import functools
import math
import numbers
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1

# --- Initializers ---


Initializer = Callable[..., tf.Tensor]


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Initializer:
    """Returns an initializer whose variance is `factor / n`.

    Args:
        factor: see above.
        mode: meaning of `n`: `FAN_IN`, `FAN_OUT` or `FAN_AVG`, the mean of both.
        uniform: whether values are uniform; else they are normal, truncated at two standard
            deviations.
        seed: of the random numbers.
        dtype: floating-point type of the values.

    Raises:
        TypeError: `dtype` is no floating-point type, or `mode` is unknown.
    """
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError(f"Cannot create initializer for non-floating point type. Received: {dtype}")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    own_dtype = dtype

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        dtype = dtype or own_dtype
        whole = partition_info.full_shape if partition_info is not None else shape
        count = _fan(list(map(int, whole)), mode)
        if uniform:
            limit = math.sqrt(3.0 * factor / count)
            return _v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for the values that are cut off.
        stddev = math.sqrt(1.3 * factor / count)
        return _v1.truncated_normal(shape, 0.0, stddev, dtype, seed=seed)

    return initializer


def _fan(shape: list[int], mode: str) -> float:
    """Returns the number of inputs, of outputs, or the mean of both, of a weight."""
    inputs = float(shape[-2]) if len(shape) > 1 else float(shape[-1])
    outputs = float(shape[-1])
    for dimension in shape[:-2]:
        inputs *= dimension
        outputs *= dimension
    return {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2}[mode]


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Initializer:
    """Returns the initializer of Glorot and Bengio.

    Args:
        uniform: whether values are uniform, or normal.
        seed: of the random numbers.
        dtype: floating-point type of the values.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


def xavier_initializer_conv2d(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Initializer:
    """Returns the initializer of Glorot and Bengio, as `xavier_initializer` does."""
    return xavier_initializer(uniform, seed, dtype)


# --- Regularizers ---

Regularizer = Callable[[Any], Any]


def _checked(scale: float) -> float:
    """Returns a scale, after checks of its type and sign.

    Raises:
        ValueError: it is an integer or negative.
    """
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}. Give a float such as 1e-4.")
    if scale < 0.0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
    return scale


def _regularizer(
    scale: float, scope: str | None, name: str, penalty: Callable[[Any], Any]
) -> Regularizer:
    """Returns a function that scales a penalty; without a scale there is none."""
    if _checked(scale) == 0.0:
        return lambda _: None

    def regularize(weights: Any) -> tf.Tensor:
        with _v1.name_scope(scope, name, [weights]) as scoped:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, penalty(weights), name=scoped)

    return regularize


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Returns a function of weights: `scale` times the sum of their absolute values.

    Args:
        scale: factor; 0.0 for no regularization.
        scope: name scope of the ops.
    """
    return _regularizer(scale, scope, "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Returns a function of weights: `scale` times half the sum of their squares.

    Args:
        scale: factor; 0.0 for no regularization.
        scope: name scope of the ops.
    """
    return _regularizer(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
    """Returns the sum of `l1_regularizer` and `l2_regularizer`.

    Args:
        scale_l1: factor of the first.
        scale_l2: factor of the second.
        scope: name scope of the ops.
    """
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
    regularizer_list: Sequence[Regularizer | None], scope: str | None = None
) -> Regularizer:
    """Returns the sum of regularizers.

    Args:
        regularizer_list: the regularizers; None stands for none.
        scope: name scope of the ops.
    """
    regularizers = [regularizer for regularizer in regularizer_list if regularizer is not None]

    def regularize(weights: Any) -> tf.Tensor | None:
        with _v1.name_scope(scope, "sum_regularizer", [weights]) as scoped:
            losses = [regularizer(weights) for regularizer in regularizers]
            losses = [loss for loss in losses if loss is not None]
            return tf.add_n(losses, name=scoped) if losses else None

    return regularize


def apply_regularization(
    regularizer: Regularizer, weights_list: Sequence[Any] | None = None
) -> tf.Tensor:
    """Returns the sum of the losses of weights, and collects it as a regularization loss.

    Args:
        regularizer: function of weights; its value has shape [].
        weights_list: the weights; else those in the collection `WEIGHTS`.

    Raises:
        ValueError: a loss has another shape.
    """
    if weights_list is None:
        weights_list = _v1.get_collection(_v1.GraphKeys.WEIGHTS)
    penalties = [regularizer(weights) for weights in weights_list]
    penalties = [penalty if penalty is not None else tf.constant(0.0) for penalty in penalties]
    for penalty in penalties:
        if penalty.shape.ndims != 0:
            raise ValueError(
                f"regularizer must return a scalar Tensor instead of a Tensor with rank "
                f"{penalty.shape.ndims}."
            )
    total = tf.add_n(penalties) if penalties else tf.constant(0.0)
    _v1.add_to_collection(_v1.GraphKeys.REGULARIZATION_LOSSES, total)
    return total


# --- Scopes of arguments ---

Scope = dict[str, dict[str, Any]]


_scopes: list[Scope] = [{}]


#: The functions that take arguments from scopes: key -> names of their arguments with a default.
_functions: dict[str, tuple[str, ...]] = {}


def _key(function: Any) -> str:
    return getattr(function, "_key_op", str(function))


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function, so that `arg_scope` can set defaults of its arguments.

    Args:
        func: the function.
    """
    key = f"{func.__module__}.{func.__qualname__}"

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **{**_scopes[-1].get(key, {}), **kwargs})

    call._key_op = key  # type: ignore[attr-defined]
    code = func.__code__
    _functions[key] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return call


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Sets arguments of functions within a `with` block.

    Args:
        list_ops_or_scope: list of functions decorated with `add_arg_scope`, or the value of another
            `arg_scope`, which is then set again as a whole.
        **kwargs: the arguments, for a list of functions.

    Yields:
        The arguments in force, by function.

    Raises:
        TypeError: it is neither a list nor a scope.
        ValueError: arguments were given with a scope, or a function is not decorated.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty. "
                f"Received: {', '.join(kwargs)}."
            )
        scope = {key: dict(values) for key, values in list_ops_or_scope.items()}
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = {key: dict(values) for key, values in _scopes[-1].items()}
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise ValueError(
                    f"{_key(function)} is not decorated with @add_arg_scope: put the decorator "
                    "before its definition, or leave it out of the list."
                )
            scope.setdefault(_key(function), {}).update(kwargs)
    else:
        raise TypeError(
            "list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict). Received: "
            f"{list_ops_or_scope!r}."
        )
    _scopes.append(scope)
    try:
        yield scope
    finally:
        _scopes.pop()


def current_arg_scope() -> Scope:
    """Returns the arguments in force, by function."""
    return _scopes[-1]


def has_arg_scope(func: Callable[..., Any]) -> bool:
    """Returns whether a function is decorated with `add_arg_scope`."""
    return _key(func) in _functions


def arg_scoped_arguments(func: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of the arguments that can be set for a function.

    Args:
        func: a function decorated with `add_arg_scope`.

    Raises:
        ValueError: it is not decorated.
    """
    if not has_arg_scope(func):
        raise ValueError(f"{_key(func)} is not decorated with @add_arg_scope.")
    return _functions[_key(func)]


# --- Variables and collections ---


_KEYS = _v1.GraphKeys


@add_arg_scope
def variable(name: str, shape: Any = None, collections: Any = None, **options: Any) -> Any:
    """Gets or makes a variable, as `tf.get_variable` does.

    Args:
        name: of the variable.
        shape: of the variable.
        collections: which it is added to; else `GLOBAL_VARIABLES`.
        **options: further arguments of `tf.get_variable`; `device` is one more.
    """
    names = list(collections) if collections is not None else [_KEYS.GLOBAL_VARIABLES]
    with _v1.device(options.pop("device", None) or ""):
        return _v1.get_variable(name, shape, collections=list(dict.fromkeys(names)), **options)


@add_arg_scope
def model_variable(name: str, shape: Any = None, collections: Any = None, **options: Any) -> Any:
    """Gets or makes a variable of the model, which is in `MODEL_VARIABLES` as well.

    Args:
        name: of the variable.
        shape: of the variable.
        collections: which it is added to besides.
        **options: further arguments of `variable`.
    """
    names = [*(collections or []), _KEYS.GLOBAL_VARIABLES, _KEYS.MODEL_VARIABLES]
    return variable(name, shape, names, **options)


def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, **options: Any
) -> Any:
    """Makes a variable in the collection `LOCAL_VARIABLES`, which is not saved.

    Args:
        initial_value: its value at first.
        validate_shape: whether that has a known shape.
        name: of the variable.
        **options: further arguments of `tf.Variable`.
    """
    return _v1.Variable(
        initial_value,
        trainable=False,
        collections=[_KEYS.LOCAL_VARIABLES],
        validate_shape=validate_shape,
        name=name,
        **options,
    )


def add_model_variable(var: Any) -> None:
    """Adds a variable to the collection `MODEL_VARIABLES`, unless it is there."""
    if not any(other is var for other in _v1.get_collection(_KEYS.MODEL_VARIABLES)):
        _v1.add_to_collection(_KEYS.MODEL_VARIABLES, var)


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = _KEYS.GLOBAL_VARIABLES
) -> list[Any]:
    """Returns variables by scope and by the end of their name.

    Args:
        scope: a scope, or a prefix of the names.
        suffix: end of the names, after a `/`.
        collection: their collection.
    """
    if isinstance(scope, _v1.VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = (scope or "") + ".*" + (suffix if ":" in suffix else suffix + ":")
    return _v1.get_collection(collection, scope)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Returns the variables of the model; see `get_variables` for the arguments."""
    return get_variables(scope, suffix, _KEYS.MODEL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Returns the trainable variables; see `get_variables` for the arguments."""
    return get_variables(scope, suffix, _KEYS.TRAINABLE_VARIABLES)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Returns the variables with a name, in any scope below `scope`."""
    return get_variables(scope, rf"/{given_name}:|^{given_name}:")


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Returns the variables whose name ends with `suffix`."""
    return get_variables(scope, suffix)


def get_unique_variable(var_op_name: str) -> Any:
    """Returns the variable with a full name.

    Args:
        var_op_name: its name, with scopes and without `:0`.

    Raises:
        ValueError: there is none, or more than one.
    """
    found = [var for var in get_variables(var_op_name) if var.op.name == var_op_name]
    if len(found) != 1:
        raise ValueError(
            f"Variable {var_op_name} does not uniquely identify a variable: there are "
            f"{len(found)} of this name."
        )
    return found[0]


def get_variables_to_restore(
    include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[Any]:
    """Returns the variables of some scopes, without excluded scopes.

    Args:
        include: prefixes of their names; all variables if not given.
        exclude: prefixes of names to leave out.
    """
    return filter_variables(get_variables(), include, exclude, reg_search=False)


def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Returns the variables whose names match patterns.

    Args:
        var_list: the variables.
        include_patterns: regular expressions of which one must match; all pass if not given.
        exclude_patterns: regular expressions of which none may match.
        reg_search: whether they may match anywhere, or at the beginning.
    """
    match = re.search if reg_search else re.match

    def any_of(patterns: Sequence[str], var: Any) -> bool:
        return any(match(pattern, var.op.name) for pattern in patterns)

    kept = [var for var in var_list if include_patterns is None or any_of(include_patterns, var)]
    return [var for var in kept if not any_of(exclude_patterns or (), var)]


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Any, dict[Any, Any]]:
    """Returns an op that sets variables, and its feed dictionary.

    Args:
        var_names_to_values: the values by the full name of the variable.
    """
    assigns, feed = [], {}
    for name, value in var_names_to_values.items():
        var = get_unique_variable(name)
        fed = _v1.placeholder(var.dtype.base_dtype, var.shape, name=f"{var.op.name}_assign")
        assigns.append(_v1.assign(var, fed))
        feed[fed] = value.reshape(var.shape)
    return tf.group(*assigns), feed


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], None]:
    """Returns a function of a session that sets variables; see `assign_from_values`."""
    op, feed = assign_from_values(var_names_to_values)
    return lambda session: session.run(op, feed)


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """Returns an op that sets variables from a checkpoint, and its feed dictionary.

    Args:
        model_path: of the checkpoint.
        var_list: the variables, or a dictionary of them by their name in the checkpoint.
        ignore_missing_vars: whether variables that the checkpoint lacks stay as they are.

    Raises:
        ValueError: the checkpoint lacks a variable.
    """
    if not isinstance(var_list, Mapping):
        var_list = {var.op.name: var for var in var_list}
    reader = _v1.train.NewCheckpointReader(model_path)
    assigns, feed = [], {}
    for name, var in var_list.items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                continue
            raise ValueError(f"Checkpoint is missing variable [{name}]")
        fed = _v1.placeholder(var.dtype.base_dtype, var.shape)
        assigns.append(_v1.assign(var, fed))
        feed[fed] = reader.get_tensor(name).reshape(var.shape)
    return tf.group(*assigns), feed


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[[Any], None]:
    """Returns a function of a session that sets variables; see `assign_from_checkpoint`.

    Args:
        model_path: of the checkpoint.
        var_list: the variables.
        ignore_missing_vars: whether variables that the checkpoint lacks stay as they are.
        reshape_variables: has no effect: values take the shape of the variable.
    """
    del reshape_variables
    op, feed = assign_from_checkpoint(model_path, var_list, ignore_missing_vars)
    return lambda session: session.run(op, feed)
