"""A model trained in a loop on the device, and by plain TensorFlow that does the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue

tf1 = tf.compat.v1
IPU = "/device:IPU:0"
FEATURES = 5
BATCH = 2

Values = dict[str, np.ndarray]
# Makes an optimizer, and from the loss of a mini-batch an operation that trains.
Train = Callable[[tf.Tensor], Any]

OPTIMIZERS: dict[str, Callable[[], tf1.train.Optimizer]] = {
    "descent": lambda: tf1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.02, 0.9),
    "nesterov": lambda: tf1.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True),
    "adam": lambda: tf1.train.AdamOptimizer(0.02),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.1),
}


def configure(ipus: int = 1, **options: Any) -> None:
    """Configures one device of N IPUs.

    Args:
        ipus: how many.
        **options: other options, with `__` for the dots in their names.
    """
    config = IPUConfig()
    config.auto_select_ipus = ipus
    for name, value in options.items():
        *path, last = name.split("__")
        category: Any = config
        for part in path:
            category = getattr(category, part)
        setattr(category, last, value)
    config.configure_ipu_system()


def data(elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns N mini-batches: inputs `[n, BATCH, FEATURES]` and targets `[n, BATCH]`."""
    generator = np.random.default_rng(17)
    x = generator.normal(size=(elements, BATCH, FEATURES)).astype(np.float32)
    return x, generator.normal(size=(elements, BATCH)).astype(np.float32)


def variable(name: str, *shape: int, dtype: Any = np.float32) -> tf.Variable:
    """Returns a variable whose first value depends on its name and shape only."""
    generator = np.random.default_rng([*name.encode(), *shape])
    value = generator.normal(0, 0.5, shape).astype(dtype)
    return tf1.get_variable(name, dtype=value.dtype, initializer=value, use_resource=True)


def loss(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns the loss of one mini-batch in a model with three variables, one of them a table."""
    hidden = tf.tanh(tf.matmul(x, variable("kernel", FEATURES, 3)) + variable("bias", 3))
    rows = tf.gather(variable("table", 4, 3), tf.cast(tf.abs(x[:, 0]) * 10, tf.int32) % 4)
    return tf.reduce_mean((tf.reduce_sum(hidden * rows, 1) - y) ** 2)


def on_the_device(
    train: Train,
    iterations: int,
    elements: tuple[np.ndarray, np.ndarray] | None = None,
    runs: int = 1,
    replicas: int = 1,
    model: Callable[..., tf.Tensor] = loss,
) -> Values:
    """Trains in a loop on the configured device; each run of it goes on with the elements.

    Args:
        train: see `Train`.
        iterations: of the loop.
        elements: what to train on; replicas take them in turn. As many as needed by default.
        runs: how often the program runs.
        replicas: of the program.
        model: gives the loss.

    Returns:
        All global variables.
    """
    elements = data(iterations * runs * replicas) if elements is None else elements
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(elements).repeat())
        with scopes.ipu_scope(IPU):
            launch = ipu_compiler.compile(
                lambda: loops.repeat(iterations, lambda *x: train(model(*x)), None, infeed)
            )
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), infeed.initializer])
            for _ in range(runs):
                session.run(launch)
            return values(session)


def by_hand(
    optimizer: Callable[[], tf1.train.Optimizer],
    elements: tuple[np.ndarray, np.ndarray],
    per_update: int,
    divisor: float = 1,
    model: Callable[..., tf.Tensor] = loss,
) -> Values:
    """Trains with plain TensorFlow on the CPU.

    Args:
        optimizer: makes a stock optimizer.
        elements: what to train on.
        per_update: how many mini-batches make an update.
        divisor: what the sum of their gradients is divided by.
        model: gives the loss.

    Returns:
        All global variables.
    """
    groups = [e.reshape(-1, per_update, *e.shape[1:]) for e in elements]
    with tf.Graph().as_default():
        feeds = [tf1.placeholder(g.dtype, g.shape[1:]) for g in groups]
        with tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
            losses = [model(*(feed[i] for feed in feeds)) for i in range(per_update)]
        opt = optimizer()
        variables = tf1.trainable_variables()
        gradients = [tf.gradients(one, variables) for one in losses]
        totals = [tf.add_n(list(map(tf.convert_to_tensor, g))) / divisor for g in zip(*gradients)]
        step = opt.apply_gradients(zip(totals, variables))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for group in zip(*groups):
                session.run(step, dict(zip(feeds, group)))
            return values(session)


def values(session: tf1.Session) -> Values:
    """Returns the values of all global variables by name."""
    variables = tf1.global_variables()
    return dict(zip([v.name for v in variables], session.run(variables)))


def assert_close(actual: Values, expected: Values, tolerance: float = 1e-5) -> None:
    """Compares variables: the same ones, with the same values up to rounding."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(
            actual[name], value, rtol=tolerance, atol=tolerance * scale, err_msg=name
        )
