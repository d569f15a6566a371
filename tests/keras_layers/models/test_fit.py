"""Training on the IPU, against `fit` of stock Keras: history, weights and callbacks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops.pipelining_ops import PipelineSchedule
from tests.support.checkout.versions import needs_tensorflow
from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    KINDS,
    MLP,
    SAMPLES,
    Kind,
    X,
    Y,
    assert_close,
    assert_equal,
    assert_same_weights,
    dataset,
    train,
    train_both,
)

pytestmark = keras_models.KERAS_WARNINGS

_new = tf.keras.optimizers
_old = tf.keras.optimizers.legacy

_schedule = _new.schedules.ExponentialDecay(0.1, 2, 0.5)

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: _new.SGD(0.1, clipvalue=0.1),
    "momentum": lambda: _new.SGD(0.1, momentum=0.9, nesterov=True, global_clipnorm=0.1),
    "adam": lambda: _new.Adam(0.1, amsgrad=True),
    "rmsprop": lambda: _new.RMSprop(_schedule, momentum=0.5, centered=True),
    "adamw_ema": lambda: _new.AdamW(0.1, use_ema=True, ema_overwrite_frequency=3),
    "legacy_sgd": lambda: _old.SGD(0.1, clipnorm=0.1),
    "legacy_momentum": lambda: _old.SGD(0.1, momentum=0.9, decay=0.1),
    "legacy_adam": lambda: _old.Adam(0.1),
    "legacy_rmsprop": lambda: _old.RMSprop(_schedule, momentum=0.5, centered=True),
}

# As little to trace as there can be.
_LINEAR = Kind(lambda: tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)]))


@pytest.mark.parametrize("name", KINDS)
def test_all_kinds_of_models_train_as_stock_keras(name: str) -> None:
    train_both(KINDS[name], optimizer="adam", compile_with={"steps_per_execution": 3})


def test_stock_keras_with_graphs_gives_the_same() -> None:
    assert_equal(
        train(KINDS["functional"], keras_models.strategy().scope()), train(KINDS["functional"])
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_all_optimizers_train_as_in_stock_keras(name: str) -> None:
    train_both(_LINEAR, optimizer=OPTIMIZERS[name], compile_with={"steps_per_execution": 6})


@pytest.mark.parametrize("per_execution", [1, 2, 6])
def test_any_number_of_steps_is_one_execution(per_execution: int) -> None:
    found, _ = train_both(
        KINDS["functional"], compile_with={"steps_per_execution": per_execution}, epochs=3
    )
    ends = [call[1] for call in found.calls if call[0] == "on_train_batch_end"]
    assert ends == 3 * list(range(per_execution - 1, 6, per_execution))


def _weights(*shape: int) -> np.ndarray:
    return np.linspace(0.1, 2.0, int(np.prod(shape)), dtype=np.float32).reshape(shape)


_LABELS = keras_models.labels(2, SAMPLES)
_CLASSES = Kind(
    keras_models.sequential, y=_LABELS, loss=tf.keras.losses.SparseCategoricalCrossentropy(True)
)


@pytest.mark.parametrize(
    ("kind", "compiled", "fit"),
    [
        (MLP, {"weighted_metrics": ["mse"]}, {"sample_weight": _weights(SAMPLES)}),
        (MLP, {}, {"sample_weight": _weights(SAMPLES), "validation_split": 0.5}),
        (_CLASSES, {"metrics": ["accuracy"]}, {"class_weight": {0: 0.3, 1: 2.0}}),
        (
            _CLASSES,
            {"weighted_metrics": ["accuracy"]},
            {"class_weight": {0: 0.3, 1: 2.0}, "sample_weight": _weights(SAMPLES)},
        ),
        (
            KINDS["several_outputs"],
            {},
            {"sample_weight": {"value": _weights(SAMPLES), "kind": _weights(SAMPLES)}},
        ),
    ],
    ids=["weighted_metrics", "validation_split", "class", "class_and_sample", "by_output"],
)
def test_sample_weights_equal_stock_keras(
    kind: Kind, compiled: dict[str, Any], fit: dict[str, Any]
) -> None:
    train_both(kind, compile_with={"steps_per_execution": 3, **compiled}, **fit)


@pytest.mark.parametrize("shuffle", [True, "batch"])
def test_data_are_shuffled_as_in_stock_keras(shuffle: Any) -> None:
    found, _ = train_both(MLP, shuffle=shuffle, epochs=3, compile_with={"steps_per_execution": 3})
    ordered = train(MLP, epochs=3)
    assert not np.allclose(found.history["loss"], ordered.history["loss"])


def test_datasets_that_shuffle_have_order_of_stock_keras() -> None:
    # Each iterator has another order, so Keras's number of iterators counts.
    def shuffled() -> tf.data.Dataset:
        return dataset(batch_size=1).unbatch().shuffle(SAMPLES, seed=1).batch(BATCH, True)

    train_both(
        MLP,
        epochs=3,
        data=lambda: {"x": shuffled(), "validation_data": shuffled().take(3)},
        compile_with={"steps_per_execution": 3},
    )


@pytest.mark.parametrize(
    "validation",
    [
        {"validation_data": (X[:8], Y[:8])},
        {"validation_data": [X[:8], Y[:8]], "validation_batch_size": 2},
        {"validation_data": (X[:8], Y[:8], _weights(8)), "validation_freq": 2},
        {"validation_data": (X, Y), "validation_steps": 3, "validation_freq": [1, 3]},
    ],
    ids=["data", "batch_size", "every_second", "steps"],
)
def test_validation_equals_stock_keras(validation: dict[str, Any]) -> None:
    found, _ = train_both(_LINEAR, epochs=3, **validation)
    assert "val_mae" in found.history


def test_validation_with_a_dataset_equals_stock_keras() -> None:
    train_both(
        MLP,
        data=lambda: {"x": dataset(), "validation_data": dataset(X[:8], Y[:8])},
        compile_with={"steps_per_execution": 2},
    )


@pytest.mark.parametrize("frequency", ["2", 2.0])
def test_validation_freq_must_be_integer_or_list(frequency: Any) -> None:
    with pytest.raises(ValueError, match="validation_freq"):
        train(
            MLP,
            keras_models.strategy().scope(),
            validation_data=(X, Y),
            validation_freq=frequency,
        )


_NO_EPOCHS = pytest.param(0, 0, marks=needs_tensorflow("<2.17", "Keras refuses epochs=0"))


@pytest.mark.parametrize(("initial", "epochs"), [(2, 4), (2, 2), (3, 2), _NO_EPOCHS])
def test_epochs_count_from_initial_epoch(initial: int, epochs: int) -> None:
    found, _ = train_both(KINDS["functional"], initial_epoch=initial, epochs=epochs)
    begun = [call[1] for call in found.calls if call[0] == "on_epoch_begin"]
    assert begun == list(range(initial, epochs))


def test_epochs_of_other_length_continue_where_stopped() -> None:
    # 4 batches of 6: the third epoch takes the last two of the second round, and two more.
    train_both(
        MLP,
        data=lambda: {"x": dataset(epochs=None)},
        steps_per_epoch=4,
        epochs=3,
        compile_with={"steps_per_execution": 2},
    )


def test_shorter_epochs_in_memory_equal_stock_keras() -> None:
    train_both(MLP, steps_per_epoch=4, epochs=3, compile_with={"steps_per_execution": 2})


def test_fit_goes_on_where_the_last_one_ended() -> None:
    expected = train(MLP)
    expected.model.fit(X, Y, BATCH, epochs=2, verbose=0, shuffle=False)
    with keras_models.strategy().scope() as strategy:
        found = train(MLP, strategy.scope()).model
        compiled = keras_models.compilations()
        found.fit(X, Y, BATCH, epochs=2, verbose=0, shuffle=False)
    assert_same_weights(found, expected.model)
    assert keras_models.compilations() == compiled


def test_layers_that_are_not_trained() -> None:
    def build() -> tf.keras.Model:
        model = keras_models.functional()
        model.layers[1].trainable = False
        return model

    found, _ = train_both(Kind(build))
    before = Kind(build).compiled().layers[1].get_weights()
    assert_close(found.model.layers[1].get_weights(), before)


def test_trainable_changes_with_compile() -> None:
    def fit(model: tf.keras.Model) -> tf.keras.Model:
        model.fit(X, Y, BATCH, verbose=0, shuffle=False)
        model.layers[1].trainable = False
        model.compile("sgd", "mse")
        model.fit(X, Y, BATCH, verbose=0, shuffle=False)
        return model

    expected = fit(KINDS["functional"].compiled())
    with keras_models.strategy().scope():
        found = fit(KINDS["functional"].compiled())
    assert_same_weights(found, expected)


def test_a_model_without_a_compiled_loss_trains() -> None:
    train_both(KINDS["own_loss"], compile_with={"loss": None, "metrics": []})


def test_a_loss_for_targets_that_are_inputs() -> None:
    def build() -> tf.keras.Model:
        x, y = tf.keras.Input((3,)), tf.keras.Input((2,))
        prediction = tf.keras.layers.Dense(2)(x)
        model = tf.keras.Model([x, y], prediction)
        model.add_loss(tf.reduce_mean((prediction - y) ** 2))
        return model

    train_both(Kind(build, [X, Y], None, None, None))


def test_compute_loss_and_metrics_of_model_are_called() -> None:
    class Own(keras_models.Subclass):
        def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
            return super().compute_loss(x, y, y_pred, sample_weight) + tf.reduce_mean(x**2)

        def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
            logs = super().compute_metrics(x, y, y_pred, sample_weight)
            return {**logs, "largest": tf.reduce_max(y_pred)}

    train_both(Kind(Own))


def test_mixed_precision_trains_as_stock_keras() -> None:
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        optimizer = lambda: tf.keras.mixed_precision.LossScaleOptimizer(  # noqa: E731
            _new.SGD(0.1), dynamic=True, initial_scale=256.0, dynamic_growth_steps=5
        )
        expected = train(MLP, optimizer=optimizer, epochs=4)
        found = train(MLP, keras_models.strategy().scope(), optimizer=optimizer, epochs=4)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert_close(found.history, expected.history, 5e-3)
    assert_close(found.model.get_weights(), expected.model.get_weights(), 5e-3)
    assert found.model.optimizer.loss_scale.numpy() == expected.model.optimizer.loss_scale.numpy()


def test_batches_by_hand_work_as_in_stock_keras() -> None:
    def run(model: tf.keras.Model) -> list[Any]:
        weights = _weights(BATCH)
        return [
            model.train_on_batch(X[:4], Y[:4]),
            model.train_on_batch(X[4:8], Y[4:8], sample_weight=weights, return_dict=True),
            model.train_on_batch(X[:4], Y[:4], reset_metrics=False),
            model.test_on_batch(X[:4], Y[:4], sample_weight=weights),
            model.predict_on_batch(X[:5]),
            model.get_weights(),
        ]

    expected = run(MLP.compiled())
    with keras_models.strategy().scope():
        model = MLP.compiled()
        found = run(model)
        assert_close(found, expected)
        # And along with programs.
        history = model.fit(X, Y, BATCH, verbose=0, shuffle=False).history
        assert_close(model.train_on_batch(X[:4], Y[:4]), model.test_on_batch(X[:4], Y[:4]), 1.0)
    assert len(history["loss"]) == 1


def test_several_models_train_in_one_process() -> None:
    kinds = (KINDS["functional"], KINDS["functional_subclass"])
    expected = [train(kind, compile_with={"run_eagerly": True}).model for kind in kinds]
    with keras_models.strategy().scope():
        models = [kind.compiled() for kind in kinds]
        for model in 2 * models:
            model.fit(X, Y, BATCH, verbose=0, shuffle=False)
    for mine, theirs in zip(models, expected):
        assert_same_weights(mine, theirs)


def test_models_train_on_two_devices() -> None:
    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    config.configure_ipu_system()
    expected = train(MLP)
    found = [
        train(MLP, ipu_strategy.IPUStrategy(f"/device:IPU:{ordinal}").scope()) for ordinal in (0, 1)
    ]
    assert_same_weights(found[0].model, expected.model)
    # The other has two replicas.
    assert found[1].calls[-2][0] == "on_epoch_end"
    assert len(found[1].calls) < len(found[0].calls)
    assert all("IPU:1" in weight.device for weight in found[1].model.weights)


def test_the_device_may_be_configured_anew_between_calls() -> None:
    expected = train(MLP).model
    with keras_models.strategy().scope() as strategy:
        model = MLP.compiled()
        model.fit(X, Y, BATCH, verbose=0, shuffle=False)
    keras_models.strategy()
    with strategy.scope():
        model.fit(X, Y, BATCH, verbose=0, shuffle=False)
        assert_same_weights(model, expected)
        predicted = model.predict(X, BATCH, verbose=0)
    assert_close(predicted, expected.predict(X, BATCH, verbose=0))


@pytest.mark.parametrize("kind", ["sequential", "subclass"])
def test_fit_variables_have_names_of_stock_keras(kind: str) -> None:
    def names_after_fit(scope: Any) -> list[str]:
        tf.keras.backend.clear_session()  # which numbers models from the start
        with scope:
            model = KINDS[kind].compiled(optimizer="adam", steps_per_execution=2)
            model.fit(X[:8], Y[:8], BATCH, verbose=0)
        return [variable.name for variable in (*model.variables, *model.optimizer.variables)]

    strategy = keras_models.strategy()
    expected = names_after_fit(contextlib.nullcontext())
    assert names_after_fit(strategy.scope()) == expected


def test_fit_outside_scope_uses_strategy_of_model() -> None:
    expected = train(MLP)
    with keras_models.strategy().scope():
        model = MLP.compiled()
    model.fit(X, Y, BATCH, epochs=2, verbose=0, shuffle=False)
    assert_same_weights(model, expected.model)


def test_the_progress_bar_moves_by_executions(capsys: pytest.CaptureFixture[str]) -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled(steps_per_execution=2)
        model.fit(X, Y, BATCH, verbose=1)
    shown = capsys.readouterr().out
    assert "Epoch 1/1" not in shown
    # How often it is drawn depends on the time that has passed.
    assert "2/6" in shown and "6/6" in shown
    assert not any(f"{step}/6" in shown for step in (1, 3, 5))


def test_verbose_2_prints_one_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with keras_models.strategy().scope():
        MLP.compiled().fit(X, Y, BATCH, epochs=2, verbose=2)
    assert capsys.readouterr().out.count("loss:") == 2


def test_model_that_was_built_for_float64_takes_float32() -> None:
    """It casts its inputs to float64, and its layers cast them back."""
    stock = MLP.compiled()
    stock(X[:BATCH])
    expected = [stock.train_on_batch(X[:BATCH], Y[:BATCH]), stock.predict_on_batch(X[:BATCH])]
    with keras_models.strategy().scope():
        model = MLP.compiled()
        model(X[:BATCH].astype(np.float64))
        assert model.inputs[0].dtype == tf.float64
        found = [model.train_on_batch(X[:BATCH], Y[:BATCH]), model.predict_on_batch(X[:BATCH])]
    assert_close(found, expected)


@pytest.mark.parametrize("stages", [None, [0, 1]])
def test_labels_of_rank_one_meet_squeezed_outputs(stages: list[int] | None) -> None:
    """Outputs [batch, 5, 1] are 5 logits for each label, as in Keras 2.6."""
    x, y = keras_models.array(SAMPLES, 5, 3), keras_models.labels(5, SAMPLES)
    kind = Kind(
        lambda: tf.keras.Sequential([tf.keras.Input((5, 3)), tf.keras.layers.Dense(1)]),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=("accuracy", "sparse_categorical_accuracy"),
    )
    if stages:
        kind = kind._replace(
            build=lambda: tf.keras.Sequential(
                [tf.keras.Input((5, 3)), *map(tf.keras.layers.Dense, (4, 1))]
            )
        )
    stock = kind.compiled()
    expected = stock.fit(x, y[:, np.newaxis], BATCH, verbose=0, shuffle=False).history
    logits = np.squeeze(stock.predict(x, BATCH, verbose=0), -1)
    entropies = np.log(np.exp(logits).sum(1)) - logits[np.arange(SAMPLES), y]
    with keras_models.strategy(2 if stages else 1).scope():
        model = kind.compiled()
        if stages:
            model.set_pipeline_stage_assignment(stages)
            model.set_pipelining_options(
                gradient_accumulation_steps_per_replica=1,
                pipeline_schedule=PipelineSchedule.Sequential,
            )
        found = model.fit(x, y, BATCH, verbose=0, shuffle=False).history
        values = model.evaluate(x, y, BATCH, verbose=0)
    assert_close(found, expected)
    assert_close(values[::2], [entropies.mean(), (logits.argmax(1) == y).mean()])
