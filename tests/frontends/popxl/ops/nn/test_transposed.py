"""Transposed convolutions: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl.popxl_cases import Case, check

RNG = np.random.default_rng(4)
X = RNG.normal(size=(2, 4, 3, 3)).astype(np.float32)
W = RNG.normal(size=(4, 2, 3, 3)).astype(np.float32)


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


def grouped(t, w):
    parts = zip(tf.split(t, 2, 1), tf.split(w, 2, 0))
    return tf.concat([whole(a, b) for a, b in parts], 1)


def built(**options):
    return lambda t, w: ops.conv_transpose(t, w, (2, 2), **options)


CASES = [
    Case("plain", built(), whole, [X, W]),
    Case("cut", built(padding=(1, 0, 0, 2)), lambda t, w: whole(t, w)[:, :, 1:, :5], [X, W]),
    Case(
        "longer",
        built(padding=(1, 1, 0, 0), output_padding=(1, 1)),
        lambda t, w: tf.pad(whole(t, w)[:, :, 1:, 1:], [(0, 0), (0, 0), (0, 1), (0, 1)]),
        [X, W],
    ),
    Case(
        "to a shape",
        built(output_shape=(6, 4), pad_type="same_upper"),
        lambda t, w: whole(t, w)[:, :, :6, 1:5],
        [X, W],
    ),
    Case(
        "to a whole shape",
        built(output_shape=(X.shape[0], W.shape[1], 6, 4), pad_type="same_upper"),
        lambda t, w: whole(t, w)[:, :, :6, 1:5],
        [X, W],
    ),
    Case("groups", built(groups=2), grouped, [X, W]),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 2e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


def test_what_does_not_fit_is_refused():
    error = popxl.errors.popart_exception
    with popxl.Ir().main_graph:
        x, w = popxl.variable(X), popxl.variable(W)
        with pytest.raises(ValueError, match="pad type"):
            ops.conv_transpose(x, w, pad_type="same")
        with pytest.raises(error, match="Non default value for dilations"):
            ops.conv_transpose(x, w, dilation=(2, 2))
        with pytest.raises(error, match="Invalid value for group"):
            ops.conv_transpose(x, w, groups=3)
        with pytest.raises(error, match="'valid' allows no output_shape"):
            ops.conv_transpose(x, w, output_shape=(3, 3), pad_type="valid")
