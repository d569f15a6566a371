"""A small model in stages for tests, trained by a pipeline and by plain TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import pipelining_ops

tf1 = tf.compat.v1
BATCH = 2
FEATURES = 5
CLASSES = 3
_SIZES = (FEATURES, 7, 6, 4, CLASSES)


class Outcome(NamedTuple):
    """Results of a run: the outfeed's content and the trained weights by name."""

    outfeed: Any
    weights: dict[str, np.ndarray]


def data(mini_batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs `[n, FEATURES]` and labels `[n]` for N mini-batches."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(mini_batches * BATCH, FEATURES)).astype(np.float32)
    return x, generator.integers(0, CLASSES, len(x)).astype(np.int32)


def initial(layer: int) -> np.ndarray:
    """Returns the first weights of a layer."""
    generator = np.random.default_rng([7, layer])
    return generator.normal(0, 0.5, _SIZES[layer : layer + 2]).astype(np.float32)


def layer(x: tf.Tensor, index: int, weight: Any = None) -> tf.Tensor:
    """Returns a dense layer: the last one linear, the others with tanh."""
    if weight is None:
        weight = tf1.get_variable(f"w{index}", initializer=initial(index), use_resource=True)
    y = tf.matmul(x, weight)
    return y if index == len(_SIZES) - 2 else tf.tanh(y)


def loss_of(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean cross entropy of a mini-batch."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def stages(count: int) -> list[Callable[..., Any]]:
    """Splits the model's four layers and its loss over 2 or 4 stages."""
    per_stage = (len(_SIZES) - 1) // count

    def make(index: int) -> Callable[..., Any]:
        def stage(x: tf.Tensor, labels: tf.Tensor) -> Any:
            for number in range(index * per_stage, (index + 1) * per_stage):
                x = layer(x, number)
            return loss_of(x, labels) if index == count - 1 else (x, labels)

        return stage

    return [make(index) for index in range(count)]


def optimizer(name: str) -> tf1.train.Optimizer:
    """Returns an optimizer by name."""
    return {
        "sgd": lambda: tf1.train.GradientDescentOptimizer(0.1),
        "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
        "adam": lambda: tf1.train.AdamOptimizer(0.05),
        "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.02),
    }[name]()


def configure(ipus: int, **options: Any) -> None:
    """Attaches a device with N IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    for name, value in options.items():
        setattr(config, name, value)
    config.configure_ipu_system()


def run(
    computational_stages: Sequence[Any],
    elements: Any,
    ipus: int = 2,
    launches: int = 1,
    wrap: Callable[[tf1.train.Optimizer], Any] = lambda opt: opt,
    opt: str | None = "sgd",
    has_outfeed: bool = True,
    count: Any = None,
    **arguments: Any,
) -> Outcome:
    """Builds a pipeline in a graph of its own, runs it, and returns its results.

    Args:
        computational_stages: The stages.
        elements: Slices of the dataset, batched here.
        ipus: IPUs of the device.
        launches: How often the program runs.
        wrap: Wraps the optimizer.
        opt: Optimizer, by name; None for inference.
        has_outfeed: Whether there is an outfeed.
        count: The `gradient_accumulation_count` as an input of the program: an int, or a function
            that makes a tensor.
        **arguments: Arguments of the pipeline.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices(elements).batch(BATCH, drop_remainder=True)
        infeed = IPUInfeedQueue(dataset.repeat())
        outfeed = IPUOutfeedQueue() if has_outfeed else None

        def optimizer_function(*outputs: Any) -> pipelining_ops.OptimizerFunctionOutput:
            return pipelining_ops.OptimizerFunctionOutput(wrap(optimizer(str(opt))), outputs[-1])

        def model(*counts: Any) -> Any:
            defaults = {
                **dict(zip(["gradient_accumulation_count"], counts)),
                "infeed_queue": infeed,
                "outfeed_queue": outfeed,
                "optimizer_function": optimizer_function if opt else None,
            }
            return pipelining_ops.pipeline(computational_stages, **{**defaults, **arguments})

        with scopes.ipu_scope("/device:IPU:0"):
            inputs = [] if count is None else [count() if callable(count) else count]
            compiled = ipu_compiler.compile(model, inputs)
        taken = outfeed.dequeue() if outfeed is not None and outfeed.enqueued else []
        configure(ipus)
        session.run(tf1.global_variables_initializer())
        session.run(infeed.initializer)
        for _ in range(launches):
            session.run(compiled)
        weights = {v.op.name: session.run(v) for v in tf1.trainable_variables()}
        return Outcome(session.run(taken), weights)


def build(computational_stages: Sequence[Any], count: int, times: int = 1) -> Any:
    """Returns the launch of a program that trains N pipelines, without feeds."""

    def first(*_: Any) -> Any:
        x, labels = data(1)
        return computational_stages[0](tf.constant(x), tf.constant(labels))

    def optimizer_function(loss: tf.Tensor) -> pipelining_ops.OptimizerFunctionOutput:
        return pipelining_ops.OptimizerFunctionOutput(optimizer("sgd"), loss)

    def model() -> list[Any]:
        made = []
        for number in range(times):
            with tf1.variable_scope(f"model_{number}"):
                made.append(
                    pipelining_ops.pipeline(
                        [first, *computational_stages[1:]],
                        count,
                        optimizer_function=optimizer_function,
                        outfeed_mask=[True],
                    )
                )
        return made

    with scopes.ipu_scope("/device:IPU:0"):
        return ipu_compiler.compile(model)


def expected(
    count: int,
    executions: int,
    opt: str = "sgd",
    replicas: int = 1,
    scale: float = 1.0,
) -> Outcome:
    """Trains the same model with plain TensorFlow, on the CPU, by hand.

    Args:
        count: Mini-batches for one update, on each replica.
        executions: Number of updates.
        opt: Optimizer, by name.
        replicas: Gradients of an update are the mean over so many times `count` mini-batches' sums.
        scale: Factor on the gradients.
    """
    x, y = data(count * executions * replicas)
    with tf.Graph().as_default(), tf1.Session() as session:
        weights = [
            tf1.get_variable(f"w{index}", initializer=initial(index), use_resource=True)
            for index in range(len(_SIZES) - 1)
        ]
        inputs = tf1.placeholder(tf.float32, [BATCH, FEATURES])
        labels = tf1.placeholder(tf.int32, [BATCH])
        hidden = inputs
        for index, weight in enumerate(weights):
            hidden = layer(hidden, index, weight)
        loss = loss_of(hidden, labels)
        gradients = tf1.gradients(loss, weights)
        fed = [tf1.placeholder(tf.float32, weight.shape) for weight in weights]
        step = optimizer(opt).apply_gradients(zip(fed, weights))
        session.run(tf1.global_variables_initializer())
        losses = []
        for first in range(0, len(x) // BATCH, count * replicas):
            sums = [np.zeros(weight.shape, np.float64) for weight in weights]
            for number in range(first, first + count * replicas):
                rows = slice(number * BATCH, (number + 1) * BATCH)
                loss_now, found = session.run([loss, gradients], {inputs: x[rows], labels: y[rows]})
                losses.append(loss_now)
                sums = [total + gradient for total, gradient in zip(sums, found)]
            values = [(total * scale / replicas).astype(np.float32) for total in sums]
            session.run(step, dict(zip(fed, values)))
        names = [weight.op.name for weight in weights]
        return Outcome(np.array(losses), dict(zip(names, session.run(weights))))


def assert_same_weights(got: Outcome, want: Outcome, tolerance: float = 1e-5) -> None:
    """Checks that two runs ended with the same weights."""
    assert set(got.weights) == set(want.weights)
    for name, weight in want.weights.items():
        np.testing.assert_allclose(got.weights[name], weight, rtol=tolerance, atol=tolerance)
