"""Models trained in a program on the IPU end with the weights of plain TensorFlow on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.runtime import system

tf1 = tf.compat.v1
_STEPS = 20
_BATCH = 4
_TOLERANCE = 1e-6


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    system.reset_ipu_configuration()


class Model(NamedTuple):
    """A model: its input's shape, its loss, its optimizer."""

    shape: tuple[int, ...]
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    optimizer: Callable[[], tf1.train.Optimizer]


def _weight(name: str, *shape: int) -> tf.Variable:
    """A variable whose initial value depends on its name and shape only."""
    generator = np.random.default_rng([*name.encode(), *shape])
    value = generator.normal(0, 0.5, shape).astype(np.float32)
    return tf1.get_variable(name, initializer=value, use_resource=True)


def _dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    return tf.matmul(x, _weight(f"{name}_w", x.shape[-1], units)) + _weight(f"{name}_b", units)


def _squared(prediction: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean((tf.reduce_mean(prediction, axis=-1) - y) ** 2)


def _linear(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return _squared(_dense(x, 1, "out"), y)


def _logistic(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    labels = tf.cast(y > 0, tf.int32)
    logits = _dense(x, 3, "out")
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def _mlp(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    hidden = tf.nn.relu(_dense(x, 8, "first"))
    return _squared(_dense(tf.tanh(_dense(hidden, 8, "second")), 1, "out"), y)


def _cnn(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    hidden = tf.nn.relu(tf.nn.conv2d(x, _weight("first", 3, 3, 1, 4), 1, "SAME"))
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "SAME")
    hidden = tf.nn.relu(tf.nn.conv2d(hidden, _weight("second", 3, 3, 4, 4), 1, "SAME"))
    return _squared(_dense(tf.reduce_mean(hidden, [1, 2]), 1, "out"), y)


def _batch_norm(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    hidden = tf.nn.conv2d(x, _weight("first", 3, 3, 1, 4), 1, "SAME")
    scale, offset = _weight("scale", 4), _weight("offset", 4)
    hidden, _, _ = tf1.nn.fused_batch_norm(hidden, scale, offset, is_training=True)
    return _squared(_dense(tf.reduce_mean(tf.nn.elu(hidden), [1, 2]), 1, "out"), y)


def _depthwise(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    hidden = tf.nn.depthwise_conv2d(x, _weight("first", 3, 3, 1, 4), [1, 1, 1, 1], "SAME")
    hidden = tf.nn.conv2d_transpose(
        hidden, _weight("second", 2, 2, 2, 4), [_BATCH, 12, 12, 2], 2, "SAME"
    )
    return _squared(tf.reduce_mean(tf.nn.avg_pool2d(hidden, 3, 3, "VALID"), [1, 2]), y)


def _layer_norm(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    hidden = _dense(x, 8, "first")
    mean, variance = tf.nn.moments(hidden, [-1], keepdims=True)
    hidden = (hidden - mean) * tf.math.rsqrt(variance + 1e-3) * _weight("scale", 8)
    return _squared(_dense(tf.nn.gelu(hidden), 1, "out"), y)


def _lstm(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    kernel = _weight("kernel", 3 + 5, 20)

    def cell(step: tf.Tensor, state: tf.Tensor, output: tf.Tensor) -> Any:
        gates = tf.matmul(tf.concat([x[:, step], output], 1), kernel)
        i, f, o, c = tf.split(gates, 4, 1)
        state = tf.sigmoid(f) * state + tf.sigmoid(i) * tf.tanh(c)
        return step + 1, state, tf.sigmoid(o) * tf.tanh(state)

    zeros = tf.zeros([_BATCH, 5])
    output = tf.while_loop(lambda step, *_: step < 4, cell, [0, zeros, zeros])[2]
    return _squared(_dense(output, 1, "out"), y)


def _embedding(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    indices = tf.cast(tf.abs(x) * 10, tf.int32) % 7
    vectors = tf.nn.embedding_lookup(_weight("table", 7, 4), indices)
    return _squared(_dense(tf.reduce_sum(vectors, 1), 1, "out"), y)


def _attention(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    query, key, value = (
        tf.einsum("bij,jk->bik", x, _weight(name, 3, 4)) for name in ("query", "key", "value")
    )
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / 2.0)
    return _squared(_dense(tf.reduce_mean(tf.matmul(weights, value), 1), 1, "out"), y)


def _branches(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    gate = _dense(x, 2, "gate")
    first, second = _weight("first", 2), _weight("second", 2)
    hidden = tf.cond(tf.reduce_sum(x) > 0, lambda: gate * first, lambda: tf.sin(gate) * second)
    return _squared(hidden, y)


def _regularized(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    loss = tf1.losses.huber_loss(y, tf.squeeze(_dense(x, 1, "out"), 1))
    penalty = tf.add_n([tf.nn.l2_loss(v) for v in tf1.trainable_variables()])
    return loss + 0.01 * penalty


MODELS = {
    "linear": Model((3,), _linear, lambda: tf1.train.GradientDescentOptimizer(0.1)),
    "logistic": Model((3,), _logistic, lambda: tf1.train.AdamOptimizer(0.01)),
    "mlp": Model((3,), _mlp, lambda: tf1.train.MomentumOptimizer(0.01, 0.9)),
    "cnn": Model((6, 6, 1), _cnn, lambda: tf1.train.MomentumOptimizer(0.01, 0.9)),
    "batch_norm": Model((6, 6, 1), _batch_norm, lambda: tf1.train.GradientDescentOptimizer(0.05)),
    "depthwise": Model((6, 6, 1), _depthwise, lambda: tf1.train.AdagradOptimizer(0.01)),
    "layer_norm": Model((3,), _layer_norm, lambda: tf1.train.RMSPropOptimizer(0.001)),
    "lstm": Model((4, 3), _lstm, lambda: tf1.train.GradientDescentOptimizer(0.1)),
    "embedding": Model((5,), _embedding, lambda: tf1.train.GradientDescentOptimizer(0.1)),
    "attention": Model((4, 3), _attention, lambda: tf1.train.AdamOptimizer(0.01)),
    "branches": Model((3,), _branches, lambda: tf1.train.GradientDescentOptimizer(0.1)),
    "regularised": Model((3,), _regularized, lambda: tf1.train.FtrlOptimizer(0.1)),
}


class Trained(NamedTuple):
    """The losses of all steps, and the variables at the end by name."""

    losses: np.ndarray
    variables: dict[str, np.ndarray]


def _data(model: Model) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    x = generator.normal(size=(_STEPS, _BATCH, *model.shape)).astype(np.float32)
    y = generator.normal(size=(_STEPS, _BATCH)).astype(np.float32)
    return x, y


def _variables(session: tf1.Session) -> dict[str, np.ndarray]:
    variables = tf1.global_variables()
    return dict(zip([v.name for v in variables], session.run(variables)))


@functools.cache
def _on_the_cpu(name: str) -> Trained:
    model = MODELS[name]
    xs, ys = _data(model)
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, xs.shape[1:])
        y = tf1.placeholder(tf.float32, ys.shape[1:])
        loss = model.loss(x, y)
        train = model.optimizer().minimize(loss)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            losses = [session.run([loss, train], {x: a, y: b})[0] for a, b in zip(xs, ys)]
            return Trained(np.array(losses), _variables(session))


def _on_the_ipu(name: str, replicas: int) -> Trained:
    model = MODELS[name]
    # Elements are dealt to the replicas in turn: so all get the same.
    xs, ys = (np.repeat(values, replicas, axis=0) for values in _data(model))
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices((xs, ys)))
        outfeed = IPUOutfeedQueue()

        def body(x: tf.Tensor, y: tf.Tensor) -> Any:
            loss = model.loss(x, y)
            return outfeed.enqueue(loss), model.optimizer().minimize(loss)

        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(lambda: loops.repeat(_STEPS, body, None, infeed))
        dequeue = outfeed.dequeue()
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), infeed.initializer])
            session.run(launch)
            losses = session.run(dequeue).reshape(_STEPS, replicas)
            return Trained(losses, _variables(session))


def _assert_close(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE * scale, err_msg=what
    )


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_programs_trained_in_a_loop_equal_the_cpu(name: str, replicas: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    expected = _on_the_cpu(name)
    actual = _on_the_ipu(name, replicas)
    for replica in range(replicas):
        _assert_close(actual.losses[:, replica], expected.losses, f"loss of replica {replica}")
    assert actual.variables.keys() == expected.variables.keys()
    for variable, value in expected.variables.items():
        _assert_close(actual.variables[variable], value, variable)
    assert [executable.replicas for executable in cache.executables()] == [replicas]


def test_the_models_learn() -> None:
    for name in ("linear", "mlp", "regularised"):
        losses = _on_the_cpu(name).losses
        assert losses[-5:].mean() < losses[:5].mean()


def _keras_model(kind: str) -> tf.keras.Model:
    def initializer() -> tf.keras.initializers.Initializer:
        return tf.keras.initializers.GlorotUniform(seed=11)

    layers = tf.keras.layers
    if kind == "dense":
        return tf.keras.Sequential(
            [
                layers.Dense(8, "relu", kernel_initializer=initializer(), input_shape=(4, 3)),
                layers.Flatten(),
                layers.Dense(1, kernel_initializer=initializer()),
            ]
        )
    if kind == "lstm":
        recurrent = tf.keras.initializers.Orthogonal(seed=12)
        return tf.keras.Sequential(
            [
                layers.LSTM(
                    4,
                    kernel_initializer=initializer(),
                    recurrent_initializer=recurrent,
                    input_shape=(4, 3),
                ),
                layers.Dense(1, kernel_initializer=initializer()),
            ]
        )
    return tf.keras.Sequential(
        [
            layers.Conv1D(4, 3, kernel_initializer=initializer(), input_shape=(4, 3)),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(1, kernel_initializer=initializer()),
        ]
    )


def _train_keras(
    kind: str, run: Callable[..., Any], decorate: Callable[..., Any]
) -> list[np.ndarray]:
    model = _keras_model(kind)
    optimizer = tf.keras.optimizers.legacy.SGD(0.05, momentum=0.9)
    generator = np.random.default_rng(3)
    xs = tf.constant(generator.normal(size=(_STEPS, _BATCH, 4, 3)), tf.float32)
    ys = tf.constant(generator.normal(size=(_STEPS, _BATCH, 1)), tf.float32)

    @decorate
    def train(xs: tf.Tensor, ys: tf.Tensor) -> tf.Tensor:
        loss = tf.constant(0.0)
        for i in tf.range(_STEPS):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(xs[i], training=True) - ys[i]) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, model.trainable_variables),
                experimental_aggregate_gradients=False,
            )
        return loss

    loss = run(train, [xs, ys])
    return [loss.numpy(), *(variable.numpy() for variable in model.variables)]


@pytest.mark.parametrize("ipus", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "lstm", "batch_norm"])
def test_keras_models_trained_in_a_function_equal_cpu(kind: str, ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    expected = _train_keras(kind, lambda function, args: function(*args), tf.function)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        actual = _train_keras(kind, strategy.run, tf.function(jit_compile=True))
    assert len(actual) == len(expected)
    for index, (ours, plain) in enumerate(zip(actual, expected)):
        _assert_close(ours, plain, f"result {index}")
    assert len(cache.executables()) == 1
