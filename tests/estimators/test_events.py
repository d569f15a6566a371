"""Event files of estimators, read by TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorflow.python import ipu

from tests.estimators import test_ipu_pipeline_estimator as pipelined
from tests.support.models import estimator_models as models

tf1 = tf.compat.v1
ITERATIONS = 4


def events(folder: Any) -> EventAccumulator:
    """Reads a folder."""
    return EventAccumulator(str(folder)).Reload()


def scalars(read: EventAccumulator, tag: str) -> dict[int, float]:
    """Returns the values of a scalar by step."""
    return {event.step: event.value for event in read.Scalars(tag)}


def estimator(kind: str, **config: Any) -> tuple[Any, Any]:
    """Returns an estimator, and its dataset."""
    if kind == "pipeline":
        return pipelined.estimator(ITERATIONS, config=config), pipelined.repeated
    replicas = 2 if kind == "replicas" else 1
    return models.estimator(models.run_config(ITERATIONS, replicas, **config)), models.repeated


@pytest.mark.parametrize("kind", ["one", "replicas", "pipeline"])
def test_event_files_have_training_and_evaluation(tmp_path: Path, kind: str) -> None:
    made, data = estimator(
        kind, model_dir=str(tmp_path), save_summary_steps=1, log_step_count_steps=1
    )
    losses = models.Losses()
    made.train(data, steps=3 * ITERATIONS, hooks=[losses])
    results = [made.evaluate(data, steps=ITERATIONS, name=name) for name in (None, "other")]

    read = events(tmp_path)
    assert read.Tags()["graph"]
    written = scalars(read, "loss")
    assert list(written) == [ITERATIONS, 2 * ITERATIONS, 3 * ITERATIONS]
    np.testing.assert_allclose(list(written.values()), losses.values, rtol=1e-6)
    speed = scalars(read, "global_step/sec")
    assert list(speed) == [2 * ITERATIONS, 3 * ITERATIONS]
    assert all(value > 0 for value in speed.values())

    for name, result in zip(("eval", "eval_other"), results):
        read = events(tmp_path / name)
        names = set(result) - {"global_step"}
        assert set(read.Tags()["scalars"]) == names > {"loss"}
        for metric in names:
            assert scalars(read, metric) == {3 * ITERATIONS: pytest.approx(result[metric])}


def test_summaries_of_a_host_call(tmp_path: Path) -> None:
    """A scalar of the model reaches TensorBoard."""

    def model(features, labels, mode):
        loss = models.squared_error(labels, models.prediction(features))

        def summaries(largest):
            tf1.summary.scalar("largest", largest)
            return tf.no_op()

        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=models.sgd().minimize(loss),
            host_call=(summaries, [tf.reduce_max(features)]),
        )

    config = models.run_config(model_dir=str(tmp_path), save_summary_steps=1)
    models.estimator(config, model).train(models.repeated, steps=3)
    written = scalars(events(tmp_path), "largest")
    assert written == {step + 1: pytest.approx(models.X[step].max()) for step in range(3)}
