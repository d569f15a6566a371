"""Random numbers in programs: when they repeat, when they differ, and how they are distributed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.runtime import native, system

tf1 = tf.compat.v1
_ITERATIONS = 3
_MANY = 20000


def _configure(ipus: Any = 1) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    _configure()
    yield
    system.reset_ipu_configuration()


class Loop:
    """A program that draws in each iteration of a loop; to be used in a `with`."""

    def __init__(self, draw: Callable[[], tf.Tensor], ordinal: int = 0) -> None:
        with tf.Graph().as_default() as graph:
            outfeed = IPUOutfeedQueue(device_ordinal=ordinal)
            with scopes.ipu_scope(f"/device:IPU:{ordinal}"):
                self._launch = ipu_compiler.compile(
                    lambda: loops.repeat(_ITERATIONS, lambda: outfeed.enqueue(draw()))
                )
            self._dequeue = outfeed.dequeue()
        self._session = tf1.Session(graph=graph)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: Any) -> None:
        self._session.close()

    def run(self) -> np.ndarray:
        """Runs once.

        Returns:
            What was drawn: [iterations, replicas, ...]; without replicas if there is one.
        """
        self._session.run(self._launch)
        return self._session.run(self._dequeue)


def _uniform() -> tf.Tensor:
    return tf.random.uniform([8])


DRAWS = {
    "uniform": _uniform,
    "uniform_float16": lambda: tf.random.uniform([8], dtype=tf.float16),
    "uniform_int": lambda: tf.random.uniform([8], 0, 1 << 20, tf.int32),
    "normal": lambda: tf.random.normal([8]),
    "truncated_normal": lambda: tf.random.truncated_normal([8]),
    "gamma": lambda: tf.random.gamma([8], 2.0),
    "poisson": lambda: tf.random.poisson([8], 1000.0),
    "categorical": lambda: tf.random.categorical(tf.zeros([1, 1000]), 8),
    "shuffle": lambda: tf.random.shuffle(tf.range(1000))[:8],
    "dropout": lambda: tf.nn.dropout(tf.ones([100]), 0.5),
    "dropout_v1": lambda: tf1.nn.dropout(tf.ones([100]), rate=0.5),
    "seeded": lambda: tf.random.uniform([8], seed=3),
    "in_a_branch": lambda: tf.cond(tf.constant(1) > 0, _uniform, lambda: tf.zeros([8])),
    "in_map_fn": lambda: tf.map_fn(lambda v: v + tf.random.uniform([]), tf.zeros([8])),
}


class TestReset:
    """After the same reset, the same executions give the same numbers."""

    @pytest.mark.parametrize("name", DRAWS)
    def test_a_reset_seed_repeats_the_numbers(self, name: str) -> None:
        with Loop(DRAWS[name]) as loop:
            native.reset_seed(0, 42, False)
            first = [loop.run(), loop.run()]
            native.reset_seed(0, 42, False)
            second = [loop.run(), loop.run()]
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("name", DRAWS)
    def test_iterations_executions_and_seeds_differ(self, name: str) -> None:
        with Loop(DRAWS[name]) as loop:
            native.reset_seed(0, 42, False)
            first, second = loop.run(), loop.run()
            native.reset_seed(0, 43, False)
            third = loop.run()
        rows = np.concatenate([first, second, third]).reshape(3 * _ITERATIONS, -1)
        assert len(np.unique(rows, axis=0)) == 3 * _ITERATIONS

    @pytest.mark.parametrize("seed", [0, -1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1])
    def test_any_integer_is_a_seed(self, seed: int) -> None:
        with Loop(_uniform) as loop:
            native.reset_seed(0, seed, False)
            first = loop.run()
            native.reset_seed(0, seed, False)
            np.testing.assert_array_equal(loop.run(), first)

    def test_a_reset_seed_holds_across_programs(self) -> None:
        results = []
        for _ in range(2):
            native.reset_seed(0, 42, False)
            with Loop(_uniform) as loop:
                results.append(loop.run())
        np.testing.assert_array_equal(results[0], results[1])

    def test_is_of_one_device(self) -> None:
        _configure([1, 1])
        with Loop(_uniform) as first, Loop(_uniform, 1) as second:
            native.reset_seed(0, 42, False)
            native.reset_seed(1, 42, False)
            one, other = first.run(), second.run()
            native.reset_seed(0, 42, False)
            one_again, other_again = first.run(), second.run()
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, one_again)
        assert not np.array_equal(other, other_again)

    def test_seeds_of_tensorflow_do_not_repeat(self) -> None:
        def draw() -> tf.Tensor:
            tf1.set_random_seed(1)
            return tf.random.uniform([8], seed=2)

        with Loop(draw) as loop:
            assert not np.array_equal(loop.run(), loop.run())

    def test_stateless_ops_repeat_by_themselves(self) -> None:
        with Loop(lambda: tf.random.stateless_uniform([8], [1, 2])) as loop:
            results = loop.run()
        expected = tf.random.stateless_uniform([8], [1, 2]).numpy()
        np.testing.assert_array_equal(results, [expected] * _ITERATIONS)

    def test_reset_seed_repeats_the_numbers_in_a_function(self) -> None:
        strategy = ipu_strategy.IPUStrategy()

        @tf.function(jit_compile=True)
        def draw() -> tf.Tensor:
            total = tf.zeros([4])
            for _ in tf.range(3):
                total = total * 2 + tf.random.normal([4])
            return total

        with strategy.scope():
            results = []
            for seed in (1, 1, 2):
                native.reset_seed(0, seed, False)
                results.append(strategy.run(draw).numpy())
        np.testing.assert_array_equal(results[0], results[1])
        assert not np.array_equal(results[1], results[2])


class TestReplicas:
    """Random values drawn by each replica."""

    @staticmethod
    def _run(ipus: int, identical: bool, draw: Callable[[], tf.Tensor] = _uniform) -> np.ndarray:
        _configure(ipus)
        native.reset_seed(0, 42, identical)
        with Loop(draw) as loop:
            return loop.run().reshape(_ITERATIONS, ipus, -1)

    @pytest.mark.parametrize("ipus", [1, 2, 4])
    def test_replicas_draw_different_numbers(self, ipus: int) -> None:
        results = self._run(ipus, identical=False)
        rows = results.reshape(_ITERATIONS * ipus, -1)
        assert len(np.unique(rows, axis=0)) == _ITERATIONS * ipus

    @pytest.mark.parametrize("ipus", [2, 4])
    def test_are_the_same_when_asked_for(self, ipus: int) -> None:
        results = self._run(ipus, identical=True)
        for replica in range(1, ipus):
            np.testing.assert_array_equal(results[:, replica], results[:, 0])
        assert not np.array_equal(results[0], results[1])

    @pytest.mark.parametrize("identical", [False, True])
    def test_second_run_with_the_seed_repeats_the_numbers(self, identical: bool) -> None:
        first, second = (self._run(4, identical) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("ipus", [2, 4])
    def test_the_first_draws_as_if_it_were_alone(self, ipus: int) -> None:
        alone = self._run(1, identical=False)
        np.testing.assert_array_equal(self._run(ipus, identical=False)[:, 0], alone[:, 0])

    def test_stateless_ops_are_the_same(self) -> None:
        results = self._run(2, False, lambda: tf.random.stateless_uniform([8], [1, 2]))
        np.testing.assert_array_equal(results[:, 0], results[:, 1])


class TestSeveralOps:
    """Each op has numbers of its own."""

    def test_equal_ops_differ(self) -> None:
        with Loop(lambda: tf.stack([_uniform(), _uniform(), _uniform()])) as loop:
            rows = loop.run().reshape(-1, 8)
        assert len(np.unique(rows, axis=0)) == 3 * _ITERATIONS

    def test_draws_are_not_correlated(self) -> None:
        def draw() -> tf.Tensor:
            return tf.stack([tf.random.normal([_MANY]), tf.random.normal([_MANY])])

        native.reset_seed(0, 1, False)
        with Loop(draw) as loop:
            rows = loop.run().reshape(-1, _MANY)
        correlation = np.corrcoef(rows)
        np.testing.assert_allclose(correlation, np.eye(len(rows)), atol=5 / np.sqrt(_MANY))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("in_loop", [False, True])
def test_dropout_mask_is_the_same_in_the_gradient(version: int, in_loop: bool) -> None:
    def net(x: tf.Tensor) -> Any:
        if version == 1:
            y = tf1.nn.dropout(x, rate=0.5)
        else:
            y = tf.nn.dropout(x, rate=0.5)
        return y, tf1.gradients(y, x)[0]

    def looped(x: tf.Tensor) -> Any:
        return loops.repeat(3, lambda v, y, g: (v, *net(v)), [x, x, x])[1:]

    with tf.Graph().as_default():
        with scopes.ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(looped if in_loop else net, [tf.ones([1000])])
        with tf1.Session() as session:
            y, gradient = session.run(results)
    assert set(np.unique(y)) == {0.0, 2.0}
    assert 400 < np.count_nonzero(y) < 600
    np.testing.assert_array_equal(gradient, y)


def test_dropout_mask_is_the_same_under_a_tape() -> None:
    strategy = ipu_strategy.IPUStrategy()

    @tf.function(jit_compile=True)
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.dropout(x, rate=0.25)
        return y, tape.gradient(y, x)

    with strategy.scope():
        y, gradient = strategy.run(step, [tf.ones([1000])])
    np.testing.assert_array_equal(y, gradient)
    assert 650 < np.count_nonzero(y) < 850


class TestStatistics:
    """Means and variances, within five standard errors of their expected values."""

    @staticmethod
    def _sample(draw: Callable[[], tf.Tensor]) -> np.ndarray:
        native.reset_seed(0, 7, False)
        with Loop(draw) as loop:
            return loop.run().astype(np.float64).ravel()

    @pytest.mark.parametrize(
        ("draw", "mean", "variance"),
        [
            (lambda: tf.random.uniform([_MANY], -1, 3), 1.0, 16 / 12),
            (lambda: tf.random.normal([_MANY], 2.0, 3.0), 2.0, 9.0),
            # Variance of a normal distribution cut off at two standard deviations:
            # 1 - 4 phi(2) / (2 Phi(2) - 1).
            (lambda: tf.random.truncated_normal([_MANY]), 0.0, 0.7737413),
            (lambda: tf.random.uniform([_MANY], 0, 10, tf.int32), 4.5, 99 / 12),
            (lambda: tf.random.gamma([_MANY], 3.0, 2.0), 1.5, 0.75),
            (lambda: tf.random.poisson([_MANY], 4.0), 4.0, 4.0),
            (lambda: tf.random.categorical(tf.math.log([[0.25, 0.75]]), _MANY), 0.75, 0.1875),
        ],
        ids=["uniform", "normal", "truncated", "uniform_int", "gamma", "poisson", "categorical"],
    )
    def test_numbers_have_their_mean_and_variance(
        self, draw: Callable[[], tf.Tensor], mean: float, variance: float
    ) -> None:
        sample = self._sample(draw)
        error = 5 * np.sqrt(variance / sample.size)
        assert abs(sample.mean() - mean) < error
        fourth = np.mean((sample - sample.mean()) ** 4)
        error = 5 * np.sqrt((fourth - variance**2) / sample.size)
        assert abs(sample.var() - variance) < error

    def test_numbers_are_within_their_bounds(self) -> None:
        uniform = self._sample(lambda: tf.random.uniform([_MANY], -1, 3))
        assert uniform.min() >= -1
        assert uniform.max() < 3
        integers = self._sample(lambda: tf.random.uniform([_MANY], 0, 10, tf.int32))
        assert set(integers) == set(range(10))
        assert np.abs(self._sample(lambda: tf.random.truncated_normal([_MANY]))).max() <= 2
