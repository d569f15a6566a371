"""Normalizations of `tensorflow.contrib.layers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compat.replacements.arg_scopes import add_arg_scope
from tensorflow_ipu.compat.replacements.layer_helpers import checked_format, collected, weights_of

_v1 = tf.compat.v1


def _norm_settings(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the settings of one variable of a normalization."""
    given = (values.get("param_initializers") or {}).get(name)
    default = tf.ones_initializer() if name in ("gamma", "moving_variance") else None
    initializer = given or default or tf.zeros_initializer()
    regularizer = (values.get("param_regularizers") or {}).get(name)
    return {**values, "param_initializer": initializer, "param_regularizer": regularizer}


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Callable[[Any], Any] | None = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> tf.Tensor:
    """Normalizes each example.

    Args:
        inputs: floats, at least rank 2.
        center: whether to add `beta`.
        scale: whether to multiply by `gamma`.
        activation_fn: of the result; None for none.
        reuse: whether to use the variables of an earlier call.
        variables_collections: collections of the variables.
        outputs_collections: collections of the result.
        trainable: whether the variables are trained.
        begin_norm_axis: first dimension to normalize over.
        begin_params_axis: first dimension of `beta` and `gamma`.
        scope: name of the scope, or a scope.

    Returns:
        Floats of the shape of the inputs.
    """
    settings = dict(locals())
    with _v1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank, dtype = inputs.shape.ndims, inputs.dtype.base_dtype
        first = begin_norm_axis if begin_norm_axis >= 0 else rank + begin_norm_axis
        shape = inputs.shape[begin_params_axis:]

        def parameter(name: str, wanted: bool) -> Any:
            own = _norm_settings(settings, name)
            return weights_of(name, shape, dtype, own, "param") if wanted else None

        beta, gamma = parameter("beta", center), parameter("gamma", scale)
        mean, variance = tf.nn.moments(inputs, list(range(first, rank)), keepdims=True)
        # The original's epsilon; the smallest float16 is larger.
        epsilon = 1e-12 if dtype != tf.float16 else 1e-3
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        outputs = activation_fn(outputs) if activation_fn is not None else outputs
        return collected(outputs_collections, opened.name, outputs)


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = _v1.GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    fused: bool | None = None,
    data_format: str = "NHWC",
    scope: Any = None,
) -> tf.Tensor:
    """Normalizes the channels of a batch.

    Args:
        inputs: floats, at least rank 2.
        decay: of the moving mean and variance.
        center: whether to add `beta`.
        scale: whether to multiply by `gamma`.
        epsilon: added to the variance.
        activation_fn: of the result; None for none.
        param_initializers: of `beta`, `gamma`, `moving_mean` and `moving_variance`, by name.
        param_regularizers: of `beta` and `gamma`, by name.
        updates_collections: collections of the updates of the moving moments; None for updates
            before the result.
        is_training: whether to use the moments of the batch; a boolean or a tensor.
        reuse: whether to use the variables of an earlier call.
        variables_collections: has no effect: the variables are in the layer's collections.
        outputs_collections: collections of the result.
        trainable: whether `beta` and `gamma` are trained.
        fused: whether one op does it; chosen if not given.
        data_format: `NHWC` or `NCHW`.
        scope: name of the scope, or a scope.

    Returns:
        Floats of the shape of the inputs.
    """
    del variables_collections
    given, regularizers = dict(param_initializers or {}), dict(param_regularizers or {})
    names = ("beta", "gamma", "moving_mean", "moving_variance")
    options = {f"{name}_initializer": given[name] for name in names if name in given}
    options.update({f"{name}_regularizer": regularizers.get(name) for name in names[:2]})
    layout = checked_format(data_format)
    with _v1.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as opened:
        layer = _v1.layers.BatchNormalization(
            axis=1 if layout == "NCHW" else -1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            trainable=trainable,
            fused=fused,
            name=opened.name,
            _scope=opened,
            _reuse=reuse,
            **options,
        )
        outputs = layer(tf.convert_to_tensor(inputs), training=is_training)
        if updates_collections is None:
            with tf.control_dependencies(layer.updates):
                outputs = tf.identity(outputs)
        elif updates_collections != _v1.GraphKeys.UPDATE_OPS:  # the layer adds to that
            for update in layer.updates:
                _v1.add_to_collections(updates_collections, update)
        outputs = activation_fn(outputs) if activation_fn is not None else outputs
        return collected(outputs_collections, opened.name, outputs)
