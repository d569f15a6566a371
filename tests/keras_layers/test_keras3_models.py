"""Models of Keras 3 on the IPU, bit for bit against Keras 3 alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import profiler
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.feeds import native_feeds

keras = pytest.importorskip("keras", minversion="3", reason="needs Keras 3")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
    # Parts of Keras 3 itself, on newer NumPy.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(32, 12)).astype(np.float32)
Y = _RNG.normal(size=(32, 3)).astype(np.float32)
LABELS = _RNG.integers(0, 3, 32)
IMAGES = _RNG.normal(size=(32, 8, 8, 3)).astype(np.float32)


def _configure(ipus: int = 1) -> ipu_strategy.IPUStrategy:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu_strategy.IPUStrategy()


def _mlp() -> Any:
    layers = keras.layers
    return keras.Sequential([keras.Input((12,)), layers.Dense(8, "relu"), layers.Dense(3)])


def _cnn() -> Any:
    layers = keras.layers
    convolution = layers.Conv2D(4, 3, activation="relu")
    inner = [convolution, layers.BatchNormalization(), layers.MaxPool2D(), layers.Flatten()]
    last = [layers.Dropout(0.3), layers.Dense(3, activation="softmax")]
    return keras.Sequential([keras.Input((8, 8, 3)), *inner, *last])


def _lstm() -> Any:
    layers = keras.layers
    reshaped = layers.Reshape((4, 3))
    return keras.Sequential([keras.Input((12,)), reshaped, layers.LSTM(5), layers.Dense(3)])


def _attention() -> Any:
    layers = keras.layers
    inputs = keras.Input((12,))
    steps = layers.Reshape((4, 3))(inputs)
    attended = layers.MultiHeadAttention(2, 4)(steps, steps)
    hidden = layers.LayerNormalization()(layers.Add()([steps, attended]))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(hidden)))


def _subclassed() -> Any:
    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = keras.layers.Dense(5, "relu")
            self.last = keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.last(self.hidden(x))

    return Model()


def _with_own_step() -> Any:
    class Model(keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    inputs = keras.Input((12,))
    return Model(inputs, keras.layers.Dense(3)(inputs))


def _both(make: Callable[[], Any], use: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Returns the results of using a model without a strategy, and in the scope of one."""
    found = []
    for scope in (contextlib.nullcontext(), _configure().scope()):
        keras.utils.set_random_seed(1)
        with scope:
            found.append(use(make()))
    return found[0], found[1]


def _assert_equal(found: Any, want: Any, atol: float = 0.0) -> None:
    tf.nest.assert_same_structure(found, want)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(want)):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("make", "x", "y", "loss", "metrics"),
    [
        (_mlp, X, Y, "mse", ["mae"]),
        (_cnn, IMAGES, LABELS, "sparse_categorical_crossentropy", ["accuracy"]),
        (_lstm, X, Y, "mse", ["mae"]),
        (_attention, X, Y, "mse", ["mae"]),
        (_subclassed, X, Y, "mse", ["mae"]),
        (_with_own_step, X, Y, "mse", []),
    ],
)
def test_models_train_evaluate_predict_as_keras_3(
    make: Callable[[], Any], x: Any, y: Any, loss: str, metrics: list[str]
) -> None:
    def use(model: Any) -> Any:
        options = {"metrics": metrics or None, "steps_per_execution": 2, "jit_compile": False}
        model.compile("adam", loss, **options)
        history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
        scores = model.evaluate(x, y, batch_size=8, verbose=0)
        return history, scores, model.predict(x, batch_size=8, verbose=0), model.get_weights()

    want, found = _both(make, use)
    _assert_equal(found, want, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"validation_split": 0.25},
        {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}},
        {"sample_weight": np.linspace(0, 1, 32)},
        {"batch_size": 12, "validation_data": (IMAGES[:10], LABELS[:10])},
        {"steps_per_epoch": 3},
    ],
    ids=lambda options: next(iter(options)),
)
def test_fit_options_mean_the_same_as_keras_3(options: dict[str, Any]) -> None:
    def use(model: Any) -> Any:
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        model.compile(
            optimizer,
            "sparse_categorical_crossentropy",
            weighted_metrics=["accuracy"],
            steps_per_execution=2,
            jit_compile=False,
        )
        settings = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0, **options}
        return model.fit(IMAGES, LABELS, **settings).history, model.get_weights()

    want, found = _both(_cnn, use)
    _assert_equal(found, want, atol=1e-6)


def test_inputs_and_outputs_have_names() -> None:
    def make() -> Any:
        a, b = keras.Input((12,), name="a"), keras.Input((12,), name="b")
        hidden = keras.layers.Concatenate()([a, b])
        return keras.Model({"a": a, "b": b}, {"c": keras.layers.Dense(3, name="c")(hidden)})

    def use(model: Any) -> Any:
        model.compile("sgd", {"c": "mse"}, jit_compile=False)
        data = {"a": X, "b": 2 * X}
        history = model.fit(data, {"c": Y}, epochs=2, shuffle=False, verbose=0).history
        return history, model.predict(data, verbose=0)

    want, found = _both(make, use)
    _assert_equal(found, want, atol=1e-6)


def test_single_batches_run() -> None:
    def use(model: Any) -> Any:
        model.compile("sgd", "mse", jit_compile=False)
        steps = [model.train_on_batch(X[:8], Y[:8]) for _ in range(2)]
        return steps, model.test_on_batch(X[:5], Y[:5]), model.predict_on_batch(X[:3])

    want, found = _both(_mlp, use)
    _assert_equal(found, want, atol=1e-6)


def test_generators_of_float64_run_until_they_end() -> None:
    def batches() -> Any:
        for start in range(0, 24, 8):
            yield X[start : start + 8].astype(np.float64), Y[start : start + 8]

    def use(model: Any) -> Any:
        model.compile("sgd", "mse", steps_per_execution=2, jit_compile=False)
        return model.fit(batches(), epochs=1, verbose=0).history, model.get_weights()

    with pytest.warns(UserWarning, match="ran out of data"):
        want, found = _both(_mlp, use)
    _assert_equal(found, want, atol=1e-6)


def test_model_continues_after_saving_and_loading(tmp_path: Path) -> None:
    def use(model: Any) -> Any:
        model.compile("adam", "mse", jit_compile=False)
        model.fit(X, Y, shuffle=False, verbose=0)
        path = tmp_path / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        loaded.fit(X, Y, shuffle=False, verbose=0)
        return loaded.get_weights()

    want, found = _both(_mlp, use)
    _assert_equal(found, want, atol=1e-6)


def test_executions_are_loop_launches_with_reported_layers(tmp_path: Path) -> None:
    with profiler.profile(str(tmp_path)), _configure().scope():
        model = _mlp()
        model.compile("sgd", "mse", steps_per_execution=4)
        model.fit(X, Y, batch_size=8, epochs=3, verbose=0)
    assert "launches: 3" in profiler.summary()
    (report,) = tmp_path.glob("*/report.json")
    assert re.search(r"sequential\w*/dense", report.read_text(encoding="utf-8"))


def test_batches_of_another_size_are_another_program_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with _configure().scope():
        model = _mlp()
        model.compile("sgd", "mse")
        model.fit(X[:20], Y[:20], batch_size=8, verbose=0)
    assert "has a program for 1 step(s) of data of [(4, 12), (4, 3)]" in caplog.text


def test_models_made_outside_scope_run_only_outside() -> None:
    model = _mlp()
    model.compile("sgd", "mse", jit_compile=False)
    strategy = _configure()
    with strategy.scope():
        pass
    model.fit(X, Y, verbose=0)
    assert "launches" not in profiler.summary()
    with strategy.scope(), pytest.raises(tf.errors.InvalidArgumentError, match="inside `with str"):
        model.fit(X, Y, verbose=0)


def test_several_replicas_are_refused() -> None:
    with _configure(2).scope():
        model = _mlp()
        model.compile("sgd", "mse")
        with pytest.raises(NotImplementedError, match="runs on one IPU.*has 2.*Keras 2"):
            model.fit(X, Y, verbose=0)


def test_eager_steps_are_refused() -> None:
    with _configure().scope():
        model = _mlp()
        model.compile("sgd", "mse", run_eagerly=True)
        with pytest.raises(RuntimeError, match="run_eagerly=True"):
            model.fit(X, Y, verbose=0)


def test_what_an_interrupted_execution_has_sent_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with _configure().scope():
        model = _mlp()
        want = model.predict(X, verbose=0)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(native_feeds.ArrayOutfeed, "take", interrupted)
            model.predict(2 * X, verbose=0)
        np.testing.assert_array_equal(model.predict(X, verbose=0), want)
