"""Padding data on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.models import data as data_lib
from tensorflow_ipu.keras_layers.models import padding, programs
from tensorflow_ipu.keras_layers.models.steps import Steps
from tests.support.models import keras_models
from tests.support.models.keras_models import X, Y

pytestmark = keras_models.KERAS_WARNINGS


def _prepared(
    x: Any, steps: Steps, mode: str = programs.TEST, group: int = 1, **arguments: Any
) -> padding.Batches:
    given = data_lib.from_arguments(x, **{"partial_batches": True, **arguments})
    return padding.prepared(given, steps, mode, group)


def _elements(batches: padding.Batches) -> list[Any]:
    return list(batches.dataset.as_numpy_iterator())


def test_whole_batches_stay_what_they_are() -> None:
    given = data_lib.from_arguments(X, batch_size=4)
    found = padding.prepared(given, Steps(6, 1, 1, False), programs.TEST)
    assert found.dataset is given.dataset
    assert (found.rows, found.sizes) == (None, ())


@pytest.mark.parametrize(("rows", "copies"), [(2, [0, 1, 0, 1]), (3, [0, 1, 2, 0])])
def test_batches_are_padded_with_their_own_rows(rows: int, copies: list[int]) -> None:
    found = _prepared(X[: 4 + rows], Steps(2, 1, 1, False), programs.PREDICT, batch_size=4)
    whole, padded = _elements(found)
    np.testing.assert_array_equal(whole, X[:4])
    np.testing.assert_array_equal(padded, X[4:][copies])
    assert found.rows is not None and found.rows.tolist() == [4, rows]
    assert (found.full, found.sizes) == (4, ())


def test_predictions_of_few_rows_have_shape_of_many() -> None:
    few = _prepared(X[:3], Steps(1, 1, 1, False), programs.PREDICT, batch_size=8)
    assert few.dataset.element_spec.shape == (8, 3)
    # Losses do not: a batch without padding needs no branch.
    alone = _prepared(X[:3], Steps(1, 1, 1, False), programs.TEST, batch_size=8)
    assert alone.dataset.element_spec.shape == (3, 3)
    assert (alone.rows, alone.sizes) == (None, ())


def test_the_last_batch_of_each_epoch_is_repeated() -> None:
    data = {"y": Y[:10], "batch_size": 4, "epochs": 2}
    steps = Steps(2, 2, 2, False, padding=1)
    found = _prepared(X[:10], steps, programs.TRAIN, 2, **data)
    elements = _elements(found)
    # The marks go on, the data do not.
    assert len(elements) == 8
    last = np.concatenate([X[8:10], X[8:10]])
    for index in (2, 3, 6, 7):
        np.testing.assert_array_equal(elements[index][0][0], last)
    assert [int(marks[0]) for _, marks in elements] == [0, 0, 1, 2] * 2
    assert found.rows is not None and found.rows.tolist() == [4, 4, 2, 0]
    assert found.sizes == (4, 2, 0)
    np.testing.assert_array_equal([marks[1] for _, marks in elements], [1, 1, 2, 0] * 2)


@pytest.mark.parametrize(
    ("rows", "group", "weights"),
    [
        ([4, 4, 2], 1, [1, 1, 1]),
        ([4, 4, 4, 2], 2, [1, 1, 4 / 3, 2 / 3]),
        ([4, 2, 0, 0], 4, [8 / 3, 4 / 3, 0, 0]),
        # Epochs that do not end with an update.
        ([4, 4, 2], 2, [1, 1, 2 / 3, 4 / 3, 4 / 3, 2 / 3]),
    ],
)
def test_weights_of_padded_batches_by_hand(
    rows: list[int], group: int, weights: list[float]
) -> None:
    found = padding._weights(np.array(rows), group)
    np.testing.assert_allclose(found, weights, rtol=1e-6)
    assert found.dtype == np.float32


def test_structures_and_what_has_no_rows() -> None:
    made = tf.data.Dataset.from_tensor_slices({"a": X[:6], "b": Y[:6, 0]}).batch(4)
    made = made.map(lambda x: ({**x, "factor": tf.constant(2.0)}, x["b"]))
    found = _prepared(made, Steps(2, 1, 1, True))
    (x, y), marks = found.dataset.element_spec
    assert {name: spec.shape.as_list() for name, spec in x.items()} == {
        "a": [4, 3], "b": [4], "factor": []
    }  # fmt: skip
    assert y.shape == (4,) and [spec.dtype for spec in marks] == [tf.int32]
    assert found.sizes == (4, 2)


def test_a_dataset_of_single_tensors_is_padded() -> None:
    made = tf.data.Dataset.from_tensor_slices(X[:6]).batch(4)
    found = _prepared(made, Steps(2, 1, 1, True), programs.PREDICT)
    assert [element.shape for element in _elements(found)] == [(4, 3), (4, 3)]


def test_what_follows_the_last_step_is_not_read() -> None:
    def generated() -> Any:
        yield X[:4]
        yield X[4:6]
        raise AssertionError("read too far")

    spec = tf.TensorSpec((None, 3))
    made = tf.data.Dataset.from_generator(generated, output_signature=spec)
    found = _prepared(made, Steps(2, 1, 1, False))
    assert found.rows is not None and found.rows.tolist() == [4, 2]
    assert len(_elements(found)) == 2


def test_all_tensors_of_a_batch_have_its_rows() -> None:
    made = tf.data.Dataset.from_tensor_slices((X[:6], Y[:6])).batch(4)
    with pytest.raises(ValueError, match=r"in batch 0 their first dimensions are \[4, 8\]"):
        _prepared(made.map(lambda x, y: (x, tf.repeat(y, 2, 0))), Steps(2, 1, 1, True))


def test_no_epoch_is_left() -> None:
    """As after `fit` with an `initial_epoch` that is the last."""
    made = tf.data.Dataset.from_tensor_slices(X[:6]).batch(4).repeat()
    given = data_lib.from_arguments(made, partial_batches=True)
    found = padding.prepared(given, Steps(2, 1, 1, False), programs.TRAIN, epochs=0)
    assert found.sizes == (4, 2)
