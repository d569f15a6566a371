"""Checkpoints, summaries, warm start, export and `train_and_evaluate`, as in stock estimators."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models
from tests.support.programs import serving

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys


def _adam() -> tf1.train.Optimizer:
    return tf1.train.AdamOptimizer(0.05)


def _serving_input() -> tf.estimator.export.TensorServingInputReceiver:
    x = tf1.placeholder(tf.float32, [None, models.FEATURES])
    return tf.estimator.export.TensorServingInputReceiver(x, {"x": x})


def _supervised_input() -> tf.estimator.export.SupervisedInputReceiver:
    x = tf1.placeholder(tf.float32, [None, models.FEATURES])
    y = tf1.placeholder(tf.float32, [None, 1])
    return tf.estimator.experimental.build_raw_supervised_input_receiver_fn({"x": x}, y)()


def test_resuming_equals_not_stopping(tmp_path) -> None:
    """In another estimator, which starts with the variables of the optimizer too."""

    def train(folder: str, *steps: int):
        for total in steps:
            estimator = models.estimator(
                models.run_config(2, replicas=2, model_dir=str(tmp_path / folder)),
                params={"optimizer": _adam},
            )
            # The dataset starts again: so does that of one that goes on here.
            skipped = total - steps[0]
            estimator.train(lambda n=skipped: models.repeated().skip(2 * n), max_steps=total)
        return estimator

    resumed, straight = train("resumed", 4, 8), train("straight", 8)
    assert resumed.get_variable_names() == straight.get_variable_names()
    for name in resumed.get_variable_names():
        np.testing.assert_array_equal(
            resumed.get_variable_value(name), straight.get_variable_value(name)
        )


@pytest.mark.parametrize("own_hook", [False, True])
def test_checkpoints_at_ends_of_runs(tmp_path, own_hook: bool) -> None:
    """Where they are due, not one run later; listeners are told."""
    saved = []

    class Listener(tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value) -> None:
            saved.append(int(global_step_value))

    folder = str(tmp_path)
    estimator = models.estimator(
        models.run_config(2, model_dir=folder, save_checkpoints_steps=None if own_hook else 4)
    )
    hooks = [tf1.train.CheckpointSaverHook(folder, save_steps=4)] if own_hook else []
    estimator.train(models.repeated, hooks, steps=10, saving_listeners=[Listener()])
    # The last one is that of the end.
    assert saved == [0, 4, 8, 10]
    assert estimator.latest_checkpoint() == f"{folder}/model.ckpt-10"


def test_the_loss_of_each_run_is_summarized(tmp_path) -> None:
    """The loss of each run is in the event files."""
    estimator = models.estimator(
        models.run_config(2, model_dir=str(tmp_path), save_summary_steps=1)
    )
    losses = models.Losses()
    estimator.train(models.repeated, steps=6, hooks=[losses])
    (path,) = tf.io.gfile.glob(f"{tmp_path}/events.*")
    found = {
        event.step: value.simple_value
        for event in tf1.train.summary_iterator(path)
        for value in event.summary.value
        if value.tag == "loss"
    }
    assert list(found) == [2, 4, 6]
    np.testing.assert_allclose(list(found.values()), losses.values, rtol=1e-6)


@pytest.mark.parametrize("settings", [False, True])
def test_warm_start_takes_values_but_not_the_step(tmp_path, settings: bool) -> None:
    """Values come from a checkpoint, the step does not."""
    source = models.estimator(models.run_config(2, model_dir=str(tmp_path)))
    source.train(models.repeated, steps=4)
    start = tf.estimator.WarmStartSettings(str(tmp_path), "kernel") if settings else str(tmp_path)
    estimator = models.estimator(models.run_config(2), warm_start_from=start)
    result = estimator.evaluate(models.repeated, steps=2)
    estimator.train(models.repeated, steps=2)
    assert estimator.get_variable_value("global_step") == 2
    first = tf.train.load_checkpoint(f"{estimator.model_dir}/model.ckpt-0")
    kernel = source.get_variable_value("kernel")
    bias = np.zeros(1) if settings else source.get_variable_value("bias")
    np.testing.assert_array_equal(first.get_tensor("kernel"), kernel)
    np.testing.assert_array_equal(first.get_tensor("bias"), bias)
    x, y = models.X[:2], models.Y[:2]
    np.testing.assert_allclose(result["loss"], np.mean((x @ kernel + bias - y) ** 2), rtol=1e-4)


@pytest.mark.parametrize("method", ["export_saved_model", "export_savedmodel"])
def test_an_export_for_serving_takes_any_batch_size(tmp_path, method: str) -> None:
    """A SavedModel of ordinary ops, which takes batches of any size."""
    estimator = models.estimator(models.run_config(2, replicas=2))
    estimator.train(models.repeated, steps=2)
    path = _path(getattr(estimator, method)(str(tmp_path), _serving_input))
    serving.assert_stock(path)
    served = tf.saved_model.load(path).signatures["serving_default"]
    x = models.X.reshape(-1, 3)[:7]
    found = served(tf.constant(x))["y"]
    np.testing.assert_allclose(found, models.predict_with_numpy(estimator, x), rtol=1e-5)


def _path(exported: bytes | str) -> pathlib.Path:
    return pathlib.Path(os.fsdecode(exported))


def test_an_export_loads_in_stock_tensorflow(tmp_path, run_python) -> None:
    """In a process without this package and its plugin."""
    estimator = models.estimator()
    estimator.train(models.repeated, steps=2)
    path = _path(estimator.export_saved_model(str(tmp_path), _serving_input))
    x = np.ones([2, 3], np.float32)
    found = serving.call_signatures(run_python, {path: {"x": x}}, bare=tmp_path / "bare")
    expected = models.predict_with_numpy(estimator, x)
    np.testing.assert_allclose(found[path]["y"], expected, rtol=1e-5)


def test_all_modes_are_exported(tmp_path) -> None:
    """Metrics of the host get one iteration, and a host call trains."""

    def model(features, labels, mode):
        predictions = models.prediction(features)
        if mode == ModeKeys.PREDICT:
            return ipu.ipu_estimator.IPUEstimatorSpec(mode, predictions=predictions)
        loss = models.squared_error(labels, predictions)

        def metrics(error):
            assert error.shape.rank == 3
            return {"error": tf1.metrics.mean(error)}

        gradients, variables = zip(*models.sgd().compute_gradients(loss))
        apply = lambda *host: models.sgd().apply_gradients(zip(host, variables))  # noqa: E731
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=tf.identity(loss),
            eval_metrics=(metrics, [predictions - labels]),
            host_call=(apply, list(gradients)),
        )

    estimator = models.estimator(model=model)
    estimator.train(models.repeated, steps=2)
    path = estimator.experimental_export_all_saved_models(
        str(tmp_path),
        {
            ModeKeys.TRAIN: _supervised_input,
            ModeKeys.EVAL: _supervised_input,
            ModeKeys.PREDICT: _serving_input,
        },
    )
    for tag in ("serve", "train", "eval"):
        with tf.Graph().as_default(), tf1.Session() as session:
            assert tf1.saved_model.load(session, {tag}, os.fsdecode(path)).signature_def


def test_a_model_function_may_have_bound_parameters() -> None:
    estimator = models.estimator(params={"optimizer": _adam})
    with tf.Graph().as_default():
        features, labels = tf.constant(models.X[0]), tf.constant(models.Y[0])
        spec = estimator.model_fn(features, labels, ModeKeys.TRAIN, estimator.config)
        assert isinstance(spec, tf.estimator.EstimatorSpec)
        assert any("Adam" in variable.name for variable in tf1.global_variables())


def test_train_and_evaluate_trains_as_if_not_evaluated(tmp_path) -> None:
    """Evaluations come in between, and training goes on as if they did not."""
    estimator = models.estimator(
        models.run_config(2, replicas=2, model_dir=str(tmp_path), save_checkpoints_steps=4),
        params={"optimizer": _adam},
    )
    exporter = tf.estimator.FinalExporter("final", _serving_input)
    result, _ = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(models.repeated, max_steps=8),
        tf.estimator.EvalSpec(models.repeated, steps=4, exporters=exporter, throttle_secs=0),
    )
    assert result["global_step"] == 8
    variables, _ = models.train_in_session(_adam, 8, replicas=2)
    np.testing.assert_allclose(
        estimator.get_variable_value("kernel"), variables["kernel"], rtol=1e-5
    )
    (exported,) = os.listdir(tmp_path / "export" / "final")
    assert tf.saved_model.load(str(tmp_path / "export" / "final" / exported))
    (events,) = tf.io.gfile.glob(f"{tmp_path}/eval/events.*")
    steps = {event.step for event in tf1.train.summary_iterator(events) if event.summary.value}
    assert steps >= {4, 8}
