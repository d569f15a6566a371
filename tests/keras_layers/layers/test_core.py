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


def test_trainings_repeat_after_a_global_seed(run_program: Any) -> None:
    first, second, third, unseeded = run_program(_TRAININGS, args="010").stdout.splitlines()
    assert first == third
    assert len({first, second, unseeded}) == 3
    # In another process, with other trainings before.
    assert run_program(_TRAININGS, args="10").stdout.splitlines()[1] == first


# --- Tests of the Keras layers `Embedding` and `SerialDense` ---

IDS = np.array([[0, 11, 4, 4], [4, 5, 7, 1]], np.int32)


# Dimension, and shape of inputs to a layer of 8 units of which 2 divides it.
DIMENSIONS = ("input_columns", "input_rows_kernel_columns", "kernel_rows")


def _results(layer, inputs, weights):
    """Returns the result of a layer and the gradients of its weights."""
    layer.build(inputs.shape)
    layer.set_weights(weights)
    with tf.GradientTape() as tape:
        outputs = layer(inputs)
        loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
    gradients = tape.gradient(loss, layer.trainable_variables)
    return [outputs, *map(tf.convert_to_tensor, gradients)]


def _random(*shape):
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("policy", ["float32", "float16", "mixed_float16"])
@pytest.mark.parametrize("factor", [1, 3])
def test_embedding_equals_keras(factor, policy):
    ours = layers.Embedding(
        12, 5, serialization_factor=factor, dtype=tf.keras.mixed_precision.Policy(policy)
    )
    stock = tf.keras.layers.Embedding(12, 5, dtype=tf.keras.mixed_precision.Policy(policy))
    weights = [_random(12, 5)]
    for one, other in zip(_results(ours, IDS, weights), _results(stock, IDS, weights)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-3 if "16" in policy else 1e-6)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6)])
@pytest.mark.parametrize("use_bias", [True, False])
def test_serial_dense_equals_keras(use_bias, shape, dimension):
    ours = layers.SerialDense(8, 2, dimension, "tanh", use_bias=use_bias)
    stock = tf.keras.layers.Dense(8, "tanh", use_bias=use_bias)
    weights = [_random(6, 8), _random(8)][: 1 + use_bias]
    inputs = tf.constant(_random(*shape))
    for one, other in zip(_results(ours, inputs, weights), _results(stock, inputs, weights)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_embedding_and_serial_dense_train_in_a_program(count):
    replicas.configure(count)
    table, kernel = _random(12, 6), _random(6, 8)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        embedding = layers.Embedding(12, 6, serialization_factor=2)
        dense = layers.SerialDense(8, 3, "input_rows_kernel_columns", use_bias=False)
        embedding.build([2, 4])
        dense.build([8, 6])
        embedding.set_weights([table])
        dense.set_weights([kernel])

        @tf.function(jit_compile=True)
        def step(ids):
            with tf.GradientTape() as tape:
                outputs = dense(embedding(ids))
                loss = tf.reduce_sum(outputs)
            variables = [embedding.embeddings, dense.kernel]
            return outputs, tape.gradient(loss, variables)

        outputs, (of_table, of_kernel) = strategy.run(step, (tf.constant(IDS),))
    np.testing.assert_allclose(outputs, table[IDS] @ kernel, rtol=1e-5, atol=1e-5)
    expected = np.zeros_like(table)
    np.add.at(expected, IDS, kernel.sum(1))
    np.testing.assert_allclose(of_table, expected, rtol=1e-5)
    expected = np.broadcast_to(table[IDS].sum((0, 1))[:, None], kernel.shape)
    np.testing.assert_allclose(of_kernel, expected, rtol=1e-5)


def test_models_may_have_an_unknown_batch_size():
    ids = tf.keras.Input([4], dtype=tf.int32)
    outputs = layers.SerialDense(8, 2, "input_columns")(layers.Embedding(12, 6)(ids))
    model = tf.keras.Model(ids, outputs)
    assert model.output_shape == (None, 4, 8)
    assert model.predict(IDS, verbose=0).shape == (2, 4, 8)


@pytest.mark.parametrize(
    "layer",
    [
        layers.Embedding(12, 5, "zeros", 3, name="table"),
        layers.SerialDense(8, 2, "kernel_rows", "relu", use_bias=False, name="dense"),
    ],
)
def test_configuration_makes_the_same_layer(layer):
    copy = type(layer).from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert copy.name == layer.name
    assert copy.serialization_factor == layer.serialization_factor


def test_results_have_the_computed_shape():
    assert layers.Embedding(12, 5).compute_output_shape([2, 3]) == [2, 3, 5]
    assert layers.SerialDense(8, 2, "kernel_rows").compute_output_shape([2, 3]) == [2, 8]


@pytest.mark.parametrize("inputs", [[1, 2], [[[1]]], [[1.0]]])
def test_embedding_refuses_other_inputs(inputs):
    with pytest.raises(ValueError, match=r"\[batch, input_length\]"):
        layers.Embedding(12, 5)(tf.constant(inputs))


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="input_dim=0"):
        layers.Embedding(0, 5)
    with pytest.raises(
        ValueError, match="serialization_factor .* must divide the size of input_dim"
    ):
        layers.Embedding(12, 5, serialization_factor=5)
    with pytest.raises(ValueError, match="serialization_factor must be an int"):
        layers.SerialDense(8, 0, "kernel_rows")
    with pytest.raises(ValueError, match="'kernel_rows'. Received: 'b_rows'"):
        layers.SerialDense(8, 2, "b_rows")
    with pytest.raises(ValueError, match=r"serialization_factor \(3\) must divide the size"):
        layers.SerialDense(8, 3, "kernel_rows")(tf.zeros([2, 6]))
