"""The Keras layers for temporal classification, against TensorFlow's ops and brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed.ipu_strategy import IPUStrategy
from tensorflow_ipu.keras_layers import layers
from tensorflow_ipu.keras_layers.losses import CTCLoss

T, B, C, L = 5, 4, 3, 2
GENERATOR = np.random.default_rng(8)
LOGITS = GENERATOR.normal(size=(T, B, C)).astype(np.float32)
STEPS = np.array([5, 4, 3, 5], np.int32)
LABEL_LENGTHS = np.array([2, 1, 2, 0], np.int32)


def labels(blank: int) -> np.ndarray:
    """Two labels and a repeat; labels past the length do not count."""
    first, second = (c for c in range(C) if c != blank)
    return np.array([[first, second], [second, 99], [first, first], [-1, 99]], np.int32)


def data(from_logits: bool) -> tf.Tensor:
    return tf.constant(LOGITS) if from_logits else tf.nn.log_softmax(LOGITS)


def stock_loss(logits: Any, blank: int) -> tf.Tensor:
    clean = np.where(np.arange(L) < LABEL_LENGTHS[:, np.newaxis], labels(blank), 0)
    losses = tf.nn.ctc_loss(clean, logits, LABEL_LENGTHS, STEPS, blank_index=blank)
    return tf.reduce_mean(losses)


def best(entry: int, blank: int) -> list[tuple[float, tuple[int, ...]]]:
    """All label sequences of an entry with their log probability, the most likely first."""
    log_probs = tf.nn.log_softmax(LOGITS).numpy()[: STEPS[entry], entry]
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(C), repeat=len(log_probs)):
        key = tuple(label for label, _ in itertools.groupby(path) if label != blank)
        score = np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
        found[key] = found.get(key, 0.0) + score
    return sorted(((np.log(p), key) for key, p in found.items()), reverse=True)


@pytest.mark.parametrize("blank", [0, 1, C - 1])
@pytest.mark.parametrize("from_logits", [True, False])
def test_loss_is_the_mean_of_tensorflows(blank: int, from_logits: bool) -> None:
    layer = CTCLoss(blank, from_logits)
    with tf.GradientTape(persistent=True) as tape:
        logits = tf.Variable(LOGITS)
        x = logits if from_logits else tf.nn.log_softmax(logits)
        loss = layer(labels(blank), x, LABEL_LENGTHS, STEPS)
        want = stock_loss(logits, blank)
    assert loss.shape == [1] and loss.dtype == tf.float32
    np.testing.assert_allclose(loss[0], want, rtol=1e-5)
    gradients = [tape.gradient(each, logits) for each in (loss, want)]
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-6)


def test_loss_of_float16_keeps_its_type() -> None:
    loss = CTCLoss(from_logits=True)(labels(0), LOGITS.astype(np.float16), LABEL_LENGTHS, STEPS)
    assert loss.dtype == tf.float16
    np.testing.assert_allclose(loss[0], stock_loss(LOGITS, 0), rtol=1e-2)


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_policies_do_not_change_data(policy: str) -> None:
    """With a policy of half precision, the data have the type of the layer before."""
    layer = CTCLoss(from_logits=True, dtype=policy)
    assert layer(labels(0), tf.constant(LOGITS), LABEL_LENGTHS, STEPS).dtype == tf.float32
    search = layers.CTCInferenceLayer(dtype=policy)
    assert search(data(False), STEPS)[0].dtype == tf.float32


@pytest.mark.parametrize("blank", [0, C - 1, -1])
@pytest.mark.parametrize("from_logits", [True, False])
def test_the_search_finds_the_most_likely_sequence(blank: int, from_logits: bool) -> None:
    paths = 3
    layer = layers.CTCInferenceLayer(blank, top_paths=paths, from_logits=from_logits)
    scores, lengths, found = layer(data(from_logits), STEPS)
    assert (scores.shape, lengths.shape, found.shape) == ([B, paths], [B, paths], [B, paths, T])
    predicted = layers.CTCPredictionsLayer(blank, top_paths=paths, from_logits=from_logits)
    predictions = predicted(data(from_logits), STEPS)
    assert predictions.shape == [B, T] and predictions.dtype == tf.int32
    for entry in range(B):
        wanted = best(entry, blank % C)[:paths]
        np.testing.assert_allclose(scores[entry], [score for score, _ in wanted], rtol=1e-4)
        for path, (_, sequence) in enumerate(wanted):
            length = int(lengths[entry, path])
            assert tuple(found[entry, path].numpy()[:length]) == sequence
        padded = [*wanted[0][1], *[blank % C] * T][:T]
        np.testing.assert_array_equal(predictions[entry], padded)


def test_the_search_equals_tensorflows() -> None:
    """Which has the blank last, and scores that are not normalised."""
    stock, wanted = tf.nn.ctc_beam_search_decoder(LOGITS, STEPS, beam_width=100, top_paths=2)
    layer = layers.CTCInferenceLayer(C - 1, top_paths=2, from_logits=True)
    scores, _, found = layer(LOGITS, STEPS)
    np.testing.assert_allclose(np.diff(scores.numpy()), np.diff(wanted.numpy()), rtol=1e-3)
    for path, sparse in enumerate(stock):
        dense = tf.sparse.to_dense(sparse, default_value=C - 1).numpy()
        np.testing.assert_array_equal(found[:, path, : dense.shape[1]], dense)


@pytest.mark.parametrize("kind", ["CTCInferenceLayer", "CTCPredictionsLayer"])
def test_configurations_of_searches_make_the_same_layer(kind: str) -> None:
    layer = getattr(layers, kind)(2, 7, 3, True, name="search")
    config = layer.get_config()
    wanted = {"blank_index": 2, "beam_width": 7, "top_paths": 3, "from_logits": True}
    assert wanted.items() <= config.items()
    again = tf.keras.layers.deserialize(tf.keras.layers.serialize(layer))
    assert type(again) is type(layer) and again.get_config() == config
    default = getattr(layers, kind)()
    assert (default.blank_index, default.beam_width, default.top_paths) == (0, 100, 1)
    assert default.from_logits is False


def test_a_configuration_makes_the_same_loss() -> None:
    layer = CTCLoss(1, True, name="loss")
    assert {"blank_index": 1, "from_logits": True}.items() <= layer.get_config().items()
    again = tf.keras.layers.deserialize(tf.keras.layers.serialize(layer))
    assert type(again) is CTCLoss and again.get_config() == layer.get_config()
    assert (CTCLoss().blank_index, CTCLoss().from_logits) == (0, False)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"top_paths": 0}, ValueError, "top_paths must be at least 1"),
        ({"beam_width": 2, "top_paths": 3}, ValueError, "less than or equal to beam_width"),
        ({"blank_index": 0.5}, TypeError, "blank_index must be an int"),
        ({"beam_width": True}, TypeError, "beam_width must be an int"),
    ],
)
def test_wrong_arguments_of_searches_are_refused(arguments: Any, error: Any, message: str) -> None:
    for kind in (layers.CTCInferenceLayer, layers.CTCPredictionsLayer):
        with pytest.raises(error, match=message):
            kind(**arguments)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="blank_index must be an int"):
        CTCLoss("a")
    with pytest.raises(ValueError, match="blank_index must be in the range"):
        CTCLoss(C)(labels(0), LOGITS, LABEL_LENGTHS, STEPS)
    with pytest.raises(TypeError, match="labels must be of the type int32"):
        CTCLoss()(labels(0).astype(np.float32), LOGITS, LABEL_LENGTHS, STEPS)
    with pytest.raises(ValueError, match="blank_index must be in the range"):
        layers.CTCPredictionsLayer(C)(LOGITS, STEPS)


def network(ending: Any) -> tf.keras.Model:
    """A model with fixed weights: `ending` makes outputs of logits [B, T, C]."""
    x = tf.keras.Input((T, 2), batch_size=B)
    kernel = tf.keras.initializers.Constant(np.linspace(-1, 1, 2 * C).reshape(2, C))
    logits = tf.keras.layers.Dense(C, kernel_initializer=kernel)(x)
    return tf.keras.Model(*ending(x, logits))


def loss_model() -> tf.keras.Model:
    def ending(x: Any, logits: Any) -> Any:
        y = tf.keras.Input((L,), batch_size=B, dtype=tf.int32)
        sizes = [tf.keras.Input((), batch_size=B, dtype=tf.int32) for _ in range(2)]
        major = tf.keras.layers.Permute((2, 1))(logits)  # only to show that other layers fit in
        major = tf.keras.layers.Lambda(lambda t: tf.transpose(t, [2, 0, 1]))(major)
        return [x, y, *sizes], CTCLoss(from_logits=True)(y, major, *sizes)

    return network(ending)


X = GENERATOR.normal(size=(B, T, 2)).astype(np.float32)


def stock_training(steps: int) -> tuple[list[float], Any]:
    """Trains the same network with TensorFlow's loss."""
    model = network(lambda x, logits: (x, logits))
    optimizer = tf.keras.optimizers.SGD(0.1)
    losses = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = stock_loss(tf.transpose(model(X), [1, 0, 2]), 0)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        losses.append(float(loss))
    return losses, model.get_weights()


def inputs() -> tuple[Any, ...]:
    return X, labels(0), LABEL_LENGTHS, STEPS


def fit(model: tf.keras.Model, steps: int, **options: Any) -> list[float]:
    elements = tf.data.Dataset.from_tensors((inputs(), np.zeros([1], np.float32))).repeat(steps)
    model.compile(tf.keras.optimizers.SGD(0.1), loss=lambda _, loss: loss, **options)
    return model.fit(elements, epochs=1, verbose=0).history["loss"]


def test_a_model_fits_with_stock_keras() -> None:
    losses, weights = stock_training(3)
    model = loss_model()
    np.testing.assert_allclose(fit(model, 3), [np.mean(losses)], rtol=1e-5)
    for got, want in zip(model.get_weights(), weights):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def strategy() -> IPUStrategy:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    return IPUStrategy()


def test_a_model_fits_on_the_ipu() -> None:
    _, weights = stock_training(4)
    with strategy().scope():
        model = loss_model()
        fit(model, 4, steps_per_execution=2)
        for got, want in zip(model.get_weights(), weights):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_model_runs_on_the_ipu() -> None:
    def ending(x: Any, logits: Any) -> Any:
        steps = tf.keras.Input((), batch_size=B, dtype=tf.int32)
        major = tf.keras.layers.Lambda(lambda t: tf.transpose(t, [1, 0, 2]))(logits)
        return [x, steps], layers.CTCPredictionsLayer(from_logits=True)(major, steps)

    stock = network(ending)([X, STEPS])
    ipu = strategy()
    with ipu.scope():
        model = network(ending)
        program = tf.function(lambda *x: model(list(x)), jit_compile=True)
        found = ipu.run(program, [tf.constant(X), tf.constant(STEPS)])
    np.testing.assert_array_equal(found, stock)


def test_effective_transformer_says_why_it_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="has no EffectiveTransformer: its arguments"):
        layers.EffectiveTransformer(8, max_batch_size=4)
