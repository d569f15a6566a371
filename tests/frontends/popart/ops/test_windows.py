"""Networks of images: values and gradients in ONNX's layout, few changes of layout inside."""

from __future__ import annotations

import numpy as np
import popart
import tensorflow as tf

from tests.support.popart import popart_models

R = np.random.RandomState(0)
X = R.randn(2, 3, 7, 6).astype(np.float32)
W, V = R.randn(4, 3, 3, 3).astype(np.float32), R.randn(4, 4, 3, 3).astype(np.float32)
BIAS = R.randn(4).astype(np.float32)


def test_a_network_of_images_is_that_of_tensorflow():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3, 7, 6], "x")
    names = [builder.addInitializedInputTensor(a, n) for a, n in ((W, "w"), (BIAS, "b"), (V, "v"))]
    ops = builder.aiOnnx
    y = ops.conv([x, names[0], names[1]], pads=[1, 1, 1, 1])
    a = ops.relu([y])
    z = ops.add([ops.conv([a, names[2]], pads=[1, 1, 1, 1]), a])
    statistics = [ops.constant(np.full(4, value, np.float32)) for value in (0, 1)]
    n = ops.batchnormalization([z, names[1], names[1], *statistics], 5)[0]
    p = ops.maxpool([n], 1, [3, 3], pads=[1, 0, 1, 1], strides=[2, 2])[0]
    s = ops.conv([p, names[2]], strides=[2, 2], pads=[0, 1, 1, 1])
    loss = builder.aiGraphcore.l1loss([s], 1.0, popart.ReductionType.Sum)
    gradients = [popart.reservedGradientPrefix() + name for name in ("w", "b", "v", y, a, "x")]
    with popart_models.device() as device:
        session = popart_models.trainer(
            builder.getModelProto(), loss, device, None, [y, z, p, s, *gradients]
        )
        found = popart_models.run(session, {"x": X})
        transposes = [op for op in session.getReport().workload.ops if op.type == "Transpose"]
    tensors = [tf.constant(value) for value in (X, W, BIAS, V)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        data, w, b, v = tensors

        def convolved(t, kernel, strides, pads):
            last = tf.pad(tf.transpose(t, [0, 2, 3, 1]), [(0, 0), *pads, (0, 0)])
            result = tf.nn.conv2d(last, tf.transpose(kernel, [2, 3, 1, 0]), strides, "VALID")
            return tf.transpose(result, [0, 3, 1, 2])

        same = [(1, 1), (1, 1)]
        first = convolved(data, w, 1, same) + tf.reshape(b, [1, -1, 1, 1])
        tape.watch(first)
        active = tf.nn.relu(first)
        tape.watch(active)
        second = convolved(active, v, 1, same) + active
        normal = (second - tf.reduce_mean(second, [0, 2, 3], True)) / tf.sqrt(
            tf.math.reduce_variance(second, [0, 2, 3], True) + 1e-5
        )
        normal = (normal + 1) * tf.reshape(b, [1, -1, 1, 1])
        padded = tf.pad(normal, [(0, 0), (0, 0), (1, 1), (0, 1)], constant_values=-1e9)
        pooled = tf.transpose(
            tf.nn.max_pool2d(tf.transpose(padded, [0, 2, 3, 1]), 3, 2, "VALID"), [0, 3, 1, 2]
        )
        last = convolved(pooled, v, 2, [(0, 1), (1, 1)])
        total = tf.reduce_sum(tf.abs(last))
    expected = tape.gradient(total, [w, b, v, first, active, data])
    for name, value in zip([y, z, p, s, *gradients], [first, second, pooled, last, *expected]):
        np.testing.assert_allclose(found[name], value, 1e-4, 1e-4, err_msg=name)
    # The input, nine tensors that are anchored, and the kernels with their gradients.
    assert len(transposes) < 25
