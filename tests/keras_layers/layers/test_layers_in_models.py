"""All IPU Keras layers inside models: `fit`, saving and loading, mixed precision, on the IPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed.ipu_strategy import IPUStrategy
from tensorflow_ipu.keras_layers import layers

B, T, WORDS = 4, 5, 10
GENERATOR = np.random.default_rng(6)
IDS = GENERATOR.integers(0, WORDS, (2 * B, T)).astype(np.int32)
IMAGES = GENERATOR.normal(size=(2 * B, 4, 4, 6)).astype(np.float32)
Y = GENERATOR.normal(size=(2 * B, 1)).astype(np.float32)


def text_model(keras: Any = layers) -> tf.keras.Model:
    """Makes a model without dropout, from our layers or from Keras's of the same names."""
    ours = keras is layers
    dense = (lambda n: layers.SerialDense(n, 2, "kernel_rows")) if ours else keras.Dense
    x = inputs = tf.keras.Input((T,), dtype=tf.int32)
    x = keras.Embedding(WORDS, 4, **({"serialization_factor": 2} if ours else {}))(x)
    x = keras.LSTM(6, return_sequences=True)(x)
    x = keras.GRU(4)(x)
    x = keras.LayerNormalization()(x)
    x = dense(6)(x)
    if ours:
        x = layers.AssumeEqualAcrossReplicas()(layers.RecomputationCheckpoint()(x))
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, dtype="float32")(x))


def image_model() -> tf.keras.Model:
    x = inputs = tf.keras.Input((4, 4, 6))
    x = layers.GroupNormalization(groups=3)(x)
    x = layers.InstanceNormalization()(x)
    x = layers.Dropout(0.5, noise_shape=[None, 1, 1, 6], seed=[1, 2])(x)
    x = tf.keras.layers.Flatten()(x)
    x = layers.SerialDense(4, 3, "input_rows_kernel_columns", kernel_regularizer="l2")(x)
    x = layers.SerialDense(4, 2, "input_columns", activation="relu")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, dtype="float32")(x))


MODELS = {"text": (text_model, IDS), "image": (image_model, IMAGES)}


def seeded(model: tf.keras.Model) -> tf.keras.Model:
    generator = np.random.default_rng(7)
    model.set_weights([generator.normal(0, 0.5, weight.shape) for weight in model.weights])
    return model


def fit(model: tf.keras.Model, x: Any, **options: Any) -> list[float]:
    elements = tf.data.Dataset.from_tensor_slices((x, Y)).batch(B, drop_remainder=True)
    model.compile("sgd", "mse", **options)
    losses: list[float] = model.fit(elements, epochs=2, verbose=0).history["loss"]
    return losses


@pytest.fixture
def policy() -> Iterator[Any]:
    yield tf.keras.mixed_precision.set_global_policy
    tf.keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("suffix", ["", ".h5", ".keras"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_models_are_saved_and_loaded_without_custom_objects(
    kind: str, suffix: str, tmp_path: Path
) -> None:
    make, x = MODELS[kind]
    model = seeded(make())
    path = str(tmp_path / f"model{suffix}")
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in model.layers]
    assert [one.get_config() for one in loaded.layers] == [one.get_config() for one in model.layers]
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-5, atol=1e-6)
    if not suffix:  # as programs load it that have no Keras
        found = tf.saved_model.load(path)(tf.constant(x))
        np.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Dropout", "Embedding", "GroupNormalization", "LSTM"])
def test_saved_names_are_not_those_of_keras(name: str) -> None:
    registered = tf.keras.utils.get_registered_name(getattr(layers, name))
    assert registered.startswith("tensorflow_ipu>")


@pytest.mark.parametrize("name", ["mixed_float16", "float16"])
@pytest.mark.parametrize("kind", MODELS)
def test_policies_set_the_types_of_layers(kind: str, name: str, policy: Any) -> None:
    make, x = MODELS[kind]
    whole = seeded(make())
    policy(name)
    model = make()
    model.set_weights(whole.get_weights())
    np.testing.assert_allclose(model(x), whole(x), rtol=0.02, atol=0.02)
    variables = "float32" if name == "mixed_float16" else "float16"
    checked = (layers.Embedding, layers.LSTM, layers.GRU, layers.SerialDense)
    for layer in model.layers:
        if isinstance(layer, checked):
            assert layer.compute_dtype == "float16" and layer.output.dtype == tf.float16
            assert {weight.dtype.name for weight in layer.weights} == {variables}
    # Not the same numbers: Keras leaves out steps until its loss scale fits.
    assert np.isfinite(fit(model, x)).all()


def test_training_equals_that_of_stock_layers() -> None:
    """The model of stock layers, the same of ours on the CPU, and on the IPU."""
    stock = seeded(text_model(tf.keras.layers))
    start = stock.get_weights()
    wanted = fit(stock, IDS)
    cpu = text_model()
    cpu.set_weights(start)
    np.testing.assert_allclose(fit(cpu, IDS), wanted, rtol=1e-5)
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        ipu = text_model()
        ipu.set_weights(start)
        fit(ipu, IDS, steps_per_execution=2)
        found = ipu.get_weights()
    for on_cpu, on_ipu, want in zip(cpu.get_weights(), found, stock.get_weights()):
        np.testing.assert_allclose(on_cpu, want, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(on_ipu, want, rtol=1e-5, atol=1e-5)


def test_dropout_takes_a_batch_of_any_size() -> None:
    """The mask equals the mask of the same layer in a program with known shapes."""
    layer = layers.Dropout(0.5, noise_shape=[None, 1, 4], seed=[3, 4])
    x = tf.constant(GENERATOR.normal(size=(B, T, 4)), tf.float32)
    of_any = tf.function(lambda t: layer(t, training=True))
    unknown = of_any.get_concrete_function(tf.TensorSpec([None, T, 4]))
    np.testing.assert_array_equal(unknown(x), layer(x, training=True))
    with pytest.raises(ValueError, match="Dimension mismatch"):
        layers.Dropout(0.5, [None, 2, 4])(tf.keras.Input((T, 4)), training=True)
