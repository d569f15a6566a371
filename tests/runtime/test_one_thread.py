"""Loops of small ops run on one thread, with the bits and errors of several threads."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.api.utils import reset_ipu_seed
from tensorflow_ipu.compiler import requests
from tensorflow_ipu.compiler.analysis import small_ops
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tests.support.programs import replicas as replica_helpers

STEPS = 5
# Takes a generator; returns what a program gave.
Run = Callable[[np.random.Generator], Any]


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Collects for each compiled program whether it is to run on one thread."""
    found: list[bool] = []
    answer = requests.native.reply

    def reply(request: int, identifier: str, library: bytes, *rest: Any) -> None:
        found.append(b"_ipu_one_thread" in library)
        answer(request, identifier, library, *rest)

    monkeypatch.setattr(requests.native, "reply", reply)
    return found


def _both(run: Run, monkeypatch: pytest.MonkeyPatch, replies: list[bool]) -> list[Any]:
    """Returns the results of a program on one thread, and on several."""
    results = []
    for one in (True, False):
        monkeypatch.setattr(small_ops, "are_small", lambda ops, cores, one=one: one)
        replica_helpers.configure(1)
        results.append(run(np.random.default_rng(0)))
    assert any(replies) and not all(replies)
    return results


def _random(generator: np.random.Generator, *shape: int) -> tf.Tensor:
    return tf.constant(generator.standard_normal(shape, dtype=np.float32))


def _train(generator: np.random.Generator) -> list[np.ndarray]:
    """Trains two layers; kernels split products, sums and updates of these sizes."""
    strategy = ipu_strategy.IPUStrategy()
    images = _random(generator, 64, 1000)
    with strategy.scope():
        weights = [tf.Variable(_random(generator, *s)) for s in ([1000, 600], [600], [600, 10])]

        @tf.function(jit_compile=True)
        def program(images: tf.Tensor) -> None:
            for _ in tf.range(STEPS):
                with tf.GradientTape() as tape:
                    hidden = tf.nn.relu(images @ weights[0] + weights[1])
                    loss = tf.reduce_mean(tf.nn.log_softmax(hidden @ weights[2])[:, 0])
                for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                    weight.assign_sub(0.1 * gradient)

        strategy.run(program, (images,))
    return [weight.numpy() for weight in weights]


def _mixed(generator: np.random.Generator) -> list[np.ndarray]:
    """Runs convolutions, sorts and sums in nested loops, conditionals and calls."""
    strategy = ipu_strategy.IPUStrategy()
    image, kernel = _random(generator, 8, 32, 32, 16), _random(generator, 3, 3, 16, 16)

    @tf.function
    def normalized(x: tf.Tensor) -> tf.Tensor:
        return (x - tf.reduce_mean(x)) / (1.0 + tf.math.reduce_std(x))

    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(x: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, ...]:
            total = 0.0
            for i in tf.range(STEPS):
                if i % 2 == 0:
                    x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
                else:
                    x = tf.sort(x, axis=-1)
                    j = 0
                    while j < i:
                        x = x + tf.transpose(x, [0, 2, 1, 3])
                        j += 1
                x = normalized(x)
                total += tf.reduce_sum(x[..., :3])
            return x, total

        return [value.numpy() for value in strategy.run(program, (image, kernel))]


# Ops of a random program, of two of its values.
_OPS: list[Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = [
    lambda a, b: a @ b,
    lambda a, b: tf.nn.softmax(a - b),
    lambda a, b: tf.cond(tf.reduce_sum(a) > 0.0, lambda: a * b, lambda: a + b),
    lambda a, b: tf.cumsum(a) / 100.0 + tf.reverse(b, [0]),
    lambda a, b: tf.tanh(a) + tf.reduce_max(b, axis=0),
    lambda a, b: tf.concat([a[100:], b[:100]], 0),
    lambda a, b: a + tf.random.stateless_normal([200, 200], [1, 2]) * b,
    lambda a, b: a + tf.random.uniform([200, 200]) * b,
]


def _random_program(generator: np.random.Generator) -> list[np.ndarray]:
    """Runs a loop of ops drawn at random, on tensors that are live across iterations."""
    drawn = [(_OPS[i], *generator.integers(0, 3, 3)) for i in generator.integers(0, len(_OPS), 24)]
    start = [_random(generator, 200, 200) for _ in range(3)]
    strategy = ipu_strategy.IPUStrategy()
    reset_ipu_seed(7)
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tuple[tf.Tensor, ...]:
            for _ in tf.range(STEPS):
                values = [a, b, c]
                for op, x, y, z in drawn:
                    values[z] = tf.clip_by_value(op(values[x], values[y]), -10.0, 10.0)
                a, b, c = values
            return a, b, c

        return [value.numpy() for value in strategy.run(program, tuple(start))]


def _feeds(generator: np.random.Generator) -> list[np.ndarray]:
    """Reads an infeed and writes an outfeed in each iteration."""
    rows = generator.standard_normal((STEPS, 100), dtype=np.float32)
    strategy = ipu_strategy.IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(rows))
    outfeed = IPUOutfeedQueue()
    with strategy.scope():

        def body(total: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
            outfeed.enqueue(total)
            return total + row

        @tf.function(jit_compile=True)
        def program() -> Any:
            return loops.repeat(STEPS, body, [tf.zeros([100])], infeed)

        infeed.initializer  # noqa: B018
        (total,) = tf.nest.flatten(strategy.run(program))
    return [total.numpy(), outfeed.dequeue().numpy()]


def _products(generator: np.random.Generator) -> list[np.ndarray]:
    """Multiplies operands of which both, one or none are transposed, in aligned and odd shapes."""
    shapes = [(32, 784, 256), (33, 500, 301), (256, 64, 64), (2, 1000, 1000), (300, 8, 700)]
    operands, transposed = [], []
    for m, k, n in shapes:
        for a, b in itertools.product([False, True], repeat=2):
            operands.append(_random(generator, *((k, m) if a else (m, k))))
            operands.append(_random(generator, *((n, k) if b else (k, n))))
            operands.append(_random(generator, n))
            transposed.append((a, b))
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(*operands: tf.Tensor) -> list[tf.Tensor]:
            sums = [tf.zeros(s[::2]) for s in shapes for _ in range(4)]
            for _ in tf.range(3):
                products = []
                for i, (a, b) in enumerate(transposed):
                    left, right, bias = operands[3 * i : 3 * i + 3]
                    product = tf.matmul(left, right, a, b)
                    products.append(product if a else tf.nn.relu(product + bias))
                sums = [x + y for x, y in zip(sums, products)]
            return sums

        return [value.numpy() for value in strategy.run(program, tuple(operands))]


def _at_once(generator: np.random.Generator) -> list[np.ndarray]:
    """Runs the same loop on two devices at the same time."""
    config = IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    x, weights = _random(generator, 64, 500), _random(generator, 500, 500)
    results: dict[int, np.ndarray] = {}

    def run(ordinal: int) -> None:
        with tf.device(f"/device:IPU:{ordinal}"):

            @tf.function(jit_compile=True)
            def program(x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
                for _ in tf.range(100):
                    x = tf.tanh(x @ weights)
                return x

            results[ordinal] = program(x, weights).numpy()

    threads = [threading.Thread(target=run, args=(ordinal,)) for ordinal in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[0], results[1]]


@pytest.mark.parametrize("run", [_train, _mixed, _random_program, _feeds, _products, _at_once])
def test_bits_equal_several_threads(
    run: Run, monkeypatch: pytest.MonkeyPatch, replies: list[bool]
) -> None:
    for one, several in zip(*_both(run, monkeypatch, replies), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, several)


def test_error_equals_several_threads(monkeypatch: pytest.MonkeyPatch, replies: list[bool]) -> None:
    def run(generator: np.random.Generator) -> str:
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():

            @tf.function(jit_compile=True)
            def program(row: tf.Tensor) -> tf.Tensor:
                for i in tf.range(STEPS):
                    row += tf.gather(row, [i + 1], name="next_element")
                return row

            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                strategy.run(program, (tf.ones([STEPS]),))
        return re.sub(r"cluster_\d+", "cluster", str(caught.value))

    one, several = _both(run, monkeypatch, replies)
    assert "next_element" in one
    assert one == several


def test_only_small_loops_of_one_replica(replies: list[bool]) -> None:
    for replicas, elements in [(1, 10), (1, 2_000_000), (2, 10)]:
        replica_helpers.configure(replicas)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():

            @tf.function(jit_compile=True)
            def program(x: tf.Tensor) -> tf.Tensor:
                for _ in tf.range(STEPS):
                    x = x * 1.5
                return x

            strategy.run(program, (tf.ones([elements]),))
    assert replies == [True, False, False]


def test_slices_of_large_argument_are_small(replies: list[bool]) -> None:
    replica_helpers.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    rows = np.random.default_rng(0).standard_normal((STEPS, 400_000), dtype=np.float32)
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(rows: tf.Tensor) -> tf.Tensor:
            total = tf.zeros([400_000])
            for i in tf.range(STEPS):
                total += rows[i]
            return total

        total = strategy.run(program, (tf.constant(rows),))
    assert replies == [True]
    np.testing.assert_allclose(total, rows.sum(0), rtol=1e-4, atol=1e-5)
