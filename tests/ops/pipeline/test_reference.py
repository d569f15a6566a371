"""The two programs that the documentation of pipelines prints, on data shaped like MNIST.

Inference on two of four IPUs, and training with a learning rate that is fed and passed on from
stage to stage. Checked against plain Keras and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.eager import context

tf1 = tf.compat.v1
keras = tf.keras
PIXELS = 784


class Data(NamedTuple):
    """Images `[n, 784]` in [0, 1] and their labels, which a network can learn."""

    images: np.ndarray
    labels: np.ndarray


def _data(batch: int, batches: int) -> Data:
    generator = np.random.default_rng(11)
    labels = generator.integers(0, 10, batch * batches)
    # Most pixels are black: each class has some of its own that are bright.
    prototypes = generator.random((10, PIXELS)) < 0.04
    images = prototypes[labels] * generator.random((len(labels), PIXELS))
    return Data(images.astype(np.float32), labels.astype(np.int32))


def _batches(arrays: Any, batch: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch, drop_remainder=True).repeat()


def _configure(ipus: int) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture
def session() -> Iterator[tf1.Session]:
    """A session whose graph is the default one."""
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(1)
        with tf1.Session(graph=graph) as opened:
            yield opened


def _weights(session: tf1.Session) -> list[np.ndarray]:
    """Returns kernel and bias of the three layers, in the order in which they were made."""
    weights = session.run(tf1.global_variables())
    assert [w.shape for w in weights] == [
        *((PIXELS, 256), (256,)),
        *((256, 128), (128,)),
        *((128, 10), (10,)),
    ]
    return weights


def _keras_logits(weights: list[np.ndarray], images: np.ndarray) -> np.ndarray:
    """Returns the results of the same network as a plain Keras model, eagerly."""
    with context.eager_mode():
        model = keras.Sequential(
            [
                keras.layers.Dense(256, activation="relu"),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dense(10),
            ]
        )
        model.build([None, PIXELS])
        model.set_weights(weights)
        return model(images).numpy()


def test_the_inference_example_of_the_reference_runs(session: tf1.Session) -> None:
    batch = 4
    data = _data(batch, 100)
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(_batches(data.images, batch))
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def stage1(image: tf.Tensor) -> tf.Tensor:
        partial = keras.layers.Dense(256, activation=tf.nn.relu)(image)
        return keras.layers.Dense(128, activation=tf.nn.relu)(partial)

    def stage2(partial: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        logits = keras.layers.Dense(10)(partial)
        return tf.nn.softmax(logits), tf.argmax(input=logits, axis=1)

    def model() -> tf.Operation:
        with tf1.variable_scope("vs", use_resource=True):
            return ipu.ops.pipelining_ops.pipeline(
                computational_stages=[stage1, stage2],
                gradient_accumulation_count=250,
                repeat_count=2,
                inputs=[],
                infeed_queue=infeed_queue,
                outfeed_queue=outfeed_queue,
                device_mapping=[3, 1],
                name="Pipeline",
            )

    with tf.device("/device:IPU:0"):
        compiled_model = ipu.ipu_compiler.compile(model, inputs=[])
    outfeed_op = outfeed_queue.dequeue()
    _configure(4)
    session.run([tf1.global_variables_initializer(), infeed_queue.initializer])
    session.run(compiled_model)
    probabilities, classes = session.run(outfeed_op)

    assert probabilities.shape == (500, batch, 10)
    assert classes.shape == (500, batch)
    logits = _keras_logits(_weights(session), data.images).reshape(100, batch, 10)
    logits = np.tile(logits, [5, 1, 1])  # 500 mini-batches are five times through the data
    exponentials = np.exp(logits)
    want = exponentials / exponentials.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(probabilities, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(classes, np.argmax(logits, axis=-1))
    (executable,) = ipu.profiler.executables()
    assert (executable.replicas, executable.ipus_used) == (1, 4)
    placed = {(op.stage, op.ipu) for op in executable.ops if op.type == "MatMul"}
    assert placed == {(0, 3), (1, 1)}


def _train_in_numpy(
    weights: list[np.ndarray], data: Data, batch: int, count: int, rate: float
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Sums the gradients of `count` mini-batches, then takes a step, all in float64."""
    now = [weight.astype(np.float64) for weight in weights]
    totals = [np.zeros_like(weight) for weight in now]
    losses = []
    for number, first in enumerate(range(0, len(data.images), batch), start=1):
        rows = slice(first, first + batch)
        loss, gradients = _gradients(now, data.images[rows].astype(np.float64), data.labels[rows])
        losses.append(loss)
        totals = [total + gradient for total, gradient in zip(totals, gradients)]
        if number % count == 0:
            now = [weight - rate * total for weight, total in zip(now, totals)]
            totals = [np.zeros_like(weight) for weight in now]
    return np.array(losses), now


def _gradients(
    weights: list[np.ndarray], images: np.ndarray, labels: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """Returns the loss of a mini-batch and its gradients by all weights."""
    layers = [images]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2]):
        layers.append(np.maximum(layers[-1] @ kernel + bias, 0))
    logits = layers[-1] @ weights[-2] + weights[-1]
    shifted = logits - logits.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    gradient = (np.exp(logarithms) - np.eye(10)[labels]) / len(labels)
    found: list[np.ndarray] = []
    for layer, kernel in zip(reversed(layers), weights[-2::-2]):
        found = [layer.T @ gradient, gradient.sum(axis=0), *found]
        gradient = (gradient @ kernel.T) * (layer > 0)
    return -logarithms[np.arange(len(labels)), labels].mean(), found


def _dense(units: int, activation: Any = None) -> Any:
    """Returns a layer with the same initial weights each time."""
    initializer = keras.initializers.GlorotUniform(seed=units)
    return keras.layers.Dense(units, activation, kernel_initializer=initializer)


def test_the_training_example_of_the_reference_runs(session: tf1.Session) -> None:
    batch, count, repeat_count = 2, 128, 10
    data = _data(batch, count * repeat_count)
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(_batches(data, batch))
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def stage1(lr: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> Any:
        partial = _dense(256, tf.nn.relu)(images)
        partial = _dense(128, tf.nn.relu)(partial)
        return lr, partial, labels

    def stage2(lr: tf.Tensor, partial: tf.Tensor, labels: tf.Tensor) -> Any:
        logits = _dense(10)(partial)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return lr, tf.reduce_mean(cross_entropy)

    def optimizer_function(lr: tf.Tensor, loss: tf.Tensor) -> Any:
        optimizer = tf1.train.GradientDescentOptimizer(lr)
        return ipu.ops.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

    def model(lr: tf.Tensor) -> tf.Operation:
        with tf1.variable_scope("vs", use_resource=True):
            return ipu.ops.pipelining_ops.pipeline(
                computational_stages=[stage1, stage2],
                gradient_accumulation_count=count,
                repeat_count=repeat_count,
                inputs=[lr],
                infeed_queue=infeed_queue,
                outfeed_queue=outfeed_queue,
                optimizer_function=optimizer_function,
                name="Pipeline",
            )

    with tf.device("cpu"):
        lr = tf1.placeholder(np.float16, [])
    with tf.device("/device:IPU:0"):
        compiled_model = ipu.ipu_compiler.compile(model, inputs=[lr])
    outfeed_op = outfeed_queue.dequeue()
    _configure(2)
    session.run([tf1.global_variables_initializer(), infeed_queue.initializer])
    before = _weights(session)
    session.run(compiled_model, {lr: 0.01})
    rates, losses = session.run(outfeed_op)

    # The outfeed gets all that the last stage returned.
    assert rates.shape == losses.shape == (count * repeat_count,)
    np.testing.assert_array_equal(rates, np.full(len(rates), 0.01, np.float16))
    want, weights = _train_in_numpy(before, data, batch, count, float(np.float16(0.01)))
    np.testing.assert_allclose(losses, want, rtol=1e-3, atol=1e-4)
    for got, weight in zip(_weights(session), weights):
        np.testing.assert_allclose(got, weight, rtol=1e-3, atol=1e-4)
    means = losses.reshape(repeat_count, count).mean(axis=1)
    assert np.all(np.diff(means) < 0), means
