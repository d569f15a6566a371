"""Gradient accumulation in training loops of one's own."""

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
Accumulating = optimizers.GradientAccumulationOptimizer
ALSAccumulating = optimizers.ALSGradientAccumulationOptimizer
each_generation = pytest.mark.parametrize("generation", list(training.GENERATIONS))


def _train(
    make_optimizer: Any,
    data: np.ndarray,
    dtype: tf.DType = tf.float32,
    step: Any = training.minimize,
) -> tuple[Any, np.ndarray]:
    """Trains in one loop on the device. `data` is `[iterations, replicas, 2, 3]`."""
    replicas.configure(data.shape[1])
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(tf.cast(training.INITIAL, dtype))
        opt = make_optimizer()
        training.build(opt, [weight])

        @tf.function(jit_compile=True)
        def train() -> Any:
            def body(index: tf.Tensor) -> Any:
                target = tf.constant(data)[index, replicas.replication_ops.replication_index()]
                step(opt, weight, tf.cast(target, dtype))
                return index + 1

            return loops.repeat(len(data), body, [tf.constant(0)])

        strategy.run(train)
    return opt, weight.numpy()


def _expected(opt: Any, groups: np.ndarray, scale: float = 1) -> np.ndarray:
    """Trains on the CPU, with the sum of the gradients of each group of targets."""
    weight = tf.Variable(training.INITIAL)
    training.build(opt, [weight])
    for group in groups:
        gradient = np.sum([weight.numpy() - target for target in group], axis=0) * scale
        opt.apply_gradients([(tf.constant(np.float32(gradient)), weight)])
    return weight.numpy()


@each_generation
@pytest.mark.parametrize("inner", ["momentum", "adam"])
@pytest.mark.parametrize(
    ("method", "count"), [("sum", 1), ("SUM", 2), ("mean", 1), ("running_mean", 1)]
)
def test_mini_batches_update_by_sum_or_mean(
    method: str, count: int, inner: str, generation: str
) -> None:
    data = training.targets(6 * count).reshape(6, count, 2, 3)
    opt, got = _train(
        lambda: Accumulating(training.make(inner, generation), 3, reduction_method=method), data
    )
    scale = 1 if method.lower() == "sum" else 1 / 3
    groups = data.reshape(2, 3 * count, 2, 3)
    want = _expected(training.make(inner, generation), groups, scale)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert opt.iterations.numpy() == 2


def test_accumulation_around_a_mean_over_replicas_trains() -> None:
    data = training.targets(8).reshape(4, 2, 2, 3)
    _, got = _train(
        lambda: Accumulating(
            optimizers.CrossReplicaOptimizer(keras.optimizers.SGD(0.1)), 2, dtype=tf.float32
        ),
        data,
    )
    want = _expected(keras.optimizers.SGD(0.1), data.reshape(2, 4, 2, 3), 1 / 2)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@each_generation
@pytest.mark.parametrize("dynamic", [False, True])
def test_accumulation_around_loss_scaling_of_keras_trains(dynamic: bool, generation: str) -> None:
    def make() -> Any:
        settings = {} if dynamic else {"dynamic": False}
        return Accumulating(
            keras.mixed_precision.LossScaleOptimizer(
                training.make("momentum", generation), initial_scale=256, **settings
            ),
            2,
        )

    data = training.targets(4).reshape(4, 1, 2, 3)
    _, got = _train(make, data)
    want = _expected(training.make("momentum", generation), data.reshape(2, 2, 2, 3))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@each_generation
@pytest.mark.parametrize("count", [1, 2])
def test_loss_scaling_counts_accumulated_gradients(count: int, generation: str) -> None:
    def step(opt: Any, weight: tf.Variable, target: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            value = opt.get_scaled_loss(tf.reduce_sum(weight * target))
        (gradient,) = tape.gradient(value, [weight])
        opt.apply_gradients([(gradient, weight)], captured_grads={"all": 2 * gradient})

    data = np.ones([9, count, 2, 3], np.float32)
    opt, got = _train(
        lambda: ALSAccumulating(
            optimizers.ALSOptimizer(
                training.make("sgd", generation),
                initial_loss_scaling_factor=4,
                update_frequency=8,
                histogram_bin_edge=3 * 4 + 1,
            ),
            3,
        ),
        data,
        tf.float16,
        step,
    )
    # Each accumulated gradient is 3 x 4 and those captured 6 x 4, on each replica.
    np.testing.assert_array_equal(opt.histogram.numpy(), [6 * count, 6 * count])
    assert opt.update_counter.numpy() == 3
    np.testing.assert_allclose(got, training.INITIAL - 0.1 * 9 * count, atol=5e-3)


def test_one_mini_batch_is_the_optimizer_itself() -> None:
    inner = keras.optimizers.SGD()
    assert Accumulating(inner, 1) is inner
    als = optimizers.ALSOptimizer(inner)
    assert ALSAccumulating(als, num_mini_batches=1) is als
    assert ALSAccumulating(als_opt=als, num_mini_batches=2).inner_optimizer is als


@pytest.mark.parametrize("cls", [Accumulating, ALSAccumulating])
class TestConfiguration:
    """Configurations of optimizers."""

    @pytest.mark.parametrize(
        ("offloaded", "sharded", "names"),
        [
            (None, False, ("THREESTATE_UNDEFINED", "THREESTATE_OFF")),
            (True, True, ("THREESTATE_ON", "THREESTATE_ON")),
            (False, None, ("THREESTATE_OFF", "THREESTATE_UNDEFINED")),
            ("THREESTATE_ON", "THREESTATE_UNDEFINED", ("THREESTATE_ON", "THREESTATE_UNDEFINED")),
        ],
    )
    def test_memory_options_are_saved_by_name(
        self, cls: Any, offloaded: Any, sharded: Any, names: Any
    ) -> None:
        opt = cls(_als(), 3, offloaded, sharded, dtype=tf.float16, reduction_method="mean")
        config = opt.get_config()
        inner = {"inner_optimizer_config", "inner_optimizer_type"}
        assert {key: config[key] for key in config if key not in inner} == {
            "name": cls.__name__,
            "num_mini_batches": 3,
            "offload_weight_update_variables": names[0],
            "replicated_optimizer_state_sharding": names[1],
            "dtype": "float16",
            "reduction_method": "MEAN",
        }
        assert inner < set(config)
        assert cls.from_config(config).get_config() == config

    @pytest.mark.parametrize("state", ["on", "THREESTATE", 1, 0])
    def test_other_states_are_refused(self, cls: Any, state: Any) -> None:
        with pytest.raises(TypeError, match=r"must be None, True or False, or .*THREESTATE_ON"):
            cls(_als(), 2, offload_weight_update_variables=state)

    def test_weights_are_those_of_the_wrapped_optimizer(self, cls: Any) -> None:
        inner = _als()
        weight = tf.Variable(training.INITIAL)
        inner._create_all_weights([weight])
        inner.apply_gradients([(tf.ones_like(weight), weight)])
        opt = cls(inner, 2)
        assert [id(one) for one in opt.weights] == [id(one) for one in inner.weights]
        assert [id(one) for one in opt.variables()] == [id(one) for one in inner.variables()]
        opt.set_weights([array * 2 for array in opt.get_weights()])
        np.testing.assert_array_equal(inner.get_weights()[1], np.full([2, 3], -0.2, np.float32))
        with pytest.raises(AttributeError):
            opt.weights = []


def _als() -> Any:
    return optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.1, momentum=0.5))


class TestErrors:
    """Errors."""

    @pytest.mark.parametrize("count", [0, -1, 2.5, None, True, "2"])
    def test_a_wrong_number_of_mini_batches_is_refused(self, count: Any) -> None:
        with pytest.raises(ValueError, match="num_mini_batches must be a positive number."):
            Accumulating(keras.optimizers.SGD(), count)

    def test_an_unknown_reduction_method_is_refused(self) -> None:
        with pytest.raises(ValueError, match="as one of GradientAccumulationReductionMethod"):
            Accumulating(keras.optimizers.SGD(), 2, reduction_method="most")

    def test_contradictory_memory_options_are_refused(self) -> None:
        with pytest.raises(ValueError, match="replicated_optimizer_state_sharding"):
            Accumulating(
                keras.optimizers.SGD(),
                2,
                offload_weight_update_variables=False,
                replicated_optimizer_state_sharding=True,
            )

    @pytest.mark.parametrize("opt", [keras.optimizers.SGD(), None])
    def test_other_optimizers_than_als_are_refused(self, opt: Any) -> None:
        with pytest.raises(ValueError, match="wraps an ALSOptimizer"):
            ALSAccumulating(opt, 2)

    def test_wrapping_it_in_another_optimizer_is_refused(self) -> None:
        with pytest.raises(ValueError, match="must not be wrapped by any other optimizer"):
            optimizers.CrossReplicaOptimizer(Accumulating(keras.optimizers.SGD(), 2))

    def test_eager_use_is_refused(self) -> None:
        weight = tf.Variable([1.0])
        opt = Accumulating(keras.optimizers.SGD(), 2)
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="which is not inside a training loop"
        ):
            opt.minimize(lambda: weight * 2, [weight])

    @pytest.mark.parametrize("iterations", [0, 3])
    def test_loops_missing_or_of_no_multiple_are_refused(self, iterations: int) -> None:
        phrase = "evenly divide" if iterations else "which is not inside a training loop"
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            weight = tf.Variable(training.INITIAL)
            opt = Accumulating(keras.optimizers.legacy.SGD(0.1), 2)

            def body() -> None:
                training.minimize(opt, weight, tf.constant(0.0))

            @tf.function(jit_compile=True)
            def train() -> Any:
                if not iterations:
                    return body()
                return loops.repeat(iterations, lambda i: (body(), i)[1], [tf.constant(0)])

            with pytest.raises(tf.errors.FailedPreconditionError, match=phrase):
                strategy.run(train)
