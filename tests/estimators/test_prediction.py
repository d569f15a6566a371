from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.models import estimator_models as models

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys
CONFIGURATIONS = [(1, 1), (3, 1), (1, 2), (3, 2)]


def tensor_model(features, mode):
    """Predicts a tensor, not a dict."""
    return tf.estimator.EstimatorSpec(mode, predictions=models.prediction(features))


def _expected(items: int) -> np.ndarray:
    """Predictions of the untrained model for the first batches."""
    return models.X[:items] @ np.full([3, 1], 0.1, np.float32)


@pytest.mark.parametrize("items", [10, 12, 2], ids=["part of a run", "whole runs", "little"])
@pytest.mark.parametrize(("iterations", "replicas"), CONFIGURATIONS)
def test_finite_datasets_are_drained(iterations: int, replicas: int, items: int) -> None:
    """Also where the dataset ends in the middle of a run, in the order of the dataset."""
    estimator = models.estimator(models.run_config(iterations, replicas))
    found = list(estimator.predict(lambda: models.dataset().take(items)))
    values = np.stack([item["y"] for item in found])
    inputs = np.stack([item["x"] for item in found])
    shape = [items, models.BATCH] if replicas > 1 else [items * models.BATCH]
    np.testing.assert_array_equal(inputs, models.X[:items].reshape([*shape, 3]))
    np.testing.assert_allclose(values, _expected(items).reshape([*shape, 1]), rtol=1e-5)


@pytest.mark.parametrize(("iterations", "replicas"), CONFIGURATIONS)
def test_iterations_are_predicted_instead_of_examples(iterations: int, replicas: int) -> None:
    estimator = models.estimator(models.run_config(iterations, replicas), tensor_model)
    predictions = estimator.predict(
        lambda: models.dataset(labels=False).repeat(),
        yield_single_examples=False,
        num_predictions=5,
    )
    values = np.stack(list(predictions))
    shape = [5, replicas, models.BATCH, 1] if replicas > 1 else [5, models.BATCH, 1]
    np.testing.assert_allclose(values, _expected(5 * replicas).reshape(shape), rtol=1e-5)


def test_incomplete_groups_of_replicas_are_dropped() -> None:
    estimator = models.estimator(models.run_config(3, replicas=2), tensor_model)
    assert len(list(estimator.predict(lambda: models.dataset().take(5)))) == 4


def test_an_empty_dataset_has_no_predictions() -> None:
    estimator = models.estimator(models.run_config(2), tensor_model)
    assert list(estimator.predict(lambda: models.dataset().take(0))) == []


def test_labels_are_dropped_on_the_host() -> None:
    """Labels may have types that the device lacks. Dicts without labels are all features."""

    def with_labels():
        names = tf.data.Dataset.from_tensors("label").repeat()
        return tf.data.Dataset.zip((models.dataset(labels=False), names)).take(1)

    def as_dict():
        return models.dataset().map(lambda x, y: {"x": x, "y": y}).take(1)

    for input_fn in (with_labels, as_dict):
        found = list(models.estimator(model=tensor_model).predict(input_fn))
        np.testing.assert_allclose(found, _expected(1)[0], rtol=1e-5)


def test_only_keys_and_number_asked_for_are_predicted() -> None:
    """A number in the middle of a run; no run more than is needed; hooks come to their end."""
    calls = []

    class Counter(tf1.train.SessionRunHook):
        def after_run(self, run_context, run_values) -> None:
            calls.append("run")

        def end(self, session) -> None:
            calls.append("end")

    estimator = models.estimator(models.run_config(2))
    found = list(
        estimator.predict(
            models.repeated, predict_keys=["y"], num_predictions=10, hooks=[Counter()]
        )
    )
    assert [set(item) for item in found] == [{"y"}] * 10
    assert calls == ["run", "run", "end"]


def test_graph_of_caller_is_its_own_between_items() -> None:
    """A generator that is not finished leaves no graph behind, and other ones may run."""
    estimator = models.estimator(model=tensor_model)
    with tf.Graph().as_default() as graph:
        first = estimator.predict(models.repeated)
        second = estimator.predict(models.repeated)
        for _ in range(6):
            np.testing.assert_array_equal(next(first), next(second))
            assert tf1.get_default_graph() is graph
        first.close()
        next(second)


def test_trained_weights_and_batch_size_are_used() -> None:
    def input_fn(params):
        data = models.dataset().unbatch()
        return data.batch(params["batch_size"], drop_remainder=True).repeat()

    estimator = models.estimator(
        models.run_config(2, replicas=2), train_batch_size=8, predict_batch_size=2
    )
    estimator.train(input_fn, steps=2)
    items = list(estimator.predict(input_fn, predict_keys=["y"], num_predictions=4))
    assert [item["y"].shape for item in items] == [(1, 1)] * 4
    flat = models.X.reshape(-1, 1, 3)[:4]
    expected = models.predict_with_numpy(estimator, flat)
    np.testing.assert_allclose([item["y"] for item in items], expected, rtol=1e-5)


def test_predictions_of_different_lengths_are_refused() -> None:
    def model(features, mode):
        predictions = models.prediction(features)
        return tf.estimator.EstimatorSpec(
            mode, predictions={"y": predictions, "total": tf.reduce_sum(predictions, axis=0)}
        )

    estimator = models.estimator(model=model)
    with pytest.raises(ValueError, match="Batch length of predictions should be same"):
        next(estimator.predict(models.repeated))
    item = next(estimator.predict(models.repeated, yield_single_examples=False))
    assert (item["y"].shape, item["total"].shape) == ((models.BATCH, 1), (1,))


def test_keys_of_a_single_tensor_are_refused() -> None:
    with pytest.raises(ValueError, match="predict_keys"):
        next(models.estimator(model=tensor_model).predict(models.repeated, predict_keys=["y"]))


def test_a_hook_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook"):
        next(models.estimator(model=tensor_model).predict(models.repeated, hooks=[print]))
