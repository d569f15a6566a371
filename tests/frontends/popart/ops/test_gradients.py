"""Gradients of ops against TensorFlow's, all in one program for each type."""

from __future__ import annotations

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support.popart import popart_models

RANDOM = np.random.RandomState(0)
A = RANDOM.uniform(0.2, 0.9, (2, 3)) * np.sign(RANDOM.randn(2, 3))
B = RANDOM.uniform(0.5, 2.0, (2, 3))
ROW, IMAGE, KERNEL = RANDOM.randn(3), RANDOM.randn(1, 2, 5, 5), RANDOM.randn(4, 2, 3, 3)
GROUPED, UP = RANDOM.randn(4, 1, 3, 3), RANDOM.randn(2, 3, 2, 2)
INDEX, OFFSET = np.array([1, 0, 1], np.int32), np.array([1], np.uint32)
I64 = np.int64


def unary(name, function, array=A, **attributes):
    return lambda onnx, own, ids: getattr(onnx, name)(ids, **attributes), [array], function


def own(name, function, *arrays, **attributes):
    return lambda _, own, ids: getattr(own, name)(ids, **attributes), list(arrays), function


def binary(name, function, *arrays):
    return lambda onnx, own, ids: getattr(onnx, name)(ids), list(arrays), function


def channels_last(function):
    """A function of images with channels last, for those with channels first."""
    return lambda x, *others: tf.transpose(
        function(tf.transpose(x, [0, 2, 3, 1]), *others), [0, 3, 1, 2]
    )


def conv(x, w, strides=1, groups=1):
    data = tf.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    kernel = tf.transpose(w, [2, 3, 1, 0])
    parts = zip(tf.split(data, groups, -1), tf.split(kernel, groups, -1))
    return tf.concat([tf.nn.conv2d(d, k, strides, "VALID") for d, k in parts], -1)


def norm(x, scale, bias, axes, epsilon=1e-5):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    shape = [1, -1] + [1] * (len(x.shape) - 2)
    normal = (x - mean) * tf.math.rsqrt(variance + epsilon)
    return normal * tf.reshape(scale, shape) + tf.reshape(bias, shape)


def lrn(x):
    squares = tf.pad(x * x, [(0, 0), (1, 1), (0, 0), (0, 0)])
    near = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    return x / (1 + 1e-2 / 3 * near) ** 0.75


def logits_loss(x, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x))


def dynamic(x, part=None):
    return tf.concat([x[:, :1], x[:, 1:2] * 0 + (0.0 if part is None else part), x[:, 2:]], 1)


SLICE = {"axes": [1], "sizes": [1]}
CASES = {
    **{
        name: unary(name, function)
        for name, function in {
            "abs": tf.abs,
            "neg": tf.negative,
            "exp": tf.exp,
            "relu": tf.nn.relu,
            "sigmoid": tf.sigmoid,
            "tanh": tf.tanh,
            "softplus": tf.math.softplus,
            "softsign": tf.nn.softsign,
            "erf": tf.math.erf,
            "sin": tf.sin,
            "cos": tf.cos,
            "tan": tf.tan,
            "asin": tf.asin,
            "acos": tf.acos,
            "atan": tf.atan,
            "sinh": tf.sinh,
            "cosh": tf.cosh,
            "asinh": tf.asinh,
            "atanh": tf.atanh,
            "reciprocal": lambda x: 1 / x,
            "elu": tf.nn.elu,
            "selu": tf.nn.selu,
            "leakyrelu": lambda x: tf.nn.leaky_relu(x, 0.01),
            "hardsigmoid": lambda x: tf.clip_by_value(0.2 * x + 0.5, 0, 1),
        }.items()
    },
    "log": unary("log", tf.math.log, B),
    "sqrt": unary("sqrt", tf.sqrt, B),
    "acosh": unary("acosh", tf.acosh, B + 1),
    "softmax": unary("softmax", tf.nn.softmax, axis=1),
    "logsoftmax": unary("logsoftmax", tf.nn.log_softmax, axis=1),
    "shrink": unary(
        "shrink", lambda x: tf.where(x < -0.5, x + 0.1, tf.where(x > 0.5, x - 0.1, 0)), bias=0.1
    ),
    "thresholdedrelu": unary("thresholdedrelu", lambda x: tf.where(x > 0.4, x, 0), alpha=0.4),
    **{
        name: unary(name, lambda x, function=function: function(x) + 0 * x)
        for name, function in {
            "ceil": tf.math.ceil,
            "floor": tf.floor,
            "sign": tf.sign,
            "round": tf.round,
        }.items()
    },
    "add": binary("add", tf.add, A, ROW),
    "sub": binary("sub", tf.subtract, ROW, A),
    "mul": binary("mul", tf.multiply, A, ROW),
    "div": binary("div", tf.divide, A, B),
    "pow": binary("pow", tf.pow, B, A),
    "max": binary("max", tf.maximum, A, ROW),
    "min": binary("min", tf.minimum, A, ROW),
    "sum": binary("sum", lambda *x: sum(x), A, B, ROW),
    "mean": binary("mean", lambda *x: sum(x) / 3, A, B, ROW),
    "matmul": binary("matmul", lambda x, y: tf.matmul(x, y), A, B.T.copy()),
    "gemm": (
        lambda onnx, _, ids: onnx.gemm(ids, alpha=0.5, beta=2.0, transB=1),
        [A, B, ROW[:2]],
        lambda a, b, c: 0.5 * tf.matmul(a, b, transpose_b=True) + 2 * c,
    ),
    **{
        name: unary(name, function, B, axes=[1], keepdims=0)
        for name, function in {
            "reducesum": lambda x: tf.reduce_sum(x, 1),
            "reducemean": lambda x: tf.reduce_mean(x, 1),
            "reducemax": lambda x: tf.reduce_max(x, 1),
            "reducemin": lambda x: tf.reduce_min(x, 1),
            "reduceprod": lambda x: tf.reduce_prod(x, 1),
            "reducel1": lambda x: tf.reduce_sum(tf.abs(x), 1),
            "reducel2": lambda x: tf.sqrt(tf.reduce_sum(x * x, 1)),
            "reducesumsquare": lambda x: tf.reduce_sum(x * x, 1),
            "reducelogsum": lambda x: tf.math.log(tf.reduce_sum(x, 1)),
            "reducelogsumexp": lambda x: tf.reduce_logsumexp(x, 1),
        }.items()
    },
    "transpose": unary("transpose", tf.transpose),
    "concat": (
        lambda onnx, _, ids: onnx.concat(ids, 1),
        [A, B],
        lambda x, y: tf.concat([x, y], 1),
    ),
    "split": (
        lambda onnx, _, ids: onnx.split(ids, 2, 1, [1, 2]),
        [A],
        lambda x: tf.split(x, [1, 2], 1),
    ),
    "gather": (
        lambda onnx, _, ids: onnx.gather(ids, 1),
        [A, INDEX],
        lambda x, i: tf.gather(x, i, axis=1),
    ),
    "scatterelements": (
        lambda onnx, _, ids: onnx.scatterelements([ids[0], ids[1], ids[2]], 0),
        [A, INDEX[None], ROW[None]],
        lambda x, i, y: tf.where(tf.range(2)[:, None] == i, tf.broadcast_to(y, x.shape), x),
    ),
    "topk": (
        lambda onnx, _, ids: onnx.topk(ids)[:1],
        [A, np.array([2], I64)],
        lambda x, k: tf.math.top_k(x, 2)[0],
    ),
    "pad": (
        lambda onnx, _, ids: onnx.pad(ids),
        [A, np.array([0, 1, 0, -1], I64)],
        lambda x, _: tf.pad(x[:, :-1], [(0, 0), (1, 0)]),
    ),
    "tile": (
        lambda onnx, _, ids: onnx.tile(ids),
        [A, np.array([2, 1], I64)],
        lambda x, _: tf.tile(x, [2, 1]),
    ),
    "expand": (
        lambda onnx, _, ids: onnx.expand(ids),
        [ROW, np.array([2, 3], I64)],
        lambda x, _: tf.broadcast_to(x, [2, 3]),
    ),
    "clip": (
        lambda onnx, _, ids: onnx.clip([ids[0], onnx.constant(np.array(0.1, DTYPES[-1]))]),
        [A],
        lambda x: tf.maximum(x, 0.1),
    ),
    "where": (
        lambda onnx, _, ids: onnx.where([ids[2], ids[0], ids[1]]),
        [A, B, np.array([[True, False, True]])],
        lambda x, y, c: tf.where(c, x, y),
    ),
    "conv": (
        lambda onnx, _, ids: onnx.conv(ids, strides=[2, 2], pads=[1] * 4),
        [IMAGE, KERNEL],
        channels_last(lambda x, w: conv(x, w, 2)),
    ),
    "grouped conv": (
        lambda onnx, _, ids: onnx.conv(ids, group=2, pads=[1] * 4),
        [IMAGE, GROUPED],
        channels_last(lambda x, w: conv(x, w, 1, 2)),
    ),
    "convtranspose": (
        lambda onnx, _, ids: onnx.convtranspose(ids, strides=[2, 2]),
        [IMAGE, UP],
        channels_last(
            lambda x, w: tf.nn.conv2d_transpose(
                x, tf.transpose(w, [2, 3, 1, 0]), [1, 10, 10, 3], 2, "VALID"
            )
        ),
    ),
    "maxpool": (
        lambda onnx, _, ids: onnx.maxpool(ids, 1, kernel_shape=[2, 2], strides=[2, 2]),
        [IMAGE],
        channels_last(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID")),
    ),
    "averagepool": (
        lambda onnx, _, ids: onnx.averagepool(ids, [3, 3], pads=[1] * 4),
        [IMAGE],
        channels_last(lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME")),
    ),
    "globalaveragepool": unary(
        "globalaveragepool", lambda x: tf.reduce_mean(x, [2, 3], True), IMAGE
    ),
    "lrn": unary("lrn", lrn, np.tile(IMAGE, (1, 2, 1, 1)), size=3, alpha=1e-2),
    "instancenormalization": (
        lambda onnx, _, ids: onnx.instancenormalization(ids),
        [IMAGE, ROW[:2], ROW[1:]],
        lambda x, s, b: norm(x, s, b, [2, 3]),
    ),
    "batchnormalization": (
        lambda onnx, _, ids: onnx.batchnormalization(
            [*ids, *(onnx.constant(np.ones(2, DTYPES[-1])) for _ in range(2))], 5
        )[:1],
        [IMAGE, ROW[:2], ROW[1:]],
        lambda x, s, b: norm(x, s, b, [0, 2, 3]),
    ),
    "groupnormalization": (
        lambda _, own, ids: own.groupnormalization(ids, 1)[:1],
        [IMAGE, ROW[:2], ROW[1:]],
        lambda x, s, b: norm(x, s, b, [1, 2, 3]),
    ),
    "resize": (
        lambda onnx, _, ids: onnx.resize(
            [ids[0], *(onnx.constant(np.array(v, np.float32)) for v in ([1], [1, 2]))]
        ),
        [A],
        lambda x: tf.repeat(x, 2, 1),
    ),
    "gelu": own("gelu", lambda x: tf.nn.gelu(x, True), A),
    "geluerf": own("geluerf", tf.nn.gelu, A),
    "swish": own("swish", tf.nn.silu, A),
    "expm1": own("expm1", tf.math.expm1, A),
    "log1p": own("log1p", tf.math.log1p, B),
    "atan2": own("atan2", tf.atan2, A, B),
    "scale": own("scale", lambda x: 3 * x, A, scale=3.0),
    "reverse": own("reverse", lambda x: x[:, ::-1], A, dimensions=[1]),
    "subsample": own("subsample", lambda x: x[::2, ::2], A, strides=[2, 2]),
    "l1loss": own("l1loss", lambda x: 0.5 * tf.reduce_mean(tf.abs(x)), A, lambda_=0.5),
    "nllloss": (
        lambda onnx, own, ids: own.nllloss([onnx.softmax(ids[:1]), ids[1]]),
        [A, INDEX[:2]],
        logits_loss,
    ),
    "dynamicslice": own("dynamicslice", lambda x, _: x[:, 1:2], A, OFFSET, **SLICE),
    "dynamiczero": own("dynamiczero", lambda x, _: dynamic(x), A, OFFSET, **SLICE),
    "dynamicupdate": own(
        "dynamicupdate", lambda x, _, y: dynamic(x, y), A, OFFSET, B[:, :1], **SLICE
    ),
    "dynamicadd": own(
        "dynamicadd",
        lambda x, _, y: x + tf.pad(y, [(0, 0), (1, 1)]),
        *(A, OFFSET, B[:, :1]),
        **SLICE,
    ),
    "reducemedian": (
        lambda _, own, ids: own.reducemedian(ids, [1], 0)[:1],
        [A],
        lambda x: tf.sort(x)[:, 1],
    ),
}
CASES |= {
    "cumsum": (
        lambda onnx, _, ids: onnx.cumsum(ids, exclusive=1, reverse=1),
        [A, np.array(-1)],
        lambda x, _: tf.cumsum(x, 1, True, True),
    ),
    "sort": (
        lambda _, own, ids: own.sort(ids, 0, descending=1)[:1],
        [np.arange(10.0).reshape(5, 2) % 7],
        lambda x: tf.sort(x, 0, "DESCENDING"),
    ),
    "onehot": (
        lambda onnx, _, ids: onnx.onehot([ids[1], ids[2], ids[0]], 0),
        [ROW[:2], np.array([1, 0, 3]), np.array(4)],
        lambda v, i, _: tf.one_hot(i, 4, axis=0) * (v[1] - v[0]) + v[0],
    ),
    "strided and dilated conv": (
        lambda onnx, _, ids: onnx.conv(ids, strides=[2, 3], dilations=[2, 2], pads=[3] * 4),
        [IMAGE, KERNEL],
        channels_last(
            lambda x, w: tf.nn.conv2d(
                tf.pad(x, [(0, 0), (3, 3), (3, 3), (0, 0)]),
                tf.transpose(w, [2, 3, 1, 0]),
                *(1, "VALID", "NHWC", 2),
            )[:, ::2, ::3]
        ),
    ),
    "grouped conv of volumes": (
        lambda onnx, _, ids: onnx.conv(ids, group=2, strides=[2, 1, 1], dilations=[1, 2, 1]),
        [RANDOM.randn(1, 2, 3, 4, 3), RANDOM.randn(4, 1, 2, 2, 2)],
        lambda x, w: tf.concat([volumes(x[:, i : i + 1], w[2 * i : 2 * i + 2]) for i in (0, 1)], 1),
    ),
    "slice in the shape of another": (
        lambda _, own, ids: own.dynamicslice(ids, [0], [1], noOverlap=True),
        [A, np.array([1], np.uint32), ROW],
        lambda x, _, y: x[1],
        [0],
    ),
}


def volumes(x, w):
    """A convolution of volumes with steps of 2 and 1, and a distance of 2 on the second axis."""
    data, kernel = tf.transpose(x, [0, 2, 3, 4, 1]), tf.transpose(w, [2, 3, 4, 1, 0])
    kernel = tf.stack([kernel[:, 0], kernel[:, 0] * 0, kernel[:, 1]], 1)
    return tf.transpose(tf.nn.conv3d(data, kernel, [1, 2, 1, 1, 1], "VALID"), [0, 4, 1, 2, 3])


# The type of the program that is being built.
DTYPES = []


@pytest.mark.parametrize("dtype, rtol, step", [(np.float32, 2e-4, 1), (np.float16, 3e-2, 3)])
def test_gradients_are_those_of_tensorflow(dtype, rtol, step):
    """In float16 every third op."""
    DTYPES.append(dtype)
    cases = {
        name: (add, [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays], *rest)
        for name, (add, arrays, *rest) in list(CASES.items())[::step]
    }
    popart_models.check_ops(cases, rtol=rtol, atol=rtol)


def test_constants_and_integers_have_gradients():
    builder = popart.Builder()
    own, ops = builder.aiGraphcore, builder.aiOnnx
    x = builder.addInputTensor("INT32", [2, 5])
    c, d = (ops.constant(np.array(v, np.float32)) for v in ([1, 2], [3, 4]))
    median, _ = own.reducemedian([x], [1], 0)
    scaled = ops.mul([ops.cast([median], "FLOAT"), ops.mul([ops.neg([c]), d])])
    loss = own.identityloss([scaled], popart.ReductionType.Sum)
    data = np.array([[2, 8, 4, 9, 1], [6, 7, 3, 0, 5]], np.int32)
    found = popart_models.differentiate(builder.getModelProto(), loss, {x: data}, [x, median, c])
    np.testing.assert_array_equal(found[median], [-3, -8])
    np.testing.assert_array_equal(found[c], [-3 * 4, -4 * 5])
    np.testing.assert_array_equal(found[x], np.where(data == [[4], [5]], [[-3], [-8]], 0))
    assert found[x].dtype == np.int32


def test_gradients_at_corners_are_those_of_torch():
    """Of powers with the base or the exponent 0, and of angles at the origin and far from it."""
    builder = popart.Builder()
    x = builder.addInitializedInputTensor(np.array([0, 0, 2, -1], np.float32))
    y = builder.addInitializedInputTensor(np.array([0, 2, 3, 0], np.float32))
    far = builder.addInitializedInputTensor(np.array([0, -0.0, 1e25, 3], np.float32))
    near = builder.addInitializedInputTensor(np.array([0, 0, 1e25, 4], np.float32))
    made = (builder.aiOnnx.pow([x, y]), builder.aiGraphcore.atan2([far, near]))
    sums = [builder.aiGraphcore.identityloss([t], popart.ReductionType.Sum) for t in made]
    loss = builder.aiOnnx.add(sums)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [x, y, far, near])
    nan = np.nan
    for tensor, expected in (
        (x, [0, 0, 12, 0]),
        (y, [0, 0, 8 * np.log(2), nan]),
        (far, [nan, nan, 0, 4 / 25]),
        (near, [nan, nan, 0, -3 / 25]),
    ):
        np.testing.assert_allclose(found[tensor], expected, 1e-6)
    assert not np.signbit(found[x][:2]).any()


def test_overlapping_slices_write_their_gradients():
    """The last one counts, and an overwritten part keeps its gradient."""
    builder = popart.Builder()
    own = builder.aiGraphcore
    x = builder.addInitializedInputTensor(np.arange(5, dtype=np.float32))
    w = builder.addInitializedInputTensor(np.zeros(2, np.float32))
    offsets = [builder.aiOnnx.constant(np.array([i], np.uint32)) for i in (0, 1, 3)]
    parts = [own.dynamicslice([x, i], [0], [2], noOverlap=True) for i in offsets]
    updated = own.dynamicupdate([w, offsets[0], parts[2]], [0], [2], noOverlap=True)
    losses = [
        own.identityloss([own.scale([part], 10.0**k)], popart.ReductionType.Sum)
        for k, part in enumerate([*parts[:2], updated])
    ]
    model = builder.aiOnnx.sum(losses)
    found = popart_models.differentiate(builder.getModelProto(), model, {}, [x, w])
    np.testing.assert_array_equal(found[x], [1, 10, 10, 100, 100])
    np.testing.assert_array_equal(found[w], [100, 100])
