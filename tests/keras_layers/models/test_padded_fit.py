"""Training with data that are no multiple of the batch, where the model is set to pad them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu.keras_layers.models import programs
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, KINDS, Kind, X, Y

pytestmark = keras_models.KERAS_WARNINGS

_FUNCTIONAL = Kind(keras_models.functional)
ROWS = 22  # five batches of four, and one of two


def _momentum(rate: float = 0.05) -> Any:
    return tf.keras.optimizers.SGD(rate, momentum=0.9)


def _data(kind: Kind = _FUNCTIONAL, rows: int = ROWS, **arguments: Any) -> dict[str, Any]:
    x, y = tf.nest.map_structure(lambda array: array[:rows], (kind.x, kind.y))
    return {"x": x, "y": y, "batch_size": BATCH, **arguments}


def _fit_both(
    kind: Kind,
    data: dict[str, Any],
    *,
    replicas: int = 1,
    accumulated: int = 1,
    method: str = "sum",
    compiled: dict[str, Any] | None = None,
    **options: Any,
) -> tf.keras.Model:
    """Trains with stock Keras and on the IPU, and checks that both do the same.

    Stock Keras takes as a batch what an update is made of here.
    """
    group = replicas * accumulated
    summed = group if method == "sum" else replicas
    arguments = {"epochs": 2, "verbose": 0, "shuffle": False, **data}
    large = {**arguments}
    if "batch_size" in large:
        large["batch_size"] *= group
    eager = {**(compiled or {}), "run_eagerly": True}
    stock = kind.compiled(lambda: _momentum(0.05 * summed), **eager)
    expected = stock.fit(**large).history
    with keras_models.strategy(replicas).scope():
        model = kind.compiled(_momentum, **(compiled or {}))
        model.set_partial_batch_options(pad_in_fit=True)
        model.set_replication_options("MEAN")
        if accumulated > 1:
            model.set_gradient_accumulation_options(accumulated, method)
        found = model.fit(**arguments, **options).history
    assert list(found) == list(expected)
    keras_models.assert_close(found, expected, 2e-6)
    keras_models.assert_close(model.get_weights(), stock.get_weights(), 1e-6)
    # Momentum and the number of updates, too.
    keras_models.assert_close(
        keras_models.state(model.optimizer)[0], keras_models.state(stock.optimizer)[0], 0
    )
    return model


def _masked() -> tf.keras.Model:
    """A model whose output has a mask."""
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Embedding(5, 4, mask_zero=True), layers.Dense(1, "sigmoid")])


_MASKED = Kind(
    _masked,
    keras_models.labels(5, 24, 3),
    keras_models.labels(2, 24, 3, 1),
    "binary_crossentropy",
    ("accuracy",),
)


@pytest.mark.parametrize(
    "kind",
    [KINDS["several_outputs"], _MASKED],
    ids=["several_outputs", "masked"],
)
def test_weights_are_those_of_stock_keras(kind: Kind) -> None:
    _fit_both(kind, _data(kind), compiled={"steps_per_execution": 3})


@pytest.mark.parametrize(
    ("compiled", "arguments"),
    [
        ({"loss": tf.keras.losses.MeanSquaredError(reduction="sum")}, {}),
        ({"loss": lambda y, p: tf.sqrt(tf.reduce_mean((y - p) ** 2))}, {}),
        (
            {"weighted_metrics": ["mae"]},
            {"sample_weight": np.linspace(0, 1, ROWS, dtype=np.float32)},
        ),
        ({"steps_per_execution": 2}, {"steps_per_epoch": 4, "epochs": 3}),
    ],
    ids=["sum", "one_number", "sample_weight", "steps_per_epoch"],
)  # fmt: skip
def test_losses_weights_and_steps_equal_stock_keras(
    compiled: dict[str, Any], arguments: dict[str, Any]
) -> None:
    _fit_both(_FUNCTIONAL, _data(**arguments), compiled=compiled)


def test_class_weights_equal_stock_keras() -> None:
    kind = Kind(
        keras_models.functional,
        y=keras_models.labels(2, 24),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=("accuracy",),
    )
    _fit_both(kind, _data(kind, class_weight={0: 0.5, 1: 2.0}))


def test_less_than_a_batch_trains() -> None:
    _fit_both(_FUNCTIONAL, _data(rows=3))


@pytest.mark.parametrize(
    ("replicas", "accumulated", "method", "per_execution", "rows"),
    [
        (4, 1, "sum", 3, 22),
        (1, 4, "mean", 12, 18),
        (2, 2, "sum", 4, 14),
        (4, 2, "running_mean", 2, 3),
    ],
)
def test_all_rows_of_an_update_count_the_same(
    replicas: int, accumulated: int, method: str, per_execution: int, rows: int
) -> None:
    _fit_both(
        _FUNCTIONAL,
        _data(rows=rows, batch_size=2),
        replicas=replicas,
        accumulated=accumulated,
        method=method,
        compiled={"steps_per_execution": per_execution},
    )


def test_groups_that_epochs_do_not_end_with() -> None:
    """With a number of steps, an update may have the end of the data in its middle."""
    data = _data(rows=18, batch_size=2, steps_per_epoch=4, epochs=4)
    endless = np.concatenate([data["x"]] * 2), np.concatenate([data["y"]] * 2)
    stock = _FUNCTIONAL.compiled(lambda: _momentum(0.1), run_eagerly=True)
    stock.fit(*(array[:32] for array in endless), batch_size=4, epochs=1, shuffle=False, verbose=0)
    with keras_models.strategy(2).scope():
        model = _FUNCTIONAL.compiled(_momentum)
        model.set_partial_batch_options(True)
        model.fit(**data, shuffle=False, verbose=0)
    keras_models.assert_close(model.get_weights(), stock.get_weights(), 1e-6)


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda data: data.shuffle(22, seed=3, reshuffle_each_iteration=False).batch(5), None),
        (lambda data: data.batch(BATCH).repeat(), 8),
    ],
    ids=["known_size", "infinite"],
)
def test_datasets_with_and_without_steps_equal_stock_keras(
    make: Callable[[Any], tf.data.Dataset], steps: int | None
) -> None:
    data = make(tf.data.Dataset.from_tensor_slices((X[:ROWS], Y[:ROWS])))
    _fit_both(_FUNCTIONAL, {"x": data, "steps_per_epoch": steps})


def test_shuffled_data_are_padded_at_end_of_epoch() -> None:
    """The partial batch is the last of each epoch, with any rows."""
    model = _FUNCTIONAL.compiled
    tf.random.set_seed(5)
    stock = model(_momentum, run_eagerly=True)
    tf.random.set_seed(5)
    stock.fit(**_data(epochs=3, verbose=0))
    with keras_models.strategy().scope():
        ours = model(_momentum)
        ours.set_partial_batch_options(pad_in_fit=True)
        tf.random.set_seed(5)
        ours.fit(**_data(epochs=3, verbose=0))
    keras_models.assert_close(ours.get_weights(), stock.get_weights(), 1e-6)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_callbacks_see_real_steps_only(asynchronous: bool) -> None:
    recorder = keras_models.Recorder()
    with keras_models.strategy().scope():
        # Six batches, and two more to fill the second update.
        model = _FUNCTIONAL.compiled(_momentum, steps_per_execution=4)
        model.set_partial_batch_options(pad_in_fit=True)
        model.set_gradient_accumulation_options(4)
        model.set_asynchronous_callbacks(asynchronous)
        history = model.fit(**_data(verbose=0), callbacks=[recorder]).history
        assert int(model._train_counter) == 6
        assert recorder.params["steps"] == 6
    ends = [call[1] for call in recorder.calls if call[0] == "on_train_batch_end"]
    assert ends == ([0, 1, 2, 3, 4, 5] if asynchronous else [3, 5])
    last = recorder.logs("on_train_batch_end")[-1]
    assert {name: [value] for name, value in last.items()} == history


def test_steps_have_to_divide_the_updates() -> None:
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled(_momentum, steps_per_execution=8)
        model.set_partial_batch_options(pad_in_fit=True)
        model.set_gradient_accumulation_options(4)
        with pytest.raises(ValueError, match=r"\(8\) must be a divisor .* \(12\)"):
            model.fit(**_data(batch_size=2), verbose=0)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list that warnings are appended to."""
    messages: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: messages.append(text % args))
    return messages


def test_layers_that_see_whole_batches_are_named_once(warnings: list[str]) -> None:
    class Model(keras_models.WithOwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.norm = tf.keras.layers.BatchNormalization(name="norm")
            self.frozen = tf.keras.layers.BatchNormalization(name="frozen", trainable=False)

        def call(self, inputs: Any) -> Any:
            return self.norm(self.frozen(super().call(inputs)))

    with keras_models.strategy().scope():
        model = Kind(Model).compiled()
        model.set_partial_batch_options(pad_in_fit=True)
        model.fit(**_data(), verbose=0)
        model.fit(**_data(rows=21), verbose=0)
    (message,) = (text for text in warnings if "pads partial batches" in text)
    names = message.partition("rows, and ")[2].partition(" of the model ")[0].split(", ")
    assert names == ["norm", model.name, model.outer.name]


def test_no_warning_without_such_layers(warnings: list[str]) -> None:
    with keras_models.strategy().scope():
        for kind, rows in ((_FUNCTIONAL, ROWS), (KINDS["subclass"], 24)):
            model = kind.compiled()
            model.set_partial_batch_options(pad_in_fit=True)
            model.fit(**_data(rows=rows), verbose=0)
    assert [text for text in warnings if "pads partial batches" in text] == []


@pytest.mark.parametrize("data", ["arrays", "dataset"])
def test_the_error_without_the_option_names_it(data: str) -> None:
    advice = r"model\.set_partial_batch_options\(pad_in_fit=True\)"
    arrays, batches = _data(), tf.data.Dataset.from_tensor_slices((X, Y)).batch(5)
    with keras_models.strategy().scope():
        model = _FUNCTIONAL.compiled()
        if data == "arrays":
            with pytest.raises(ValueError, match="has a partial batch of 2 .*" + advice):
                model.fit(**arrays)
        else:
            with pytest.raises(ValueError, match="drop_remainder=True.*" + advice):
                model.fit(batches)


def test_sum_losses_are_refused_for_unequal_rows() -> None:
    with keras_models.strategy(2).scope():
        loss = tf.keras.losses.MeanSquaredError(reduction="sum", name="total")
        model = _FUNCTIONAL.compiled(loss=loss)
        model.set_partial_batch_options(pad_in_fit=True)
        with pytest.raises(ValueError, match="the loss total with reduction='sum'"):
            model.fit(**_data(), verbose=0)


def test_outputs_must_have_the_rows() -> None:
    def build() -> tf.keras.Model:
        x = tf.keras.Input((3,))
        return tf.keras.Model(x, tf.reshape(tf.keras.layers.Dense(2)(x), [-1, 1]))

    with keras_models.strategy().scope():
        model = Kind(build).compiled(metrics=None, loss=lambda y, p: tf.reduce_mean(p))
        model.set_partial_batch_options(pad_in_fit=True)
        with pytest.raises(ValueError, match=r"output of the model has the shape \(8, 1\)"):
            model.fit(**_data(), verbose=0)


def test_a_step_of_the_model_is_refused() -> None:
    class Own(keras_models.FunctionalSubclass):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    with keras_models.strategy().scope():
        model = Kind(Own).compiled()
        assert callable(programs.train_step(model))
        with pytest.raises(RuntimeError, match="`train_step` .* has been overridden.*padding"):
            programs.train_step(model, sizes=(4, 2))


def test_float16_with_a_scaled_loss_equals_stock_keras() -> None:
    def scaled() -> Any:
        return tf.keras.mixed_precision.LossScaleOptimizer(
            _momentum(), dynamic=False, initial_scale=128
        )

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        stock = _FUNCTIONAL.compiled(scaled, run_eagerly=True)
        stock.fit(**_data(shuffle=False, verbose=0))
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled(scaled)
            model.set_partial_batch_options(pad_in_fit=True)
            model.fit(**_data(shuffle=False, verbose=0))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    keras_models.assert_close(model.get_weights(), stock.get_weights(), 2e-3)


def test_the_option_is_part_of_a_model() -> None:
    with keras_models.strategy().scope():
        model = keras_models.functional()
        assert "pad_in_fit" not in model.get_config()
        model.set_partial_batch_options(pad_in_fit=True)
        clone = tf.keras.models.clone_model(model)
        assert clone._ipu_options.pad_in_fit
        made = type(model).from_config(model.get_config())
        assert made._ipu_options.pad_in_fit
        made.set_partial_batch_options()
        assert not made._ipu_options.pad_in_fit
