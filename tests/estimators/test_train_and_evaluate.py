"""`train_and_evaluate` with pipelines; test_checkpoints.py has it with `IPUEstimator`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.estimators import test_ipu_pipeline_estimator as pipelined
from tests.estimators.test_events import events, scalars
from tests.support.models import pipelines


def test_pipelines_train_as_if_not_evaluated_in_between(tmp_path: Path) -> None:
    """Evaluations come in between, training goes on as if they did not, and can go on later."""

    def run(updates: int) -> Any:
        estimator = pipelined.estimator(
            4, 2, config={"model_dir": str(tmp_path), "save_checkpoints_steps": 4}
        )
        trained = 0
        if estimator.latest_checkpoint():
            trained = int(estimator.get_variable_value("global_step"))
        result, _ = tf.estimator.train_and_evaluate(
            estimator,
            tf.estimator.TrainSpec(
                lambda: pipelined.dataset(32).skip(2 * trained), max_steps=4 * updates
            ),
            tf.estimator.EvalSpec(pipelined.repeated, steps=8, throttle_secs=0),
        )
        assert result["global_step"] == 4 * updates
        return estimator

    run(updates=2)
    estimator = run(updates=4)
    # The gradients of the 4 mini-batches are summed, and averaged over the replicas.
    pipelined.assert_trained_like(estimator, pipelines.expected(4, 4, replicas=2))
    read = events(tmp_path / "eval")
    losses = scalars(read, "loss")
    assert set(losses) >= {4, 8, 12, 16}
    assert losses[16] < losses[4]
