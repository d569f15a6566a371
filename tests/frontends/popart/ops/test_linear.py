"""Several convolutions at once against TensorFlow's."""

from __future__ import annotations

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support.popart import popart_models


def arrays(*shapes):
    random = np.random.RandomState(0)
    return [random.randn(*shape).astype(np.float32) for shape in shapes]


def conv(x, w, strides=1, dilations=1, pads=(0, 0)):
    data = tf.pad(tf.transpose(x, [0, 2, 3, 1]), [(0, 0), pads, pads, (0, 0)])
    result = tf.nn.conv2d(
        data, tf.transpose(w, [2, 3, 1, 0]), strides, "VALID", dilations=dilations
    )
    return tf.transpose(result, [0, 3, 1, 2])


def test_each_has_its_own_windows():
    given = arrays((1, 2, 5, 5), (3, 2, 2, 2), (1, 2, 4, 4), (2, 2, 3, 3), (2,))

    def wanted(x, w, x2, w2, b):
        spread = tf.reshape(
            tf.pad(x2[:, :, :, None, :, None], [(0, 0)] * 3 + [(0, 1), (0, 0), (0, 1)]),
            [1, 2, 8, 8],
        )[:, :, :7, :7]
        second = conv(spread, w2) + tf.reshape(b, [2, 1, 1])
        return conv(x, w, 2, 1, (1, 0)), second

    popart_models.check_op(
        lambda _, own, ids: own.multiconv(
            [ids[:2], ids[2:]],
            strides=[[2, 2], []],
            pads=[[1, 1, 0, 0], []],
            inDilations=[[], [2, 2]],
            planType="serial",
            availableMemoryProportions=[0.5, 0.2],
        ),
        given,
        wanted,
    )


def test_sets_that_do_not_fit_are_refused():
    builder = popart.Builder()
    x, w = (builder.addInputTensor("FLOAT", shape) for shape in ([1, 2, 4, 4], [2, 2, 3, 3]))
    own = builder.aiGraphcore
    for sets, attributes, message in (
        ([], {}, "has no input tensors"),
        ([[x]], {}, "must have at least two inputs"),
        ([[x, w, w, w]], {}, "can have at most three inputs"),
        ([[x, w]], {"strides": [[1, 1], [1, 1]]}, r"strides parameter sets \(2\) does not match"),
        ([[x, w]], {"strides": [[1]]}, "Length of strides vector"),
    ):
        with pytest.raises(popart.popart_exception, match=message):
            own.multiconv(sets, **attributes)
