"""Layer functions of `tensorflow.contrib.layers` that make variables in scopes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compat.replacements.arg_scopes import add_arg_scope
from tensorflow_ipu.compat.replacements.initializers import xavier_initializer
from tensorflow_ipu.compat.replacements.layer_helpers import (
    ZEROS,
    checked_format,
    collected,
    finished,
    weights_of,
)

_v1 = tf.compat.v1


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
