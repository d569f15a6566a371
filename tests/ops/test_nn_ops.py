"""Activations and multi-convolutions, against formulas and stock TensorFlow."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler.ir.program import MULTI_CONV_ATTRIBUTE
from tensorflow_ipu.ops import nn_ops
from tensorflow_ipu.strategy import ipu_strategy
from tests.support import replicas

tf1 = tf.compat.v1
X = np.linspace(-4, 4, 33).reshape(3, 11)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "gelu": (
        nn_ops.gelu,
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "gelu, exact": (
        lambda x: nn_ops.gelu(x, approximate=False),
        lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    ),
    "swish": (nn_ops.swish, lambda x: x * _sigmoid(x)),
    "hard_sigmoid": (nn_ops.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "softmax": (nn_ops.softmax, _softmax),
    "softmax, stable": (lambda x: nn_ops.softmax(x, stable=True), _softmax),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_activations_and_gradients_equal_their_formulas(name: str, dtype: Any) -> None:
    function, formula = ACTIVATIONS[name]
    x = tf.constant(X.astype(dtype) + dtype(0.01))  # off the corners of hard_sigmoid
    weights = np.random.default_rng(2).normal(size=X.shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        total = tf.reduce_sum(y * weights.astype(dtype))
    exact = x.numpy().astype(np.float64)
    tolerance = 1e-5 if dtype is np.float32 else 4e-3
    assert y.dtype == dtype
    np.testing.assert_allclose(y, formula(exact), rtol=tolerance, atol=tolerance)
    want = replicas.total_gradient(
        lambda values: float((formula(values[0]) * weights).sum()), exact[np.newaxis]
    )[0]
    np.testing.assert_allclose(tape.gradient(total, x), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("in_session", [False, True])
def test_activations_equal_their_formulas_on_replicas(name: str, in_session: bool) -> None:
    function, formula = ACTIVATIONS[name]
    x = replicas.rows(2, (4, 5))

    def program() -> list[tf.Tensor]:
        mine = replicas.own_row(x)
        y = function(mine)
        return [y, tf.gradients(tf.reduce_sum(y * y), mine)[0]]

    y, gradient = replicas.run(2, program, in_session)
    np.testing.assert_allclose(y, formula(x.astype(np.float64)), rtol=1e-5, atol=1e-6)
    want = replicas.total_gradient(lambda v: float((formula(v) ** 2).sum()), x.astype(np.float64))
    np.testing.assert_allclose(gradient, want, atol=1e-5)


def test_gelu_of_great_numbers_is_finite_in_float16() -> None:
    x = tf.constant([-3000, -50, 50, 3000], tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nn_ops.gelu(x)
    np.testing.assert_array_equal(y, [0, 0, 50, 3000])
    np.testing.assert_array_equal(tape.gradient(y, x), [0, 0, 1, 1])


def test_only_the_stable_softmax_takes_great_numbers() -> None:
    x = tf.constant([100.0, 100.0])
    np.testing.assert_array_equal(nn_ops.softmax(x, stable=True), [0.5, 0.5])
    assert np.isnan(nn_ops.softmax(x)).all()


@pytest.mark.parametrize("name", ["gelu", "swish", "hard_sigmoid", "softmax"])
def test_other_types_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} takes a tensor x of the types .* int32"):
        getattr(nn_ops, name)(tf.constant([1, 2]))


def test_softmax_of_a_scalar_is_refused() -> None:
    with pytest.raises(ValueError, match="rank of 1 or more"):
        nn_ops.softmax(1.0)


def test_activations_run_in_a_loop() -> None:
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (y,) = ipu_compiler.compile(
                lambda x: loops.repeat(3, lambda v: nn_ops.gelu(nn_ops.swish(v)), [x]),
                [X[0].astype(np.float32)],
            )
        got = session.run(y)
    want = X[0]
    for _ in range(3):
        want = ACTIVATIONS["gelu"][1](ACTIVATIONS["swish"][1](want))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


# Multi-convolutions.

IMAGE = np.random.default_rng(1).normal(size=(2, 6, 6, 3)).astype(np.float32)
KERNEL = np.random.default_rng(2).normal(size=(3, 3, 3, 4)).astype(np.float32)


def _convolutions(x: Any, y: Any) -> tuple[tf.Tensor, tf.Tensor]:
    return (
        tf.nn.conv2d(x, KERNEL, 1, "SAME") + 1.0,
        tf.nn.depthwise_conv2d(y, KERNEL[:, :, :, :2], [1, 1, 1, 1], "VALID"),
    )


@pytest.mark.parametrize(
    "decorator",
    [nn_ops.multi_conv, nn_ops.multi_conv(), nn_ops.multi_conv(options={"a": "50"})],
)
def test_multi_conv_leaves_results_as_they_are(decorator: Callable[..., Any]) -> None:
    decorated = decorator(_convolutions)
    for got, want in zip(decorated(IMAGE, IMAGE), _convolutions(IMAGE, IMAGE)):
        np.testing.assert_array_equal(got, want)

    def program() -> list[tf.Tensor]:
        x = tf.constant(IMAGE)
        results = decorated(x, x)
        return [*results, tf.gradients([tf.reduce_sum(r**2) for r in results], x)[0]]

    x = tf.constant(IMAGE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        wanted = _convolutions(x, x)
        loss = sum(tf.reduce_sum(want**2) for want in wanted)
    got = replicas.run(2, program)
    for results, want in zip(got, [*wanted, tape.gradient(loss, x)]):
        for result in results:
            np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)


def _marks(graph: tf.Graph) -> dict[str, Any]:
    marks = {}
    for op in graph.get_operations():
        if MULTI_CONV_ATTRIBUTE in op.node_def.attr and "onv" in op.type:
            marks[op.type] = json.loads(op.get_attr(MULTI_CONV_ATTRIBUTE))
    return marks


def test_multi_conv_marks_convolutions_and_their_gradients() -> None:
    options = {"perConvReservedTiles": "50", "enable": True, "n": 3}
    with tf.Graph().as_default() as graph:
        x = tf.constant(IMAGE)
        results = nn_ops.multi_conv(_convolutions, options=options)(x, x)
        outside = tf.nn.conv3d(tf.zeros([1, 4, 4, 4, 1]), tf.ones([2, 2, 2, 1, 1]), [1] * 5, "SAME")
        tf.gradients([*results, outside], x)
        marks = _marks(graph)
        assert not any(MULTI_CONV_ATTRIBUTE in op.node_def.attr for op in [outside.op, x.op])
    assert set(marks) == {
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
    }
    want = {
        "group": "multi_conv",
        "options": {"perConvReservedTiles": "50", "enable": "true", "n": "3"},
    }
    assert all(mark == want for mark in marks.values())


def test_each_call_of_a_multi_conv_is_a_group() -> None:
    with tf.Graph().as_default() as graph:
        decorated = nn_ops.multi_conv(_convolutions)
        decorated(IMAGE, IMAGE)
        decorated(IMAGE, IMAGE)
        groups = [
            json.loads(op.get_attr(MULTI_CONV_ATTRIBUTE))["group"]
            for op in graph.get_operations()
            if op.type == "Conv2D"
        ]
    assert groups == ["multi_conv", "multi_conv_1"]


def test_the_example_of_the_reference_runs() -> None:
    """Section 18.14.7, with variables that Keras layers make."""
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    images = [np.ones([1, 20, 20, 2], np.float32)] * 3
    with strategy.scope():
        layers = [
            tf.keras.layers.DepthwiseConv2D(8, 2, depth_multiplier=2),
            tf.keras.layers.DepthwiseConv2D(16, 4, depth_multiplier=2),
            tf.keras.layers.Conv2D(8, 3),
        ]
        want = [layer(image) for layer, image in zip(layers, images)]

    @nn_ops.multi_conv(options={"perConvReservedTiles": "50"})
    def convs(x: Any, y: Any, z: Any) -> Any:
        return layers[0](x), layers[1](y), layers[2](z)

    program = tf.function(lambda *args: convs(*args), jit_compile=True)
    with strategy.scope():
        got = strategy.run(program, [tf.constant(image) for image in images])
    for result, expected in zip(got, want):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def _dependent(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    first = tf.nn.conv2d(x, tf.ones([1, 1, x.shape[-1], 2]), 1, "SAME")
    return tf.nn.conv2d(tf.nn.relu(first), tf.ones([1, 1, 2, 2]), 1, "SAME") + tf.reduce_sum(y)


@pytest.mark.parametrize("in_session", [False, True])
def test_convolutions_of_a_multi_conv_that_depend_on_each_other(in_session: bool) -> None:
    def program() -> tf.Tensor:
        x = tf.constant(IMAGE)
        return nn_ops.multi_conv(_dependent)(x, x)

    match = "requires all convolutions to be independent of each other, however a data dependency"
    with pytest.raises(tf.errors.FailedPreconditionError, match=match):
        replicas.run(1, program, in_session)


def test_wrong_arguments_of_multi_conv_are_refused() -> None:
    with pytest.raises(TypeError, match="options must be a dict.*Received: options='fast'"):
        nn_ops.multi_conv(options="fast")
    with pytest.raises(TypeError, match="names in options must be of the type str"):
        nn_ops.multi_conv(options={1: "a"})
    with pytest.raises(TypeError, match="positional arguments only. Received by name: y"):
        nn_ops.multi_conv(_convolutions)(IMAGE, y=IMAGE)
    with pytest.raises(ValueError, match="must return at least one tensor"):
        nn_ops.multi_conv(lambda x: None)(IMAGE)
