"""Datasets made of the data of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.models import data as data_lib
from tensorflow_ipu.keras_layers.models.data import Data
from tests.support.models import keras_models
from tests.support.models.keras_models import (
    BATCH,
    KINDS,
    MLP,
    SAMPLES,
    X,
    Y,
    assert_close,
    dataset,
    train_both,
)

pytestmark = keras_models.KERAS_WARNINGS

base_layer_utils = keras2.module("engine.base_layer_utils")
data_adapter = keras2.module("engine.data_adapter")

from_arguments = data_lib.from_arguments


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_float64_without_v2_dtype_behavior_is_refused(method: str) -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled()
        x = dataset(X.astype(np.float64), Y.astype(np.float64))
        data = x.map(lambda x, y: x) if method == "predict" else x
        base_layer_utils.V2_DTYPE_BEHAVIOR = False  # what disable_v2_dtype_behavior does
        try:
            with pytest.raises(
                tf.errors.FailedPreconditionError, match="Unsupported datatype double"
            ):
                getattr(model, method)(data, verbose=0)
        finally:
            base_layer_utils.V2_DTYPE_BEHAVIOR = None


def _elements(data: Data) -> list[Any]:
    return list(data.dataset.as_numpy_iterator())


def _stock(**arguments: Any) -> list[Any]:
    """Returns the batches that stock Keras makes of the arguments."""
    handler = data_adapter.DataHandler(**arguments)
    found: list[Any] = []
    for _, iterator in handler.enumerate_epochs():
        found += [
            tf.nest.map_structure(lambda tensor: tensor.numpy(), next(iterator))
            for _ in handler.steps()
        ]
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": X, "y": Y, "batch_size": 4},
        {"x": X, "y": Y, "sample_weight": X[:, 0], "batch_size": 8, "epochs": 2},
        {"x": tf.constant(X), "y": tf.constant(Y), "batch_size": 4},
        {"x": X, "batch_size": 6},
        {"x": [X, Y], "y": Y, "batch_size": 4},
        {"x": {"a": X, "b": Y}, "y": {"c": Y}, "batch_size": 4},
        {"x": (X.tolist()), "y": Y.tolist(), "batch_size": 4},
        {"x": X[:, 0], "y": Y[:, 0], "batch_size": 4},
        {"x": X, "y": {"a": Y, "b": Y}, "sample_weight": {"a": X[:, 0]}, "batch_size": 4},
        {"x": X, "y": Y, "steps": 4},
        {"x": np.repeat(X, 4, 0)},
        {"x": X, "y": keras_models.labels(2, SAMPLES), "class_weight": {0: 0.5, 1: 2.0},
         "batch_size": 4},
        {"x": X, "y": np.eye(2, dtype="float32")[keras_models.labels(2, SAMPLES)],
         "class_weight": {0: 0.5, 1: 2.0}, "sample_weight": X[:, 0], "batch_size": 4},
        {"x": X, "y": Y, "batch_size": 4, "epochs": 3, "shuffle": True},
        {"x": X, "y": Y, "batch_size": 4, "epochs": 2, "shuffle": "batch"},
    ],
    ids=[
        "arrays", "weights", "tensors", "x_only", "list", "dict", "lists_of_lists", "scalars",
        "partial_weights", "steps", "default_batch_size", "class_weight", "one_hot_class_weight",
        "shuffled", "shuffled_batches",
    ],
)  # fmt: skip
def test_data_in_memory_are_those_of_stock_keras(arguments: dict[str, Any]) -> None:
    theirs = dict(arguments)
    theirs["steps_per_epoch"] = theirs.pop("steps", None)
    tf.random.set_seed(5)
    expected = _stock(**theirs)
    tf.random.set_seed(5)
    data = from_arguments(**arguments)
    found = _elements(data)
    assert data.size is not None and data.size * arguments.get("epochs", 1) == len(expected)
    assert data.is_one_dataset and not data.is_infinite
    batch = tf.nest.flatten(found[0])[0].shape[0]
    assert data.batch_size == batch
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)
    assert all(spec.shape[0] == batch for spec in tf.nest.flatten(data.dataset.element_spec))


def test_data_frames_are_batched() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    found = _elements(from_arguments(frame, frame["a"], batch_size=BATCH))
    np.testing.assert_array_equal(np.concatenate([x for x, _ in found]), X)
    np.testing.assert_array_equal(np.concatenate([y for _, y in found])[:, 0], X[:, 0])


@pytest.mark.parametrize(
    ("made", "size", "infinite"),
    [
        (lambda: dataset(), 6, False),
        (lambda: dataset(epochs=3), 18, False),
        (lambda: dataset(epochs=None), None, True),
        (lambda: dataset().filter(lambda *_: True), None, False),
        (
            lambda: (
                dataset().filter(lambda *_: True).apply(tf.data.experimental.assert_cardinality(6))
            ),
            6,
            False,
        ),
    ],
    ids=["finite", "repeated", "infinite", "unknown", "asserted"],
)
def test_sizes_of_datasets_are_known(
    made: Callable[[], tf.data.Dataset], size: int | None, infinite: bool
) -> None:
    given = made()
    data = from_arguments(given)
    assert (data.size, data.is_infinite, data.is_one_dataset) == (size, infinite, False)
    assert data.batch_size is None
    assert data.dataset is given


@pytest.mark.parametrize(
    "element",
    [
        X,
        (X,),
        (X, Y),
        (X, Y, X[:, 0]),
        {"a": X, "b": Y},
        ({"a": X, "b": Y}, {"c": Y}),
        ((X, Y), Y),
    ],
    ids=["x", "tuple_of_x", "x_y", "x_y_weight", "dict", "dicts", "nested"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_structures_of_datasets_are_kept(element: Any, dtype: Any) -> None:
    given = tf.nest.map_structure(lambda array: array.astype(dtype), element)
    made = tf.data.Dataset.from_tensor_slices(given).batch(BATCH, drop_remainder=True)
    found = from_arguments(made)
    tf.nest.map_structure(
        np.testing.assert_array_equal,
        _elements(found)[0],
        tf.nest.map_structure(lambda array: array[:BATCH].astype(np.float32), element),
    )
    specs = tf.nest.flatten(found.dataset.element_spec)
    assert {spec.dtype for spec in specs} == {tf.float32}


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_types_of_the_device_stay(dtype: Any) -> None:
    x = keras_models.labels(2, 8, 3).astype(dtype)
    (found,) = _elements(from_arguments(x, batch_size=8))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, x)


def test_a_class_weight_applies_to_datasets() -> None:
    y = keras_models.labels(2, SAMPLES)
    data = from_arguments(dataset(X, y), class_weight={0: 0.5, 1: 2.0})
    weights = np.concatenate([weight for _, _, weight in _elements(data)])
    np.testing.assert_array_equal(weights, np.where(y == 1, 2.0, 0.5))


def test_batches_not_shared_by_replicas_are_dropped() -> None:
    data = from_arguments(X[:, 0], batch_size=4, epochs=2)
    kept = data_lib.without_remainder(data, left_out=2)
    found = np.concatenate(list(kept.as_numpy_iterator()))
    np.testing.assert_array_equal(found, np.concatenate([X[:16, 0], X[:16, 0]]))
    assert data_lib.without_remainder(data, 0) is data.dataset


def _generator() -> Iterator[Any]:
    yield X[:4], Y[:4]


class _Sequence(tf.keras.utils.Sequence):
    """Batches of float64, the last one smaller if the rows say so."""

    def __init__(self, rows: int = len(X)) -> None:
        self.rows = rows
        self.epochs = 0

    def __len__(self) -> int:
        return -(-self.rows // 4)

    def __getitem__(self, index: int) -> Any:
        rows = slice(4 * index, min(4 * index + 4, self.rows))
        return X[rows].astype(np.float64), Y[rows]

    def on_epoch_end(self) -> None:
        self.epochs += 1


@pytest.mark.parametrize("kind", ["sequence", "generator", "padded"])
def test_python_batches_train_as_the_dataset_does(kind: str) -> None:
    # Of a generator one epoch after the other, as in Keras.
    rows = 22 if kind == "padded" else 24
    losses = []
    for python in (False, True):
        with keras_models.strategy().scope():
            model = keras_models.KINDS["functional"].compiled(
                steps_per_execution=tf.data.Dataset.range(2).cardinality()
            )
            if kind == "padded":
                model.set_partial_batch_options(pad_in_fit=True)
            data = tf.data.Dataset.from_tensor_slices((X[:rows], Y[:rows]))
            batches: Any = data.batch(4, drop_remainder=kind != "padded")
            arguments: dict[str, Any] = {"epochs": 2, "verbose": 0, "shuffle": False}
            if python and kind == "generator":
                sequence = _Sequence()
                batches = (sequence[i % 6] for i in range(10**6))
                arguments["steps_per_epoch"] = 6
            elif python:
                batches = _Sequence(rows)
            losses.append(model.fit(batches, **arguments).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"x": None}, "Expect x to be a non-empty array or dataset"),
        ({"x": None, "y": Y}, "Expect x to be a non-empty array or dataset"),
        ({"x": []}, "Expect x to be a non-empty array or dataset"),
        ({"x": np.zeros((0, 3), np.float32)}, "Expect x to be a non-empty array or dataset"),
        ({"x": tf.data.Dataset.from_tensor_slices(X[:0])}, "Expect x to be a non-empty array"),
        ({"x": dataset().unbatch().batch(99, drop_remainder=True)}, "non-empty.*drop_remainder"),
        ({"x": X, "y": Y, "batch_size": 5}, "has a partial batch"),
        ({"x": X[:5], "batch_size": 8}, "has a partial batch"),
        ({"x": iter(())}, "generator gives no batch"),
        ({"x": _Sequence(0)}, "Sequence has no batch"),
        ({"x": _Sequence(5)}, "last batch of the Sequence has other shapes"),
        ({"x": _Sequence(), "y": Y}, "`y` argument is not supported"),
        ({"x": dataset(), "y": Y}, "`y` argument is not supported"),
        ({"x": dataset(), "sample_weight": Y}, "`sample_weight` argument is not supported"),
        (
            {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)},
            "drop_remainder=True",
        ),
        (
            {
                "x": tf.data.Dataset.from_generator(
                    _generator, output_types=(tf.float32, tf.float32)
                )
            },
            "drop_remainder=True",
        ),
        ({"x": X, "y": Y[:8], "batch_size": 4}, "Data cardinality is ambiguous"),
    ],
    ids=[
        "none", "only_y", "empty_list", "no_samples", "empty_dataset", "large_batch",
        "partial_batch",
        "less_than_a_batch", "empty_generator", "empty_sequence", "partial_sequence",
        "sequence_and_y",
        "dataset_and_y",
        "dataset_and_weights",
        "unknown_batch", "unknown_rank", "other_sizes",
    ],
)  # fmt: skip
def test_data_that_are_refused(arguments: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        from_arguments(**arguments)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_methods_refuse_such_data(method: str) -> None:
    unknown = tf.data.Dataset.from_generator(_generator, output_types=(tf.float32, tf.float32))
    with keras_models.strategy().scope():
        model = MLP.compiled()
        for x, phrase in (
            (None, "Expect x to be a non-empty array or dataset"),
            (_generator(), "Could not infer the size of the data"),
            (unknown, "drop_remainder=True"),
        ):
            with pytest.raises(ValueError, match=phrase):
                getattr(model, method)(x=x)


def test_fit_refuses_partial_batches() -> None:
    with keras_models.strategy().scope():
        model = MLP.compiled()
        for x, phrase in (
            (X[:6], "has a partial batch"),
            (tf.data.Dataset.from_tensor_slices((X, Y)).batch(4), "drop_remainder=True"),
        ):
            with pytest.raises(ValueError, match=phrase):
                model.fit(x=x)


def test_partial_batches_where_they_may_be() -> None:
    data = from_arguments(X[:10], Y[:10], batch_size=4, epochs=2, partial_batches=True)
    assert data.rows is not None and data.rows.tolist() == [4, 4, 2]
    assert (data.size, data.batch_size) == (3, 4)
    assert [len(x) for x, _ in _elements(data)] == [4, 4, 2] * 2
    whole = from_arguments(X[:8], Y[:8], batch_size=4, partial_batches=True)
    assert whole.rows is None
    batches = tf.data.Dataset.from_tensor_slices(X.astype(np.float64)).batch(5)
    found = from_arguments(batches, partial_batches=True)
    assert found.rows is None and found.dataset.element_spec.dtype == tf.float32
    with pytest.raises(ValueError, match="drop_remainder=True"):
        from_arguments(batches.map(tf.sparse.from_dense), partial_batches=True)


def test_much_data_in_memory_gives_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: messages.append(text % args))
    from_arguments(dataset())
    from_arguments(X, Y, batch_size=BATCH)
    assert messages == []
    monkeypatch.setattr(data_lib, "_LARGE", 8)
    for _ in range(2):
        from_arguments(X, Y, batch_size=BATCH)
    (message,) = messages
    assert "tf.data.Dataset is faster" in message


def test_batch_size_for_dataset_is_ignored_with_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: messages.append(text % args))
    found = from_arguments(dataset(), batch_size=3)
    assert "batch_size=3 is ignored" in messages[0]
    assert found.dataset.element_spec[0].shape == (BATCH, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": dataset(epochs=None), "steps_per_epoch": 6},
        {"x": dataset().filter(lambda *_: True), "steps_per_epoch": 6, "epochs": 1},
        {"x": dataset(X.astype(np.float64), Y.astype(np.float64))},
        {"x": X.astype(np.float64), "y": Y.astype(np.float64), "batch_size": BATCH},
        {"x": X.tolist(), "y": Y.tolist(), "batch_size": BATCH},
    ],
    ids=["infinite", "unknown", "float64_dataset", "float64_arrays", "lists"],
)
def test_kinds_of_data_train_a_model(arguments: dict[str, Any]) -> None:
    train_both(MLP, data=lambda: arguments, compile_with={"steps_per_execution": 3})


def test_a_dataset_of_dicts_trains_a_model() -> None:
    kind = KINDS["several_outputs"]
    made = dataset(kind.x, kind.y)
    train_both(kind, data=lambda: {"x": made}, compile_with={"steps_per_execution": 6})


def test_tensors_made_in_the_scope_are_data() -> None:
    with keras_models.strategy().scope():
        found = from_arguments(tf.constant(X), tf.constant(Y), batch_size=BATCH)
    x, y = next(found.dataset.as_numpy_iterator())
    assert_close([x, y], [X[:BATCH], Y[:BATCH]], 0)
