"""Convolution and pooling layers of `tensorflow.contrib.layers`."""

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
