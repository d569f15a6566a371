"""Families of TensorFlow's kernels that could keep state between calls, as functions of one tensor.

oneDNN kernels cache primitives, filters and memory descriptors in the kernel object, and so do some
of TensorFlow's own. A family is what the graph optimizers turn into such kernels: fusions of a
convolution or a product with what follows, their gradients, pooling, normalisation, recurrent cells
and quantisation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# A batch of images: [samples, height, width, channels].
IMAGES = (2, 12, 12, 8)


class Weights(NamedTuple):
    """Weights of the families; tensors that are not constants of the program."""

    filters: tf.Tensor  # [3, 3, 8, 8]
    other_filters: tf.Tensor  # [3, 3, 8, 8]
    depthwise: tf.Tensor  # [3, 3, 8, 1]
    volume: tf.Tensor  # [3, 3, 3, 8, 8]
    matrix: tf.Tensor  # [8, 8]
    gates: tf.Tensor  # [16, 32]
    vector: tf.Tensor  # [8]


Family = Callable[[tf.Tensor, Weights], tf.Tensor]


def weights() -> Weights:
    """Returns small random weights, the same in each call."""
    random = np.random.default_rng(1)
    shapes = [
        (3, 3, 8, 8),
        (3, 3, 8, 8),
        (3, 3, 8, 1),
        (3, 3, 3, 8, 8),
        (8, 8),
        (16, 32),
        (8,),
    ]
    arrays = (0.2 * random.standard_normal(shape) for shape in shapes)
    return Weights(*(tf.constant(array, tf.float32) for array in arrays))


def _convolution(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return tf.nn.conv2d(x, w.filters, 1, "SAME")


def _bias(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return tf.nn.bias_add(_convolution(x, w), w.vector)


def _residual(x: tf.Tensor, w: Weights) -> tf.Tensor:
    other = tf.nn.bias_add(tf.nn.conv2d(x, w.other_filters, 1, "SAME"), w.vector)
    return _bias(x, w) + other


def _residual_used_again(x: tf.Tensor, w: Weights) -> tf.Tensor:
    # What is added lives on, so the fused kernel has to copy it into its output first.
    shortcut = tf.sin(x)
    return (_bias(x, w) + shortcut) * tf.cos(shortcut)


def _constant_filters(x: tf.Tensor, w: Weights) -> tf.Tensor:
    filters = tf.constant(np.linspace(-0.1, 0.1, 3 * 3 * 8 * 8).reshape(3, 3, 8, 8), tf.float32)
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, filters, 1, "SAME"), w.vector))


def _depthwise(x: tf.Tensor, w: Weights) -> tf.Tensor:
    y = tf.nn.depthwise_conv2d(x, w.depthwise, [1, 1, 1, 1], "SAME")
    return tf.nn.relu6(tf.nn.bias_add(y, w.vector))


def _volume(x: tf.Tensor, w: Weights) -> tf.Tensor:
    x = tf.reshape(x, [1, 4, 6, 12, 8])
    return tf.nn.bias_add(tf.nn.conv3d(x, w.volume, [1] * 5, "SAME"), w.vector)


def _pooled_volume(x: tf.Tensor, w: Weights) -> tf.Tensor:
    x = tf.reshape(x, [1, 4, 6, 12, 8])
    return tf.nn.max_pool3d(x, 2, 2, "SAME") + tf.nn.avg_pool3d(x, 2, 2, "SAME")


def _transposed(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return tf.nn.conv2d_transpose(x, w.filters, (2, 24, 24, 8), 2, "SAME")


def _normalized(x: tf.Tensor, w: Weights, training: bool) -> tf.Tensor:
    y, _, _ = tf.compat.v1.nn.fused_batch_norm(
        _convolution(x, w),
        w.vector,
        w.vector,
        mean=None if training else w.vector,
        variance=None if training else tf.square(w.vector) + 1.0,
        is_training=training,
    )
    return tf.nn.relu(y)


def _residual_normalized(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return tf.nn.relu(_normalized(x, w, training=True) + x)


def _product(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, 8]), w.matrix), w.vector)


def _residual_product(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return _product(x, w) + tf.reshape(x, [-1, 8])


def _attention(x: tf.Tensor, w: Weights) -> tf.Tensor:
    heads = tf.reshape(x, [2, 4, 36, 8])
    scores = tf.matmul(heads, heads, transpose_b=True) * 0.35
    mask = tf.reshape(tf.linspace(-1.0, 1.0, 36), [1, 1, 1, 36])
    return tf.matmul(tf.nn.softmax(scores + mask), heads)


def _layer_normalized(x: tf.Tensor, w: Weights) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, w.vector, w.vector, 1e-3)


def _instance_normalized(x: tf.Tensor, w: Weights) -> tf.Tensor:
    mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, w.vector, w.vector, 1e-3)


def _long_short_term_memory(x: tf.Tensor, w: Weights) -> tf.Tensor:
    steps = tf.reshape(x, [9, 32, 8])
    state = output = tf.zeros([32, 8])
    peephole = tf.zeros([8])
    outputs = []
    for step in tf.unstack(steps):
        cell = tf.raw_ops.LSTMBlockCell(
            x=step,
            cs_prev=state,
            h_prev=output,
            w=w.gates,
            wci=peephole,
            wcf=peephole,
            wco=peephole,
            b=tf.tile(w.vector, [4]),
        )
        state, output = cell.cs, cell.h
        outputs.append(output)
    return tf.stack(outputs)


def _gated_recurrent_unit(x: tf.Tensor, w: Weights) -> tf.Tensor:
    output = tf.zeros([32, 8])
    for step in tf.unstack(tf.reshape(x, [9, 32, 8])):
        output = tf.raw_ops.GRUBlockCell(
            x=step,
            h_prev=output,
            w_ru=w.gates[:, :16],
            w_c=w.gates[:, 16:24],
            b_ru=tf.tile(w.vector, [2]),
            b_c=w.vector,
        ).h
    return output


def _fake_quantized(x: tf.Tensor, w: Weights) -> tf.Tensor:
    x = tf.quantization.fake_quant_with_min_max_args(x, -2.0, 2.0)
    filters = tf.quantization.fake_quant_with_min_max_vars(w.filters, -0.5, 0.5)
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, filters, 1, "SAME"), w.vector))


def _quantized_and_back(x: tf.Tensor, w: Weights) -> tf.Tensor:
    return tf.quantization.quantize_and_dequantize_v2(x, -2.0, 2.0, range_given=True)


# By name: what is computed. Each is run as it stands, and with its gradients.
FAMILIES: dict[str, Family] = {
    "convolution": _convolution,
    "convolution + bias": _bias,
    "convolution + bias + relu": lambda x, w: tf.nn.relu(_bias(x, w)),
    "convolution + bias + relu6": lambda x, w: tf.nn.relu6(_bias(x, w)),
    "convolution + bias + elu": lambda x, w: tf.nn.elu(_bias(x, w)),
    "convolution + bias + leaky relu": lambda x, w: tf.nn.leaky_relu(_bias(x, w)),
    "convolution + bias + swish": lambda x, w: _bias(x, w) * tf.sigmoid(_bias(x, w)),
    "convolution + bias + add": _residual,
    "convolution + bias + add of what is used again": _residual_used_again,
    "convolution + bias + add + relu": lambda x, w: tf.nn.relu(_residual(x, w)),
    "convolution of constant filters": _constant_filters,
    "padded convolution": lambda x, w: tf.nn.conv2d(
        tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), w.filters, 2, "VALID"
    ),
    "depthwise convolution + bias + relu6": _depthwise,
    "convolution of volumes + bias": _volume,
    "transposed convolution": _transposed,
    "batch normalisation in training": lambda x, w: _normalized(x, w, training=True),
    "batch normalisation in inference": lambda x, w: _normalized(x, w, training=False),
    "batch normalisation + add + relu": _residual_normalized,
    "layer normalisation": _layer_normalized,
    "instance normalisation": _instance_normalized,
    "local response normalisation": lambda x, w: tf.nn.local_response_normalization(x),
    "product + bias": _product,
    "product + bias + relu": lambda x, w: tf.nn.relu(_product(x, w)),
    "product + bias + gelu": lambda x, w: tf.nn.gelu(_product(x, w), approximate=True),
    "product + bias + tanh": lambda x, w: tf.tanh(_product(x, w)),
    "product + bias + add": _residual_product,
    "attention": _attention,
    "pooling of maxima": lambda x, w: tf.nn.max_pool2d(x, 3, 2, "SAME"),
    "pooling of means": lambda x, w: tf.nn.avg_pool2d(x, 3, 2, "SAME"),
    "pooling of volumes": _pooled_volume,
    "softmax": lambda x, w: tf.nn.softmax(x),
    "swish": lambda x, w: tf.nn.swish(x),
    "mish": lambda x, w: x * tf.tanh(tf.nn.softplus(x)),
    "concatenation": lambda x, w: tf.concat([x, tf.nn.relu(x)], -1),
    "sum of several": lambda x, w: tf.add_n([x, tf.nn.relu(x), tf.tanh(x)]),
    "transposition": lambda x, w: tf.transpose(x, [0, 3, 1, 2]),
    "LSTM cell": _long_short_term_memory,
    "GRU cell": _gated_recurrent_unit,
    "quantisation that is simulated": _fake_quantized,
    "quantisation and back": _quantized_and_back,
}

# TensorFlow has no gradient of these kernels.
WITHOUT_GRADIENT = frozenset({"LSTM cell", "GRU cell"})
