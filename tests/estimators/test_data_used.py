"""The number of batches that estimators take: one for each step, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.estimators import test_ipu_pipeline_estimator as pipelined
from tests.support.models import estimator_models as models

ITERATIONS, RUNS = 4, 2


def estimator(pipeline: bool, replicas: int) -> tuple[Any, Any]:
    """Returns an estimator, and a function that makes a dataset of N batches."""
    if pipeline:
        return pipelined.estimator(ITERATIONS, replicas), pipelined.dataset
    config = models.run_config(ITERATIONS, replicas)
    return models.estimator(config), lambda number: models.dataset().take(number)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize("method", ["train", "evaluate"])
def test_a_dataset_of_all_steps_is_enough(method: str, pipeline: bool, replicas: int) -> None:
    made, data = estimator(pipeline, replicas)
    steps = RUNS * ITERATIONS
    # With one batch less the dataset would end before the steps do, which is an error.
    result = getattr(made, method)(lambda: data(steps * replicas), steps=steps)
    if method == "train":
        assert made.get_variable_value("global_step") == steps
    else:
        assert np.isfinite(result["loss"])
