"""Automatic loss scaling, against the rule in NumPy and against training without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers import optimizers
from tests.keras_layers.optimizers import training
from tests.support.programs import replicas

keras = tf.keras
each_generation = pytest.mark.parametrize("generation", list(training.GENERATIONS))


class Emulation:
    """The rule as the specification has it."""

    def __init__(
        self,
        initial: float = 1,
        frequency: int = 8,
        increase: float = 2,
        maximum: float = 32768,
        accumulate: bool = True,
        threshold: float = 1e-5,
        alpha: float = 0.0,
        edge: float = 8192,
    ) -> None:
        self.factor = self.previous = np.float32(initial)
        self.counter = 0
        self.histogram = np.zeros(2, np.float32)
        self.period = np.zeros(2, np.float32)
        self.rule = (frequency, increase, maximum, accumulate, threshold, alpha, edge)

    def step(self, gradients: list[np.ndarray]) -> None:
        """Takes the scaled gradients of one call."""
        frequency, increase, maximum, accumulate, threshold, alpha, edge = self.rule
        due = frequency == 1 or (self.counter > 0 and self.counter % frequency == 0)
        if accumulate or due:
            values = [np.abs(g.ravel()) for g in gradients if g.dtype == np.float16]
            values = np.concatenate([np.zeros(0, np.float16), *values]).astype(np.float32)
            small = np.sum(values < edge)
            new = np.float32([small, len(values) - small])
            self.histogram = np.float32(alpha * self.histogram + (1 - alpha) * new)
            self.period += new
        if not due:
            self.counter += 1
            return
        self.previous = self.factor
        counts = [c for c in (self.histogram, self.period) if c.sum() > 0]
        large = any(c[1] / c.sum() > threshold for c in counts)
        following = self.factor / increase if large else self.factor * increase
        if 1 <= following < maximum:
            self.factor = np.float32(following)
        self.histogram[:] = self.period[:] = 0
        self.counter = 0


def gradients(step: int) -> np.ndarray:
    """Returns float16 gradients, in later steps larger ones."""
    generator = np.random.default_rng([11, step])
    values = generator.normal(size=(4, 3)) * 20 ** (step % 5)
    return np.clip(values, -6e4, 6e4).astype(np.float16)


def state(opt: Any) -> dict[str, Any]:
    return {
        "factor": opt.loss_scaling_factor.numpy(),
        "previous": opt.previous_loss_scaling_factor.numpy(),
        "counter": opt.update_counter.numpy(),
        "histogram": opt.histogram.numpy().tolist(),
    }


def expected_state(rule: Emulation) -> dict[str, Any]:
    return {
        "factor": rule.factor,
        "previous": rule.previous,
        "counter": rule.counter,
        "histogram": rule.histogram.tolist(),
    }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"frequency": 1},
        {"frequency": 1, "threshold": 0.3},
        {"frequency": 2, "accumulate": False},
        {"frequency": 3, "alpha": 0.5, "edge": 100},
        {"frequency": 2, "alpha": 0.25, "accumulate": False, "edge": 10},
        {"frequency": 1, "initial": 512, "maximum": 4096, "increase": 4, "threshold": 0.5},
        {"frequency": 1, "initial": 4, "increase": 4, "edge": 1},
    ],
)
@each_generation
def test_the_scale_follows_the_rule(generation: str, settings: dict[str, Any]) -> None:
    names = {
        "initial": "initial_loss_scaling_factor",
        "frequency": "update_frequency",
        "increase": "increase_factor",
        "maximum": "max_loss_scaling_factor",
        "accumulate": "accumulate_statistics_over_update_period",
        "threshold": "ratio_threshold",
        "alpha": "lpf_alpha",
        "edge": "histogram_bin_edge",
    }
    opt = optimizers.ALSOptimizer(
        training.make("sgd", generation), **{names[key]: value for key, value in settings.items()}
    )
    rule = Emulation(**settings)
    weight = tf.Variable(tf.zeros([4, 3], tf.float16))
    training.build(opt, [weight])
    for step in range(20):
        found = gradients(step)
        opt.apply_gradients([(tf.constant(found), weight)])
        rule.step([found])
        assert state(opt) == expected_state(rule), step


@pytest.mark.parametrize("frequency", [1, 2, 8])
def test_updates_come_every_f_plus_one_calls(frequency: int) -> None:
    opt = optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.0), update_frequency=frequency)
    weight = tf.Variable([1.0])
    factors = []
    for _ in range(20):
        opt.apply_gradients([(tf.constant([1.0]), weight)])
        factors.append(opt.loss_scaling_factor.numpy())
    period = 1 if frequency == 1 else frequency + 1
    # Nothing is counted of float32: the factor grows until it would reach the maximum.
    assert factors == [min(2 ** (call // period), 2**14) for call in range(1, 21)]


def test_the_histogram_counts_finite_float16_gradients() -> None:
    opt = optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.0), histogram_bin_edge=4)
    half = tf.Variable(tf.zeros([5], tf.float16))
    table = tf.Variable(tf.zeros([9, 1], tf.float16))
    single = tf.Variable([1.0])
    rows = tf.IndexedSlices(tf.constant([[5.0], [1.0]], tf.float16), [2, 7], [9, 1])
    pairs = [
        (tf.constant([3.99, 4.0, -5.0, np.inf, np.nan], tf.float16), half),
        (rows, table),
        (tf.constant([100.0]), single),
    ]
    captured = {
        "a": tf.constant([7.0, 0.0], tf.float16),
        "b": [tf.constant([9.0], tf.float16), {"c": tf.constant([9.0])}],
    }
    opt.apply_gradients(pairs)
    np.testing.assert_array_equal(opt.histogram.numpy(), [2, 5])
    np.testing.assert_allclose(opt.normalized_histogram.numpy(), [2 / 7, 5 / 7], rtol=1e-6)
    opt.apply_gradients(pairs, captured_grads=captured)
    np.testing.assert_array_equal(opt.histogram.numpy(), [3, 7])
    opt.captured_grads_only = True
    np.testing.assert_array_equal(opt.histogram.numpy(), [0, 0])
    opt.apply_gradients(pairs, captured_grads=captured)
    np.testing.assert_array_equal(opt.histogram.numpy(), [1, 2])
    opt.apply_gradients(pairs)
    np.testing.assert_array_equal(opt.histogram.numpy(), [0, 0])


@pytest.mark.parametrize("callable_loss", [False, True])
@each_generation
def test_the_inner_step_sees_true_gradients(generation: str, callable_loss: bool) -> None:
    opt = optimizers.ALSOptimizer(training.make("sgd", generation), initial_loss_scaling_factor=64)
    weight = tf.Variable([1.0, 2.0])
    training.build(opt, [weight])
    with tf.GradientTape() as tape:
        if callable_loss:
            scaled = opt.get_scaled_loss(lambda: training.loss(weight, 0.0))()
        else:
            scaled = opt.get_scaled_loss(training.loss(weight, 0.0))
    gradient = tape.gradient(scaled, weight)
    np.testing.assert_allclose(gradient.numpy(), [64, 128])
    opt.apply_gradients([(gradient, weight)])
    np.testing.assert_allclose(weight.numpy(), [0.9, 1.8])


def test_large_factors_do_not_overflow_float16_losses() -> None:
    opt = optimizers.ALSOptimizer(
        keras.optimizers.SGD(1.0),
        initial_loss_scaling_factor=2.0**20,
        max_loss_scaling_factor=2.0**30,
    )
    weight = tf.Variable(tf.constant([1.0], tf.float16))
    training.build(opt, [weight])
    opt.apply_gradients([(tf.constant([2.0**15], tf.float16), weight)])  # 1 / 32
    assert weight.numpy() == 1 - 2.0**-5
    assert opt.get_scaled_loss(tf.constant(2.0**-20, tf.float32)).numpy() == 1


@each_generation
def test_variables_without_gradients_are_refused(generation: str) -> None:
    opt = optimizers.ALSOptimizer(training.make("sgd", generation))
    weight = tf.Variable([1.0])
    training.build(opt, [weight])
    with pytest.raises(ValueError, match="No gradients provided"):
        opt.apply_gradients([(None, weight)])


@each_generation
def test_keeps_small_gradients_alive_in_float16(generation: str) -> None:
    # The derivative by `hidden` is 2^-26, which float16 rounds to 0. Then the weight does not move.
    small = 2.0**-26

    def step(opt: Any, weight: tf.Variable, inputs: tf.Variable) -> None:
        with tf.GradientTape() as tape:
            hidden = tf.cast(weight * inputs, tf.float16)
            value = tf.reduce_sum(tf.cast(hidden, tf.float32)) * small
        opt.minimize(value, [weight], tape=tape)

    def train(opt: Any) -> np.ndarray:
        weight = tf.Variable([1.0])
        training.build(opt, [weight])
        for _ in range(12):
            step(opt, weight, tf.constant([2.0**10]))
        return weight.numpy()

    def inner() -> Any:
        return training.GENERATIONS[generation].SGD(2.0**8)

    assert train(inner()) == 1
    opt = optimizers.ALSOptimizer(inner(), update_frequency=1)
    # In the first two steps the factor is too small still: 2^-26 and 2^-25 (a tie, to even).
    expected = 1 - 10 * 2.0**8 * 2.0**10 * small
    np.testing.assert_allclose(train(opt), [expected], rtol=1e-6)
    assert opt.loss_scaling_factor.numpy() == 2**12


def test_overflow_in_float16_lowers_the_factor() -> None:
    opt = optimizers.ALSOptimizer(
        keras.optimizers.legacy.SGD(0.0), initial_loss_scaling_factor=8192, update_frequency=1
    )
    weight = tf.Variable(tf.ones([4], tf.float16))
    for _ in range(12):
        opt.minimize(lambda: tf.reduce_sum(weight * tf.constant(50.0, tf.float16)), [weight])
    # 50 x 128 is below the edge of 8192, and 50 x 256 is not.
    assert {opt.loss_scaling_factor.numpy(), opt.previous_loss_scaling_factor.numpy()} == {128, 256}


@pytest.mark.parametrize("activation", ["linear", "relu", "sigmoid"])
@pytest.mark.parametrize("initial", [8, 32])
def test_saturated_gradients_lower_the_factor(activation: str, initial: int) -> None:
    # The first steps of gradient descent leave weights for which the gradients are 0: units are off
    # or saturated, or outputs are the largest float16, as are the targets.
    dense, small = keras.layers.Dense, keras.initializers.Constant(0.1)
    inputs = np.random.default_rng(3).uniform(0.5, 1, size=(4, 8)).astype(np.float32)
    replicas.configure(1)
    with ipu_strategy.IPUStrategy().scope():
        head = [] if activation == "linear" else [dense(4)]
        model = keras.Sequential(
            [
                keras.Input((8,), batch_size=4),
                dense(8, activation, dtype=tf.float16, kernel_initializer=small),
                *head,
            ]
        )
        opt = optimizers.ALSOptimizer(
            keras.optimizers.legacy.SGD(0.1), initial_loss_scaling_factor=initial
        )
        model.compile(opt, "mse", steps_per_execution=9)
        targets = np.full((4, 4 if head else 8), 1e8, np.float32)
        data = tf.data.Dataset.from_tensors((inputs, targets)).repeat(9)
        model.fit(data, verbose=0)
    assert opt.loss_scaling_factor.numpy() == initial / 2


class TestArguments:
    """Errors, and properties."""

    @pytest.mark.parametrize(
        "arguments",
        [
            {"initial_loss_scaling_factor": 3},
            {"initial_loss_scaling_factor": 0},
            {"increase_factor": 3},
            {"increase_factor": -2},
            {"max_loss_scaling_factor": 1000},
            {"update_frequency": 0},
            {"update_frequency": -1},
            {"ratio_threshold": 0},
            {"ratio_threshold": 1.0},
        ],
    )
    def test_values_out_of_range_are_refused(self, arguments: dict[str, Any]) -> None:
        name = next(iter(arguments))
        with pytest.raises(ValueError, match=f"{name} must be .* Received: {name}="):
            optimizers.ALSOptimizer(keras.optimizers.SGD(), **arguments)
        opt = optimizers.ALSOptimizer(keras.optimizers.SGD())
        if len(arguments) == 1:
            before = opt.get_config()
            with pytest.raises(ValueError, match=name):
                setattr(opt, name, arguments[name])
            assert opt.get_config() == before

    @pytest.mark.parametrize(
        "name",
        [
            "histogram",
            "normalized_histogram",
            "loss_scaling_factor",
            "previous_loss_scaling_factor",
            "update_counter",
            "decrease_factor",
        ],
    )
    def test_the_histogram_is_read_only(self, name: str) -> None:
        opt = optimizers.ALSOptimizer(keras.optimizers.SGD())
        with pytest.raises(ValueError, match=f"{name} is a read only property."):
            setattr(opt, name, 1)

    def test_defaults_are_readable_properties(self) -> None:
        opt = optimizers.ALSOptimizer(keras.optimizers.SGD())
        assert (opt.initial_loss_scaling_factor, opt.update_frequency) == (1, 8)
        assert (opt.increase_factor, opt.decrease_factor) == (2, 0.5)
        assert (opt.max_loss_scaling_factor, opt.histogram_bin_edge) == (32768, 8192)
        assert (opt.ratio_threshold, opt.lpf_alpha) == (1e-5, 0.0)
        assert opt.accumulate_statistics_over_update_period
        assert not opt.captured_grads_only
        opt.update_frequency = 3
        assert opt.get_config()["update_frequency"] == 3
        dtypes = [opt.histogram.dtype, opt.update_counter.dtype, opt.loss_scaling_factor.dtype]
        assert dtypes == [tf.float32, tf.int32, tf.float32]

    def test_a_reset_restores_the_first_factor(self) -> None:
        opt = optimizers.ALSOptimizer(
            keras.optimizers.legacy.SGD(0.0), initial_loss_scaling_factor=4, update_frequency=2
        )
        weight = tf.Variable(tf.ones([3], tf.float16))
        for _ in range(5):
            opt.apply_gradients([(tf.ones([3], tf.float16), weight)])
        assert state(opt) == {"factor": 8, "previous": 4, "counter": 2, "histogram": [3, 0]}
        opt.reset()
        assert state(opt) == {"factor": 4, "previous": 4, "counter": 0, "histogram": [0, 0]}

    @pytest.mark.parametrize(
        "arguments",
        [
            {"initial_loss_scaling_factor": 32768},
            {"initial_loss_scaling_factor": 16384},
            {"initial_loss_scaling_factor": 4, "max_loss_scaling_factor": 2},
            {"increase_factor": 32768},
            {"max_loss_scaling_factor": 2},
        ],
    )
    def test_the_factor_must_be_able_to_grow_once(self, arguments: dict[str, Any]) -> None:
        maximum = arguments.get("max_loss_scaling_factor", 32768)
        too_large = arguments.get("initial_loss_scaling_factor", 1) >= maximum
        product = "" if too_large else " x increase_factor"
        phrase = f"initial_loss_scaling_factor{product} must be less than max_loss_scaling_factor"
        with pytest.raises(ValueError, match=phrase):
            optimizers.ALSOptimizer(keras.optimizers.SGD(), **arguments)
        if len(arguments) == 1:
            opt = optimizers.ALSOptimizer(keras.optimizers.SGD())
            before = opt.get_config()
            ((name, value),) = arguments.items()
            with pytest.raises(ValueError, match=phrase):
                setattr(opt, name, value)
            assert opt.get_config() == before

    @pytest.mark.parametrize(
        ("name", "value", "resets"),
        [
            ("captured_grads_only", True, True),
            ("lpf_alpha", 0.5, True),
            ("histogram_bin_edge", 3, True),
            ("captured_grads_only", False, False),
            ("histogram_bin_edge", 8192, False),
            ("update_frequency", 3, False),
            ("initial_loss_scaling_factor", 2, False),
        ],
    )
    def test_what_histogram_means_is_set_with_a_reset(
        self, name: str, value: Any, resets: bool
    ) -> None:
        opt = optimizers.ALSOptimizer(
            keras.optimizers.legacy.SGD(0.0), initial_loss_scaling_factor=4, update_frequency=2
        )
        weight = tf.Variable(tf.ones([3], tf.float16))
        for _ in range(5):
            opt.apply_gradients([(tf.ones([3], tf.float16), weight)])
        before = state(opt)
        setattr(opt, name, value)
        after = {"factor": 4, "previous": 4, "counter": 0, "histogram": [0, 0]}
        assert state(opt) == (after if resets else before)


def _half_step(opt: Any, weight: tf.Variable, target: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(weight * target)
    opt.minimize(value, [weight], tape=tape)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("accumulate", [True, False])
@each_generation
def test_the_scale_follows_the_rule_on_replicas(
    generation: str, accumulate: bool, count: int
) -> None:
    # The histogram counts the gradients of all replicas, so that all come to the same factor: here
    # only those of the last one are large.
    data = training.targets(9 * count).reshape(9, count, 2, 3) * 0.001
    data[:, -1] *= 1000
    opt, weight = training.run(
        lambda: optimizers.ALSOptimizer(
            training.make("sgd", generation),
            update_frequency=2,
            histogram_bin_edge=2,
            ratio_threshold=0.25,
            accumulate_statistics_over_update_period=accumulate,
        ),
        _half_step,
        data,
        count,
        tf.float16,
    )
    rule = Emulation(frequency=2, edge=2, threshold=0.25, accumulate=accumulate)
    for rows in data.astype(np.float16):
        rule.step([row * np.float16(rule.factor) for row in rows])
    assert state(opt) == expected_state(rule)
    expected = training.INITIAL - 0.1 * data.sum((0, 1))
    np.testing.assert_allclose(weight, expected, atol=0.02)


@each_generation
def test_the_scale_follows_the_rule_in_a_loop(generation: str) -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    data = training.targets(10)
    with strategy.scope():
        weight = tf.Variable(training.INITIAL)
        opt = optimizers.ALSOptimizer(training.make("momentum", generation), update_frequency=3)
        training.build(opt, [weight])

        @tf.function(jit_compile=True)
        def train() -> Any:
            def body(index: tf.Tensor) -> tf.Tensor:
                training.minimize(opt, weight, tf.constant(data)[index])
                return index + 1

            return loops.repeat(10, body, [tf.constant(0)])

        strategy.run(train)
    want = training.train_eagerly(training.make("momentum", generation), 10)
    np.testing.assert_allclose(weight.numpy(), want, rtol=1e-5, atol=1e-6)
    assert opt.loss_scaling_factor.numpy() == 4
    assert opt.update_counter.numpy() == 2


def test_the_scale_follows_the_rule_in_a_session() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weight = tf.Variable(training.INITIAL)
        opt = optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.1), update_frequency=1)
        step = opt.minimize(lambda: training.loss(weight, 0.0), [weight])
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        np.testing.assert_allclose(session.run(weight), training.INITIAL * 0.9**3, rtol=1e-5)
        assert session.run(opt.loss_scaling_factor) == 8
        session.run(opt.reset())
        assert session.run(opt.loss_scaling_factor) == 1
