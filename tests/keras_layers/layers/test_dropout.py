"""The layers that drop and mark: Dropout, RecomputationCheckpoint, AssumeEqualAcrossReplicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.ir.program import CHECKPOINT_ATTRIBUTE
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers import layers
from tensorflow_ipu.ops import rand_ops
from tests.support.programs import replicas

X = replicas.rows(1, (6, 5))[0]


@pytest.mark.parametrize("training", [False, None])
def test_nothing_is_dropped_outside_of_training(training: Any) -> None:
    np.testing.assert_array_equal(layers.Dropout(0.5)(X, training=training), X)


@pytest.mark.parametrize("noise_shape", [None, [6, 1], [None, 1]])
def test_training_drops_as_the_op_does(noise_shape: Any) -> None:
    layer = layers.Dropout(0.3, noise_shape=noise_shape, seed=[1, 2])
    want = rand_ops.dropout(X, 0.3, noise_shape=noise_shape and [6, 1], seed=[1, 2])
    np.testing.assert_array_equal(layer(X, training=True), want)
    assert (want == 0).numpy().any()


@pytest.mark.parametrize("training", [False, True])
def test_training_may_be_a_tensor(training: bool) -> None:
    layer = layers.Dropout(0.5, seed=[1, 2])
    result = tf.function(lambda flag: layer(X, training=flag))(tf.constant(training))
    assert (result.numpy() == 0).any() == training


@pytest.mark.parametrize("in_session", [False, True])
def test_replicas_have_masks_of_their_own(in_session: bool) -> None:
    layer = layers.Dropout(0.5)

    def program() -> list[tf.Tensor]:
        x = tf.constant(X)
        y = layer(x, training=True)
        return [y, tf.gradients(y, x)[0]]

    y, gradient = replicas.run(2, program, in_session)
    np.testing.assert_allclose(gradient, np.where(y == 0, 0, 2))
    assert (y[0] != y[1]).any()


def test_a_model_drops_on_the_device() -> None:
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        inputs = tf.keras.Input([5])
        model = tf.keras.Model(inputs, layers.Dropout(0.5)(inputs))

        @tf.function(jit_compile=True)
        def program(x: tf.Tensor) -> list[tf.Tensor]:
            return [model(x, training=True), model(x, training=False)]

        dropped, same = strategy.run(program, [tf.constant(X)])
    np.testing.assert_array_equal(same, X)
    np.testing.assert_allclose(dropped, np.where(dropped.numpy() == 0, 0, 2 * X))


@pytest.mark.parametrize("seed", [None, [1, 2], (1, 2), np.array([1, 2])])
def test_a_configuration_makes_the_same_layer(seed: Any) -> None:
    layer = layers.Dropout(0.25, noise_shape=(None, 1), seed=seed, ref=True, name="drop")
    config = layer.get_config()
    assert config["rate"] == 0.25 and config["noise_shape"] == [None, 1]
    assert config["seed"] == (None if seed is None else [1, 2]) and config["ref"]
    assert layers.Dropout.from_config(config).get_config() == config


@pytest.mark.parametrize("rate", [1.0, -0.5])
def test_rates_out_of_range_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"The rate must be in the range \[0, 1\)"):
        layers.Dropout(rate)


def test_build_makes_no_variables() -> None:
    layer = layers.Dropout(0.5)
    layer.build([2, 3])
    assert layer.built and not layer.variables


def test_recomputation_checkpoint_marks_its_inputs() -> None:
    layer = layers.RecomputationCheckpoint()
    for result in layer([tf.constant(X), tf.constant(X)]):
        np.testing.assert_array_equal(result, X)
    with tf.Graph().as_default():
        result = layers.RecomputationCheckpoint()(tf.constant(X))
        assert any(CHECKPOINT_ATTRIBUTE in op.node_def.attr for op in result.graph.get_operations())


@pytest.mark.parametrize(
    "layer_class, arguments",
    [(layers.RecomputationCheckpoint, {}), (layers.AssumeEqualAcrossReplicas, {"inplace": True})],
)
def test_identities_change_nothing_on_replicas(layer_class: Any, arguments: dict[str, Any]) -> None:
    layer = layer_class(**arguments)

    def program() -> list[tf.Tensor]:
        x = tf.constant(X)
        y = layer({"a": x})["a"]
        return [y, tf.gradients(y * y, x)[0]]

    y, gradient = replicas.run(2, program)
    for replica in range(2):
        np.testing.assert_array_equal(y[replica], X)
        np.testing.assert_allclose(gradient[replica], 2 * X)
    assert layer_class.from_config(layer.get_config()).get_config() == layer.get_config()


_TRAININGS = """
import sys
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
X = np.random.default_rng(0).normal(size=(32, 6)).astype(np.float32)
keras = tf.keras


def weights():
    with ipu.ipu_strategy.IPUStrategy().scope():
        layers = [keras.layers.Dense(16), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((6,)), *layers])
        model.compile("sgd", "mse", steps_per_execution=2)
        model.fit(X, X[:, :1], batch_size=4, epochs=2, verbose=0)
    return [round(float(w.sum()), 6) for w in model.get_weights()]


for seed in map(int, sys.argv[1:]):
    keras.utils.set_random_seed(seed)
    print(weights())
print(weights())
"""


def test_trainings_repeat_after_a_global_seed(run_python: Any) -> None:
    first, second, third, unseeded = run_python(_TRAININGS, args="010").stdout.splitlines()
    assert first == third
    assert len({first, second, unseeded}) == 3
    # In another process, with other trainings before.
    assert run_python(_TRAININGS, args="10").stdout.splitlines()[1] == first
