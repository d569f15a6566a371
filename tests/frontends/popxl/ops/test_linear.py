"""Convolutions and pooling: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl.popxl_cases import Case, check

RNG = np.random.default_rng(2)


X = RNG.permutation(np.linspace(-1, 1, 2 * 4 * 5 * 6)).reshape(2, 4, 5, 6).astype(np.float32)


W = RNG.normal(size=(6, 4, 3, 2)).astype(np.float32)


LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def of_nhwc(function):
    """A function of tensors with the channels last, for those with the channels first."""
    return lambda t, *rest: tf.transpose(function(tf.transpose(t, LAST), *rest), FIRST)


def kernel(w):
    return tf.transpose(w, [2, 3, 1, 0])


def grouped(t, w):
    parts = zip(tf.split(t, 2, -1), tf.split(w, 2, 0))
    return tf.concat([tf.nn.conv2d(a, kernel(b), 1, "VALID") for a, b in parts], -1)


CASES = [
    Case("conv", ops.conv, of_nhwc(lambda t, w: tf.nn.conv2d(t, kernel(w), 1, "VALID")), [X, W]),
    Case(
        "conv padded",
        lambda t, w: ops.conv(t, w, (2, 1), (1, 0, 2, 1)),
        of_nhwc(
            lambda t, w: tf.nn.conv2d(
                tf.pad(t, [(0, 0), (1, 2), (0, 1), (0, 0)]), kernel(w), (2, 1), "VALID"
            )
        ),
        [X, W],
    ),
    Case(
        "conv same",
        lambda t, w: ops.conv(t, w, (2, 2), pad_type="same_upper"),
        of_nhwc(lambda t, w: tf.nn.conv2d(t, kernel(w), 2, "SAME")),
        [X, W],
    ),
    Case(
        "conv dilated",
        lambda t, w: ops.conv(t, w, dilation=(2, 3), pad_type="valid"),
        of_nhwc(lambda t, w: tf.nn.conv2d(t, kernel(w), 1, "VALID", dilations=(2, 3))),
        [X, W],
    ),
    Case(
        "conv dilated with steps",
        lambda t, w: ops.conv(t, w, (2, 1), dilation=(2, 3)),
        of_nhwc(lambda t, w: tf.nn.conv2d(t, kernel(w), 1, "VALID", dilations=(2, 3))[:, ::2]),
        [X, W],
    ),
    Case("conv groups", lambda t, w: ops.conv(t, w, groups=2), of_nhwc(grouped), [X, W[:, :2]]),
    Case(
        "conv 1d",
        lambda t, w: ops.conv(t, w, (1,), (0, 0), (1,)),
        lambda t, w: tf.transpose(
            tf.nn.conv1d(tf.transpose(t, [0, 2, 1]), tf.transpose(w, [2, 1, 0]), 1, "VALID"),
            [0, 2, 1],
        ),
        [X[..., 0], W[..., 0]],
    ),
    Case(
        "average",
        lambda t: ops.average_pool(t, (2, 3), (2, 2)),
        of_nhwc(lambda t: tf.nn.avg_pool2d(t, (2, 3), 2, "VALID")),
        [X],
    ),
    Case(
        "average same",
        lambda t: ops.average_pool(t, (3, 3), (2, 2), auto_pad="same_upper"),
        of_nhwc(lambda t: tf.nn.avg_pool2d(t, 3, 2, "SAME")),
        [X],
    ),
    Case(
        "max",
        lambda t: ops.max_pool(t, (2, 2)),
        of_nhwc(lambda t: tf.nn.max_pool2d(t, 2, 1, "VALID")),
        [X],
    ),
    Case(
        "max beyond",
        lambda t: ops.max_pool(t, (2, 2), (3, 2), dilation=(1, 2)),
        of_nhwc(lambda t: tf.nn.pool(t, (2, 2), "MAX", dilations=(1, 2))[:, ::3, ::2]),
        [X],
    ),
    Case(
        "average of windows that begin inside",
        lambda t: ops.average_pool(t[:, :, :6, :6], (2, 2), (3, 3), ceil_mode=True),
        of_nhwc(lambda t: tf.nn.avg_pool2d(t[:, :6, :6], 2, 1, "VALID")[:, ::3, ::3]),
        [X],
    ),
    Case(
        "max ceil",
        lambda t: ops.max_pool(t, (2, 2), (2, 2), ceil_mode=True),
        of_nhwc(lambda t: tf.nn.max_pool2d(t, 2, 2, "SAME")),
        [X],
    ),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 2e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda x, w: ops.conv(x, w, pad_type="same"), ValueError, "pad type"),
        (lambda x, w: ops.conv(x, w, (1,)), ValueError, "stride must have 2 entries"),
        (
            lambda x, w: ops.conv(x, w, groups=2),
            popxl.errors.popart_exception,
            "Invalid value for group",
        ),
        (
            lambda x, w: ops.max_pool(x, (2, 2), storage_order="column"),
            popxl.errors.popart_exception,
            "storage_order",
        ),
        (lambda x, w: ops.average_pool(x, (2, 2), auto_pad="all"), ValueError, "pad type"),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X), popxl.variable(W))


# --- Transposed convolutions: values, gradients and errors ---

RNG_TRANSPOSED = np.random.default_rng(4)


X_TRANSPOSED = RNG_TRANSPOSED.normal(size=(2, 4, 3, 3)).astype(np.float32)


W_TRANSPOSED = RNG_TRANSPOSED.normal(size=(4, 2, 3, 3)).astype(np.float32)


def whole(t, w, stride=2):
    """The transposed convolution with nothing cut off, channels first."""
    size = stride * 2 + 3
    result = tf.nn.conv2d_transpose(
        tf.transpose(t, [0, 2, 3, 1]),
        tf.transpose(w, [2, 3, 1, 0]),
        [2, size, size, w.shape[1]],
        stride,
        "VALID",
    )
    return tf.transpose(result, [0, 3, 1, 2])


def grouped_transposed(t, w):
    parts = zip(tf.split(t, 2, 1), tf.split(w, 2, 0))
    return tf.concat([whole(a, b) for a, b in parts], 1)


def built(**options):
    return lambda t, w: ops.conv_transpose(t, w, (2, 2), **options)


CASES_TRANSPOSED = [
    Case("plain", built(), whole, [X_TRANSPOSED, W_TRANSPOSED]),
    Case(
        "cut",
        built(padding=(1, 0, 0, 2)),
        lambda t, w: whole(t, w)[:, :, 1:, :5],
        [X_TRANSPOSED, W_TRANSPOSED],
    ),
    Case(
        "longer",
        built(padding=(1, 1, 0, 0), output_padding=(1, 1)),
        lambda t, w: tf.pad(whole(t, w)[:, :, 1:, 1:], [(0, 0), (0, 0), (0, 1), (0, 1)]),
        [X_TRANSPOSED, W_TRANSPOSED],
    ),
    Case(
        "to a shape",
        built(output_shape=(6, 4), pad_type="same_upper"),
        lambda t, w: whole(t, w)[:, :, :6, 1:5],
        [X_TRANSPOSED, W_TRANSPOSED],
    ),
    Case(
        "to a whole shape",
        built(
            output_shape=(X_TRANSPOSED.shape[0], W_TRANSPOSED.shape[1], 6, 4), pad_type="same_upper"
        ),
        lambda t, w: whole(t, w)[:, :, :6, 1:5],
        [X_TRANSPOSED, W_TRANSPOSED],
    ),
    Case("groups", built(groups=2), grouped_transposed, [X_TRANSPOSED, W_TRANSPOSED]),
]


def test_misfit_of_transposed_is_refused():
    error = popxl.errors.popart_exception
    with popxl.Ir().main_graph:
        x, w = popxl.variable(X_TRANSPOSED), popxl.variable(W_TRANSPOSED)
        with pytest.raises(ValueError, match="pad type"):
            ops.conv_transpose(x, w, pad_type="same")
        with pytest.raises(error, match="Non default value for dilations"):
            ops.conv_transpose(x, w, dilation=(2, 2))
        with pytest.raises(error, match="Invalid value for group"):
            ops.conv_transpose(x, w, groups=3)
        with pytest.raises(error, match="'valid' allows no output_shape"):
            ops.conv_transpose(x, w, output_shape=(3, 3), pad_type="valid")
