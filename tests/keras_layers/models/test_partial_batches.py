"""Prediction and evaluation of data that are no multiple of the batch, against stock Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, KINDS, Kind, Recorder, X, Y, array, labels

pytestmark = keras_models.KERAS_WARNINGS

_layers = tf.keras.layers
_FUNCTIONAL = Kind(keras_models.functional)
_TWO_INPUTS = KINDS["several_outputs"]
ROWS = 22  # five batches of four, and one of two


def first(rows: int, values: Any) -> Any:
    """Returns the first rows of each array."""
    return tf.nest.map_structure(lambda one: one[:rows], values)


def batches(rows: int = ROWS, size: int = BATCH) -> tf.data.Dataset:
    """Returns a dataset whose last batch may have fewer rows."""
    return tf.data.Dataset.from_tensor_slices((X[:rows], Y[:rows])).batch(size)


def close(found: Any, expected: Any) -> None:
    """Checks that numbers differ by rounding only."""
    keras_models.assert_close(found, expected, 1e-6)


def _predict(
    kind: Kind, arguments: dict[str, Any], replicas: int = 1, **compiled: Any
) -> tf.keras.Model:
    """Predicts with stock Keras and on the IPU, and checks that both give the same."""
    arguments = {"verbose": 0, **arguments}
    expected = kind.compiled(run_eagerly=True).predict(**arguments)
    with keras_models.strategy(replicas).scope():
        model = kind.compiled(**compiled)
        found = model.predict(**arguments)
    tf.nest.assert_same_structure(found, expected)
    for mine, theirs in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    close(found, expected)
    return model


def _evaluate(
    kind: Kind,
    arguments: dict[str, Any],
    replicas: int = 1,
    compiled: Callable[[], dict[str, Any]] = dict,
) -> tuple[tf.keras.Model, dict[str, Any]]:
    """Evaluates with stock Keras and on the IPU, and checks that both give the same.

    What the model is compiled with is made twice: the second time in the scope.
    """
    arguments = {"verbose": 0, "return_dict": True, **arguments}
    expected = kind.compiled(**{**compiled(), "run_eagerly": True}).evaluate(**arguments)
    with keras_models.strategy(replicas).scope():
        model = kind.compiled(**{"steps_per_execution": 2, **compiled()})
        model.set_replication_options("MEAN")
        found = model.evaluate(**arguments)
    assert list(found) == list(expected)
    close(found, expected)
    return model, found


class TestPredict:
    """`predict`."""

    @pytest.mark.parametrize("replicas", [1, 2, 4])
    def test_any_number_of_rows_is_predicted(self, replicas: int) -> None:
        stock = _FUNCTIONAL.compiled(run_eagerly=True)
        with keras_models.strategy(replicas).scope():
            model = _FUNCTIONAL.compiled(steps_per_execution=2)
            for rows in (1, 3, 7, 17, ROWS):
                found = model.predict(X[:rows], BATCH, verbose=0)
                assert found.shape == (rows, 2)
                np.testing.assert_allclose(found, stock(X[:rows]), 1e-6, 1e-6)

    def test_default_batch_size_needs_one_program(self) -> None:
        stock = _FUNCTIONAL.compiled(run_eagerly=True)
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled()
            for rows in (1, 7, 24):
                close(model.predict(X[:rows], verbose=0), stock(X[:rows]).numpy())
            model.predict(np.repeat(X, 4, 0), verbose=0)
            assert keras_models.compilations() == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            {"x": first(7, _TWO_INPUTS.x)},
            {"x": first(7, _TWO_INPUTS.x), "steps": 2},
            {"x": first(7, _TWO_INPUTS.x), "batch_size": 2, "steps": 3},
            {"x": tf.data.Dataset.from_tensor_slices((first(7, _TWO_INPUTS.x),)).batch(4)},
        ],
        ids=["dict", "steps", "before_the_partial_batch", "dataset"],
    )
    def test_several_inputs_and_outputs_are_predicted(self, arguments: dict[str, Any]) -> None:
        kind = Kind(_TWO_INPUTS.build, loss=None, metrics=None)
        _predict(kind, arguments, 2, steps_per_execution=3)

    @pytest.mark.parametrize(
        "outputs",
        [
            lambda y: [y, (y, {"b": 2.0 * y, "a": tf.stack([y, y], 1)})],
            lambda y: {"b": tf.argmax(y, -1), "a": (y > 0.0, tf.reduce_sum(y, -1))},
        ],
        ids=["lists", "dicts"],
    )
    def test_nested_outputs_keep_their_structure(self, outputs: Callable[[Any], Any]) -> None:
        _predict(_with_outputs(outputs), {"x": X[:7], "batch_size": 2}, 2, steps_per_execution=3)

    @pytest.mark.parametrize(
        "outputs",
        [
            lambda y: tf.reduce_mean(y),
            lambda y: tf.reduce_mean(y, 0, keepdims=True),
            lambda y: tf.reshape(y, [-1, 1]),
        ],
        ids=["scalar", "one_row", "two_for_each"],
    )
    def test_outputs_without_rows_are_those_of_whole_batches(
        self, outputs: Callable[[Any], Any]
    ) -> None:
        kind = _with_outputs(outputs)
        # Nothing but batches that are whole, or nothing but padding.
        model = _predict(kind, {"x": X[:20], "batch_size": 4}, 2, steps_per_execution=2)
        with model.distribute_strategy.scope():
            with pytest.raises(ValueError, match="partial batch of 2 instead of 4 rows"):
                model.predict(X[:18], 4, verbose=0)

    @pytest.mark.parametrize("replicas", [2, 4])
    def test_no_batch_is_left_out(self, replicas: int) -> None:
        whole = batches(20).take(5)
        for data in (whole, whole.repeat().map(lambda x, y: (tf.ensure_shape(x, [4, 3]), y))):
            _predict(_FUNCTIONAL, {"x": data, "steps": 5}, replicas, steps_per_execution=2)

    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_callbacks_get_real_rows(self, asynchronous: bool) -> None:
        mine, theirs = Recorder(), Recorder()
        per_execution = 1 if asynchronous else 4
        stock = _FUNCTIONAL.compiled(steps_per_execution=per_execution, run_eagerly=True)
        stock.predict(X[:ROWS], BATCH, verbose=0, callbacks=[theirs])
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled(steps_per_execution=4)
            model.set_asynchronous_callbacks(asynchronous)
            model.predict(X[:ROWS], BATCH, verbose=0, callbacks=[mine])
            assert int(model._predict_counter) == 6
        _assert_same_calls(mine, theirs)

    def test_asynchronous_callbacks_see_each_replica(self) -> None:
        recorder = Recorder()
        with keras_models.strategy(4).scope():
            model = _FUNCTIONAL.compiled(steps_per_execution=2)
            model.set_asynchronous_callbacks(True)
            found = model.predict(X[:ROWS], BATCH, verbose=0, callbacks=[recorder])
        assert [call[1] for call in recorder.calls if call[0] == "on_predict_batch_end"] == [
            0, 0, 0, 0, 1, 1
        ]  # fmt: skip
        sent = [logs["outputs"] for logs in recorder.logs("on_predict_batch_end")]
        assert [len(rows) for rows in sent] == [4, 4, 4, 4, 4, 2]
        np.testing.assert_array_equal(np.concatenate(sent), found)

    def test_a_predict_step_of_the_model_is_called(self) -> None:
        class Own(keras_models.FunctionalSubclass):
            def predict_step(self, data: Any) -> Any:
                return {"scaled": 2.0 * self(data, training=False), "given": data}

        _predict(Kind(Own), {"x": X[:7], "batch_size": 4})

    def test_padding_has_values_that_rows_have(self) -> None:
        """Nothing happens in it that does not happen in real rows, such as a division by zero."""
        config = IPUConfig()
        config.auto_select_ipus = 2
        config.floating_point_behaviour.div0 = True
        config.configure_ipu_system()
        rows = np.abs(X[:3]) + 1.0
        with ipu_strategy.IPUStrategy().scope():
            x = tf.keras.Input((3,))
            model = tf.keras.Model(x, 1.0 / x)
            close(model.predict(rows, 4, verbose=0), 1.0 / rows)
            with pytest.raises(tf.errors.OpError, match="(?i)div"):
                model.predict(0.0 * rows, 4, verbose=0)


def _with_outputs(make: Callable[[Any], Any]) -> Kind:
    """Returns models that use a layer's result in different ways."""

    class Model(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = _layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return make(self.dense(inputs))

    return Kind(Model, loss=None, metrics=None)


def _assert_same_calls(mine: Recorder, theirs: Recorder) -> None:
    assert [call[:-1] for call in mine.calls] == [call[:-1] for call in theirs.calls]
    for one, other in zip(mine.calls, theirs.calls):
        close(one[-1], other[-1])


def _largest(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """A metric that is one number for a batch."""
    return tf.reduce_max(tf.abs(y_true - y_pred))


class _Rows(tf.keras.metrics.Metric):
    """Counts rows, without their weights."""

    def __init__(self) -> None:
        super().__init__(name="rows")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return self.count.assign_add(tf.cast(tf.shape(y_true)[0], tf.float32))

    def result(self) -> Any:
        return self.count


def _batch_loss(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """A loss that is one number for a batch."""
    return tf.sqrt(tf.reduce_mean((y_true - y_pred) ** 2))


def _coupled() -> tf.keras.Model:
    """A model whose rows depend on each other."""
    x = tf.keras.Input((3,))
    return tf.keras.Model(x, _layers.Dense(2)(x - tf.reduce_mean(x, 0, keepdims=True)))


_SUM = tf.keras.losses.MeanSquaredError(reduction="sum")
_WEIGHTS: dict[str, Any] = {"sample_weight": np.linspace(0, 1, ROWS, dtype=np.float32)}
_DATA: dict[str, Any] = {"x": X[:ROWS], "y": Y[:ROWS], "batch_size": BATCH}


class TestEvaluate:
    """`evaluate`."""

    @pytest.mark.parametrize("name", ["several_outputs", "text", "own_loss"])
    def test_all_models_evaluate_any_number_of_rows(self, name: str) -> None:
        kind = KINDS[name]
        arguments = {**_DATA, "x": first(ROWS, kind.x), "y": first(ROWS, kind.y)}
        _evaluate(kind, arguments, compiled=lambda: {"steps_per_execution": 4})

    @pytest.mark.parametrize(
        ("kind", "arguments", "compiled"),
        [
            (_FUNCTIONAL, {}, lambda: {"metrics": [_largest, _Rows(), "cosine_similarity"]}),
            (_FUNCTIONAL, {}, lambda: {"loss": _batch_loss}),
            (_FUNCTIONAL, {}, lambda: {"loss": _SUM}),
            (_FUNCTIONAL, {}, lambda: {"loss": None}),
            (_FUNCTIONAL, _WEIGHTS, lambda: {"loss": _SUM, "weighted_metrics": ["mae", _Rows()]}),
            (Kind(_coupled), {}, dict),
        ],
        ids=["metrics", "own_loss", "sum", "no_loss", "sample_weight", "dependent_rows"],
    )
    def test_losses_and_metrics_ignore_padding(
        self, kind: Kind, arguments: dict[str, Any], compiled: Callable[[], dict[str, Any]]
    ) -> None:
        _evaluate(kind, {**_DATA, **arguments}, compiled=compiled)

    def test_metrics_of_classes_and_masks_equal_stock_keras(self) -> None:
        def build() -> tf.keras.Model:
            return tf.keras.Sequential(
                [_layers.Embedding(11, 4, mask_zero=True), _layers.Dense(1, "sigmoid")]
            )

        kind = Kind(build, labels(11, ROWS, 3), labels(2, ROWS, 3, 1), "binary_crossentropy")
        names = ["accuracy", "AUC", "Precision", "Recall"]
        arguments = {**_DATA, "x": kind.x, "y": kind.y}
        _evaluate(
            kind, arguments, compiled=lambda: {"metrics": names, "weighted_metrics": ["accuracy"]}
        )

    @pytest.mark.parametrize(("replicas", "rows"), [(2, 1), (2, 9), (4, 3), (4, ROWS)])
    def test_results_on_replicas_are_those_of_their_shares(self, replicas: int, rows: int) -> None:
        kind = _FUNCTIONAL
        data = {**_DATA, "x": X[:rows], "y": Y[:rows]}
        model, _ = _evaluate(kind, data, replicas)
        stock = kind.compiled(run_eagerly=True)
        shares = [
            np.concatenate([np.arange(rows)[i : i + BATCH] for i in starts])
            for starts in (range(r * BATCH, rows, replicas * BATCH) for r in range(replicas))
            if len(starts)
        ]
        each = [stock.evaluate(X[share], Y[share], BATCH, verbose=0) for share in shares]
        with model.distribute_strategy.scope():
            for method, expected in (
                ("LIST", np.transpose(each).tolist()),
                ("NONE", each[-1]),
                ("SUM", np.sum(each, 0).tolist()),
            ):
                model.set_replication_options(method)
                close(model.evaluate(**data, verbose=0), expected)

    @pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
    def test_callbacks_see_the_batches_of_stock_keras(self, asynchronous: bool) -> None:
        mine, theirs = Recorder(), Recorder()
        per_execution = 1 if asynchronous else 4
        stock = _FUNCTIONAL.compiled(steps_per_execution=per_execution, run_eagerly=True)
        stock.evaluate(**_DATA, verbose=0, callbacks=[theirs])
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled(steps_per_execution=4)
            model.set_asynchronous_callbacks(asynchronous)
            model.evaluate(**_DATA, verbose=0, callbacks=[mine])
            assert int(model._test_counter) == 6
        _assert_same_calls(mine, theirs)

    def test_asynchronous_callbacks_see_each_replica(self) -> None:
        recorder = Recorder()
        with keras_models.strategy(4).scope():
            model = _FUNCTIONAL.compiled(steps_per_execution=2)
            model.set_replication_options("mean")
            expected = model.evaluate(**_DATA, verbose=0)
            model.set_asynchronous_callbacks(True)
            found = model.evaluate(**_DATA, verbose=0, callbacks=[recorder])
        assert found == expected
        assert [call[1] for call in recorder.calls if call[0] == "on_test_batch_end"] == [
            0, 0, 0, 0, 1, 1
        ]  # fmt: skip

    def test_a_test_step_of_the_model_is_called(self) -> None:
        class Own(keras_models.FunctionalSubclass):
            def test_step(self, data: Any) -> Any:
                x, y = data
                error = y - self(x, training=False)
                return {"largest": tf.reduce_max(tf.abs(error)), "rows": tf.shape(error)[0]}

        _, found = _evaluate(Kind(Own), _DATA)
        assert found["rows"] == 2

    def test_logs_must_not_depend_on_rows(self) -> None:
        class Own(keras_models.FunctionalSubclass):
            def test_step(self, data: Any) -> Any:
                return {"errors": data[1] - self(data[0], training=False)}

        with keras_models.strategy().scope():
            model = Kind(Own).compiled()
            with pytest.raises(ValueError, match="partial batch of 2 instead of 4 rows"):
                model.evaluate(**_DATA, verbose=0)

    def test_metrics_start_from_zero_with_reused_program(self) -> None:
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled(steps_per_execution=2)
            found = [model.evaluate(**_DATA, verbose=0) for _ in range(2)]
            compiled = keras_models.compilations()
        assert found[0] == found[1]
        assert compiled == 1

    def test_results_in_mixed_float16_equal_stock_keras(self) -> None:
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            arguments = {"verbose": 0, **_DATA}
            expected = _FUNCTIONAL.compiled(run_eagerly=True).evaluate(**arguments)
            with keras_models.strategy().scope():
                found = _FUNCTIONAL.compiled().evaluate(**arguments)
        finally:
            tf.keras.mixed_precision.set_global_policy("float32")
        keras_models.assert_close(found, expected, 1e-3)

    def test_validation_in_fit_equals_stock_keras(self) -> None:
        # 16 samples to train with, and 7 that are two batches.
        data = {"x": X[:23], "y": Y[:23], "batch_size": BATCH, "validation_split": 7 / 23}
        compiled = {"steps_per_execution": 2}
        keras_models.train_both(_FUNCTIONAL, data=lambda: data, compile_with=compiled)


def _generated() -> Iterator[Any]:
    for row in range(0, ROWS, BATCH):
        yield X[row : min(row + BATCH, ROWS)], Y[row : min(row + BATCH, ROWS)]


_SPEC = (tf.TensorSpec((None, 3)), tf.TensorSpec((None, 2)))


class TestDatasets:
    """Datasets whose batches have different numbers of rows."""

    @pytest.mark.parametrize(
        ("make", "steps", "replicas"),
        [
            (batches, None, 1),
            (lambda: tf.data.Dataset.from_generator(_generated, output_signature=_SPEC), 6, 2),
            (lambda: batches().repeat(), 8, 2),
            (lambda: batches(6).concatenate(batches(7)), None, 1),
            (batches, 3, 2),
            (lambda: batches(3, 8), None, 1),
        ],
        ids=["known_size", "unknown_size", "infinite", "in_the_middle", "fewer", "one_batch"],
    )
    def test_datasets_predict_and_evaluate_as_stock_keras(
        self, make: Callable[[], tf.data.Dataset], steps: int | None, replicas: int
    ) -> None:
        arguments = {"x": make(), "steps": steps}
        _predict(_FUNCTIONAL, arguments, replicas, steps_per_execution=2)
        _evaluate(_FUNCTIONAL, arguments, replicas)

    def test_a_dataset_of_dicts_is_evaluated(self) -> None:
        kind = _TWO_INPUTS
        data = tf.data.Dataset.from_tensor_slices((kind.x, kind.y, array(24))).batch(5)
        _evaluate(kind, {"x": data})

    def test_too_many_sizes_of_batches_are_refused(self) -> None:
        data = batches(1, 1)
        for size in (2, 3, 4, 5):
            data = data.concatenate(batches(size, size))
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled()
            with pytest.raises(ValueError, match=r"5 different .*unbatch\(\).batch\(5\)"):
                model.evaluate(data, verbose=0)
            # Programs for predictions do not know of the padding.
            assert model.predict(data, verbose=0).shape == (15, 2)

    @pytest.mark.parametrize(
        ("make", "phrase"),
        [
            (lambda: batches().filter(lambda x, y: tf.shape(x)[0] == 4), "does not have enough"),
            (lambda: batches().map(lambda x, y: (x[2:], y[2:])), "Batch 5 .* has no rows"),
        ],
        ids=["ends", "empty"],
    )
    def test_early_ends_and_empty_batches_are_refused(
        self, make: Callable[[], tf.data.Dataset], phrase: str
    ) -> None:
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled()
            for method in (model.evaluate, model.predict):
                with pytest.raises(ValueError, match=phrase):
                    method(make(), steps=6, verbose=0)

    def test_sizes_that_change_are_an_error(self) -> None:
        count = tf.Variable(0, dtype=tf.int64)
        data = batches().map(lambda x, y: (x[: 4 - count.assign_add(1) // 7], y[:4]))
        with keras_models.strategy().scope():
            model = _FUNCTIONAL.compiled()
            with pytest.raises(tf.errors.InvalidArgumentError, match="another number of rows"):
                model.predict(data, verbose=0)
