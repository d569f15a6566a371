"""Layer functions of `tensorflow.contrib.layers`: dense, image and normalization layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compat.replacements.framework import (
    add_arg_scope,
    model_variable,
    xavier_initializer,
)

# --- Shared helpers ---

_v1 = tf.compat.v1

#: Initializer of biases.
ZEROS = tf.zeros_initializer()


def collected(collections: Any, scope: str, outputs: tf.Tensor) -> tf.Tensor:
    """Adds results to collections.

    Args:
        collections: names of the collections, or none.
        scope: of the layer.
        outputs: the results.

    Returns:
        The results.
    """
    if collections:
        _v1.add_to_collections(collections, outputs)
    return outputs


def weights_of(name: str, shape: Any, dtype: Any, settings: Mapping[str, Any], kind: str) -> Any:
    """Creates a variable of a layer.

    Args:
        name: of the variable.
        shape: of the variable.
        dtype: of the variable.
        settings: the arguments of the layer.
        kind: prefix of the arguments for this variable, such as `biases` in `biases_initializer`.
    """
    collections = settings.get("variables_collections")
    if isinstance(collections, Mapping):
        collections = collections.get(name)
    return model_variable(
        name,
        shape,
        collections,
        dtype=dtype,
        initializer=settings.get(f"{kind}_initializer"),
        regularizer=settings.get(f"{kind}_regularizer"),
        trainable=settings.get("trainable", True),
    )


def finished(
    outputs: tf.Tensor, settings: Mapping[str, Any], channels: int, data_format: str | None = None
) -> tf.Tensor:
    """Applies the normalization, or adds biases; then applies the activation.

    Args:
        outputs: the linear result of the layer.
        settings: the arguments of the layer.
        channels: number of biases.
        data_format: position of the channels; last if not given.
    """
    normalizer = settings["normalizer_fn"]
    if normalizer is not None:
        outputs = normalizer(outputs, **(settings["normalizer_params"] or {}))
    elif settings["biases_initializer"] is not None:
        dtype = outputs.dtype.base_dtype
        biases = weights_of("biases", [channels], dtype, settings, "biases")
        outputs = _v1.nn.bias_add(outputs, biases, data_format=data_format)
    activation = settings["activation_fn"]
    return activation(outputs) if activation is not None else outputs


def checked_format(data_format: str | None) -> str:
    """Returns a layout of images; channels last if none is given.

    Args:
        data_format: `NHWC` or `NCHW`.

    Raises:
        ValueError: it is another.
    """
    if data_format not in (None, "NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC. Received: " + str(data_format))
    return data_format or "NHWC"


# --- Layers ---


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Callable[[Any], Any] | None = tf.nn.relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """Multiplies by weights and adds biases.

    Args:
        inputs: floats, shape [..., inputs]; the last dimension is known.
        num_outputs: size of the last dimension of the result.
        activation_fn: of the result; None for none.
        normalizer_fn: applied instead of biases.
        normalizer_params: its arguments.
        weights_initializer: of `weights`; Xavier's if not given.
        weights_regularizer: of `weights`.
        biases_initializer: of `biases`; None for no biases.
        biases_regularizer: of `biases`.
        reuse: whether to use the variables of an earlier call.
        variables_collections: collections of the variables, for each or as a dictionary by name.
        outputs_collections: collections of the result.
        trainable: whether the variables are trained.
        scope: name of the scope, or a scope.

    Returns:
        Floats, shape [..., num_outputs].
    """
    settings = dict(locals())
    settings["weights_initializer"] = weights_initializer or xavier_initializer()
    with _v1.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        dtype = inputs.dtype.base_dtype
        shape = [int(inputs.shape[-1]), int(num_outputs)]
        weights = weights_of("weights", shape, dtype, settings, "weights")
        rank = inputs.shape.ndims
        product = (
            tf.matmul(inputs, weights) if rank == 2 else tf.tensordot(inputs, weights, [[-1], [0]])
        )
        outputs = finished(product, settings, int(num_outputs))
        return collected(outputs_collections, opened.name, outputs)


def relu(inputs: Any, num_outputs: int, **options: Any) -> tf.Tensor:
    """Returns `fully_connected` with the activation `tf.nn.relu`."""
    return fully_connected(inputs, num_outputs, **{"activation_fn": tf.nn.relu, **options})


def relu6(inputs: Any, num_outputs: int, **options: Any) -> tf.Tensor:
    """Returns `fully_connected` with the activation `tf.nn.relu6`."""
    return fully_connected(inputs, num_outputs, **{"activation_fn": tf.nn.relu6, **options})


def linear(inputs: Any, num_outputs: int, **options: Any) -> tf.Tensor:
    """Returns `fully_connected` without an activation."""
    return fully_connected(inputs, num_outputs, **{"activation_fn": None, **options})


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> tf.Tensor:
    """Flattens all dimensions but the first.

    Args:
        inputs: shape [batch, ...].
        outputs_collections: which the result is added to.
        scope: name of the scope.

    Returns:
        Shape [batch, rest].
    """
    with _v1.name_scope(scope, "Flatten", [inputs]) as scoped:
        inputs = tf.convert_to_tensor(inputs)
        size = inputs.shape[1:].num_elements()
        outputs = tf.reshape(inputs, [-1 if size is not None else tf.shape(inputs)[0], size or -1])
        return collected(outputs_collections, scoped, outputs)


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Callable[[Any], Any] | None = None,
    initializer: Any = ZEROS,
    regularizer: Any = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> tf.Tensor:
    """Adds biases to channels; see `conv2d` for the arguments."""
    settings = {
        **locals(),
        **{"normalizer_fn": None, "biases_initializer": initializer},
        "biases_regularizer": regularizer,
    }
    with _v1.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layout = checked_format(data_format)
        channels = int(inputs.shape[1 if layout == "NCHW" else -1])
        outputs = finished(inputs, settings, channels, layout)
        return collected(outputs_collections, opened.name, outputs)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> tf.Tensor:
    """Sets elements to zero at random, and scales the others.

    Args:
        inputs: floats.
        keep_prob: part of the elements that is kept, on average.
        noise_shape: shape of the random mask; it is broadcast.
        is_training: whether to drop elements, or to return the inputs; a boolean or a tensor.
        outputs_collections: collections of the result.
        scope: name of the scope, or a scope.
        seed: of the random numbers.

    Returns:
        Floats of the shape of the inputs.
    """
    with _v1.variable_scope(scope, "Dropout", [inputs]) as opened:
        inputs = tf.convert_to_tensor(inputs)

        def dropped() -> tf.Tensor:
            return _v1.nn.dropout(inputs, noise_shape=noise_shape, rate=1 - keep_prob, seed=seed)

        known = is_training if isinstance(is_training, bool) else tf.get_static_value(is_training)
        if known is None:
            outputs = tf.cond(is_training, dropped, lambda: tf.identity(inputs))
        else:
            outputs = dropped() if known else inputs
        return collected(outputs_collections, opened.name, outputs)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: Any = None,
) -> tf.Tensor:
    """Returns a row with one `on_value` for each label.

    Args:
        labels: integers, any shape.
        num_classes: length of a row.
        on_value: at the place of the label.
        off_value: elsewhere.
        outputs_collections: which the result is added to.
        scope: name of the scope.
    """
    with _v1.name_scope(scope, "OneHotEncoding", [labels]) as scoped:
        labels = tf.cast(labels, tf.int64)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collected(outputs_collections, scoped, outputs)


def repeat(
    inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Applies the same layer several times, each in a scope of its own.

    Args:
        inputs: of the first.
        repetitions: how often.
        layer: function with the argument `scope`.
        *args: further arguments.
        **kwargs: further arguments by name.
    """
    return stack(inputs, layer, [args] * repetitions, **{"scope": "Repeat", **kwargs})


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """Applies a layer with several arguments, one after the other.

    Args:
        inputs: of the first.
        layer: function with the argument `scope`.
        stack_args: for each layer its argument, or a list of them.
        **kwargs: further arguments of all.
    """
    name = kwargs.pop("scope", None)
    named = isinstance(name, str) and name != "Repeat"
    base = name if named else getattr(layer, "__name__", "stack")
    with _v1.variable_scope(name, "Stack", [inputs]):
        for number, arguments in enumerate(stack_args, 1):
            given = arguments if isinstance(arguments, (list, tuple)) else [arguments]
            inner = f"{base.rsplit('/', 1)[-1]}_{number}"
            inputs = layer(inputs, *given, **{**kwargs, "scope": inner})
    return inputs


# --- Convolution and pooling ---


def _pair(value: Any) -> list[int]:
    return [int(part) for part in value] if isinstance(value, (list, tuple)) else [int(value)] * 2


def _windows(value: Any, data_format: str) -> list[int]:
    """Returns sizes or strides of a window in all four dimensions."""
    pair = _pair(value)
    return [1, 1, *pair] if data_format == "NCHW" else [1, *pair, 1]


@add_arg_scope
def conv2d(
    inputs: Any,
    num_outputs: int,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: int | Sequence[int] = 1,
    activation_fn: Callable[[Any], Any] | None = tf.nn.relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: bool | None = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """Convolves images.

    Args:
        inputs: floats, shape [batch, height, width, channels], or as `data_format` says.
        num_outputs: channels of the result.
        kernel_size: height and width of the kernel, or one number for both.
        stride: steps of the kernel.
        padding: `SAME` or `VALID`.
        data_format: `NHWC` or `NCHW`.
        rate: dilation, the steps between input elements of one output.
        activation_fn: see `fully_connected`, as for all arguments below.
        normalizer_fn: applied instead of biases.
        normalizer_params: its arguments.
        weights_initializer: of `weights`; Xavier's if not given.
        weights_regularizer: of `weights`.
        biases_initializer: of `biases`; None for no biases.
        biases_regularizer: of `biases`.
        reuse: whether to use the variables of an earlier call.
        variables_collections: collections of the variables.
        outputs_collections: collections of the result.
        trainable: whether the variables are trained.
        scope: name of the scope, or a scope.

    Returns:
        Floats of rank 4.
    """
    settings = dict(locals())
    settings["weights_initializer"] = weights_initializer or xavier_initializer()
    layout = checked_format(data_format)
    with _v1.variable_scope(scope, "Conv", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        channels = int(inputs.shape[1 if layout == "NCHW" else 3])
        shape = [*_pair(kernel_size), channels, int(num_outputs)]
        weights = weights_of("weights", shape, inputs.dtype.base_dtype, settings, "weights")
        outputs = _v1.nn.conv2d(
            inputs,
            weights,
            strides=_windows(stride, layout),
            padding=padding,
            data_format=layout,
            dilations=_windows(rate, layout),
        )
        outputs = finished(outputs, settings, int(num_outputs), layout)
        return collected(outputs_collections, opened.name, outputs)


def _pool(function: Any, name: str, inputs: Any, settings: Mapping[str, Any]) -> tf.Tensor:
    layout = checked_format(settings["data_format"])
    with _v1.name_scope(settings["scope"], name, [inputs]) as scoped:
        outputs = function(
            inputs,
            _windows(settings["kernel_size"], layout),
            _windows(settings["stride"], layout),
            settings["padding"],
            data_format=layout,
        )
        return collected(settings["outputs_collections"], scoped, outputs)


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 2,
    padding: str = "VALID",
    data_format: str | None = None,
    outputs_collections: Any = None,
    scope: Any = None,
) -> tf.Tensor:
    """Returns the maximum of each window of images; see `conv2d` for the arguments."""
    return _pool(_v1.nn.max_pool, "MaxPool2D", inputs, dict(locals()))


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 2,
    padding: str = "VALID",
    data_format: str | None = None,
    outputs_collections: Any = None,
    scope: Any = None,
) -> tf.Tensor:
    """Returns the mean of each window of images; see `conv2d` for the arguments."""
    return _pool(_v1.nn.avg_pool, "AvgPool2D", inputs, dict(locals()))


# --- Normalization ---


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
