from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models

tf1 = tf.compat.v1
CONFIGURATIONS = [(1, 1), (3, 1), (1, 2), (3, 2)]
STEPS = 6


def _errors(replicas: int) -> np.ndarray:
    """Returns the errors of the untrained model: [steps, R, batch, 1]."""
    x, y = (np.stack(arrays) for arrays in zip(*models.batches(STEPS, replicas)))
    return x @ np.full([3, 1], 0.1, np.float32) - y


@pytest.mark.parametrize(("iterations", "replicas"), CONFIGURATIONS)
def test_metrics_on_the_device_are_averaged_over_replicas(iterations: int, replicas: int) -> None:
    """They accumulate over iterations and runs, and are averaged over replicas."""

    def model(features, labels, mode):
        predictions = models.prediction(features)
        loss = models.squared_error(labels, predictions)
        metrics = {
            "mean": tf1.metrics.mean_absolute_error(labels, predictions),
            "last": (loss, loss),
            "op": (loss, tf.group(loss)),
            "each": (predictions, tf.identity(predictions)),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    estimator = models.estimator(models.run_config(iterations, replicas), model)
    result = estimator.evaluate(models.repeated, steps=STEPS)
    errors = _errors(replicas)
    last = np.mean(errors[-1] ** 2)
    each = np.mean((errors + models.Y[: STEPS * replicas].reshape(errors.shape))[-1], axis=0)
    assert set(result) == {"loss", "global_step", "mean", "last", "op", "each"}
    assert result["global_step"] == 0
    np.testing.assert_allclose(result["loss"], np.mean(errors**2), rtol=1e-5)
    np.testing.assert_allclose(result["mean"], np.mean(np.abs(errors)), rtol=1e-5)
    np.testing.assert_allclose([result["last"], result["op"]], [last, last], rtol=1e-5)
    np.testing.assert_allclose(result["each"], each, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("container", [list, dict])
@pytest.mark.parametrize(("iterations", "replicas"), CONFIGURATIONS)
def test_metrics_on_the_host_get_all_iterations(
    iterations: int, replicas: int, container: type
) -> None:
    """They get the tensors of all iterations and replicas of a run, and accumulate over runs."""
    leading = [iterations, replicas] if replicas > 1 else [iterations]

    def metrics(labels, predictions):
        assert labels.shape == predictions.shape == [*leading, models.BATCH, 1]
        return {
            "mean": tf1.metrics.mean_absolute_error(labels, predictions),
            "max": tf1.metrics.mean(tf.reduce_max(predictions - labels)),
        }

    def model(features, labels, mode):
        predictions = models.prediction(features)
        tensors = {"predictions": predictions, "labels": labels}
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode,
            loss=models.squared_error(labels, predictions),
            eval_metrics=(metrics, tensors if container is dict else [labels, predictions]),
        )

    estimator = models.estimator(models.run_config(iterations, replicas), model)
    result = estimator.evaluate(models.repeated, steps=STEPS)
    errors = _errors(replicas)
    highest = errors.reshape(STEPS // iterations, -1).max(axis=1)
    np.testing.assert_allclose(result["loss"], np.mean(errors**2), rtol=1e-5)
    np.testing.assert_allclose(result["mean"], np.mean(np.abs(errors)), rtol=1e-5)
    np.testing.assert_allclose(result["max"], highest.mean(), rtol=1e-5)


def test_integers_are_averaged_over_replicas() -> None:
    def model(features, labels, mode):
        index = ipu.replication_ops.replication_index()
        loss = models.squared_error(labels, models.prediction(features))
        metrics = {"index": (index, tf.identity(index))}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    estimator = models.estimator(models.run_config(replicas=2), model)
    assert estimator.evaluate(models.repeated, steps=1)["index"] == 0.5


def test_a_keras_metric_is_evaluated() -> None:
    def model(features, labels, mode):
        predictions = models.prediction(features)
        metric = tf.keras.metrics.MeanAbsoluteError()
        metric.update_state(labels, predictions)
        loss = models.squared_error(labels, predictions)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"mean": metric})

    estimator = models.estimator(models.run_config(3), model)
    result = estimator.evaluate(models.repeated, steps=STEPS)
    np.testing.assert_allclose(result["mean"], np.mean(np.abs(_errors(1))), rtol=1e-5)


@pytest.mark.parametrize(("iterations", "expected"), [(1, [0, 1, 2, 3]), (2, [0, 0, 2, 2])])
def test_the_global_step_goes_on(iterations: int, expected: list[int]) -> None:
    """Batches are as in training; the reported step stays the step of the model."""
    seen = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))
        if mode == tf.estimator.ModeKeys.TRAIN:
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=models.sgd().minimize(loss))
        step = tf.cast(tf1.train.get_global_step(), tf.int32)
        with tf.control_dependencies([seen.enqueue(step)]):
            metric = tf.identity(loss)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"metric": (metric, metric)}
        )

    estimator = models.estimator(models.run_config(iterations), model)
    for trained in (0, 4):
        assert estimator.evaluate(models.repeated, steps=4)["global_step"] == trained
        with tf.Graph().as_default(), tf1.Session() as session:
            values = session.run(seen.dequeue())
        np.testing.assert_array_equal(values, np.add(expected, trained))
        seen = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        estimator.train(models.repeated, steps=4)


def test_values_hooks_and_checkpoints_belong_to_the_evaluation() -> None:
    """The values are in the event files of the evaluation; hooks are called for each run."""
    runs = []

    class Counter(tf1.train.SessionRunHook):
        def after_run(self, run_context, run_values) -> None:
            runs.append(run_values)

    estimator = models.estimator(models.run_config(2, save_checkpoints_steps=2))
    estimator.train(models.repeated, steps=4)
    first = f"{estimator.model_dir}/model.ckpt-2"
    early = estimator.evaluate(models.repeated, 4, [Counter()], checkpoint_path=first, name="x")
    late = estimator.evaluate(models.repeated, 4)
    assert len(runs) == 2
    assert (early["global_step"], late["global_step"]) == (2, 4)
    assert late["loss"] < early["loss"]
    assert estimator.eval_dir("x") == f"{estimator.model_dir}/eval_x"
    (events,) = tf.io.gfile.glob(f"{estimator.eval_dir('x')}/events.*")
    values = {
        value.tag: value.simple_value
        for event in tf1.train.summary_iterator(events)
        for value in event.summary.value
    }
    assert values["loss"] == pytest.approx(early["loss"])
    assert values["error"] == pytest.approx(early["error"])


def test_the_end_of_the_dataset_is_an_error() -> None:
    with pytest.raises(tf.errors.OutOfRangeError, match="repeat the dataset"):
        models.estimator(models.run_config(4)).evaluate(lambda: models.dataset().take(6), steps=8)
