"""Training that was killed goes on from its checkpoint, and ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.estimators import test_ipu_pipeline_estimator as pipelined
from tests.support.models import estimator_models as models

tf1 = tf.compat.v1
ROOT = Path(__file__).parents[2]
RUNS = 6  # of the session; after every second one there is a checkpoint
KILLED_AFTER = 3

# Name -> iterations_per_loop, replicas.
KINDS = {"one": (2, 1), "replicas": (2, 2), "pipelines": (4, 2)}

CHILD = """
import sys
from tests.estimators import test_resume
test_resume.train(sys.argv[1], sys.argv[2], killed=True)
raise SystemExit("nothing has killed this process")
"""


class Kill(tf1.train.SessionRunHook):
    """Ends the process as if the machine had lost power."""

    def __init__(self) -> None:
        self._runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._runs += 1
        if self._runs == KILLED_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)


class FirstStep(tf1.train.SessionRunHook):
    """Keeps the global step that the session starts with, in `value`."""

    value = -1

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        self.value = int(session.run(tf1.train.get_global_step()))


def adam() -> tf1.train.Optimizer:
    return tf1.train.AdamOptimizer(0.05)


def train(kind: str, folder: str, killed: bool = False) -> tuple[Any, FirstStep]:
    """Trains to the end, or until the process is killed. The data goes on where the weights do."""
    iterations, replicas = KINDS[kind]
    config: dict[str, Any] = {"model_dir": folder, "save_checkpoints_steps": 2 * iterations}
    if kind == "pipelines":
        estimator = pipelined.estimator(
            iterations, replicas, params={"optimizer": "adam"}, config=config
        )
        data = pipelined.repeated
    else:
        estimator = models.estimator(
            models.run_config(iterations, replicas, **config), params={"optimizer": adam}
        )
        data = models.repeated
    trained = 0
    if estimator.latest_checkpoint():
        trained = int(estimator.get_variable_value("global_step"))
    first = FirstStep()
    estimator.train(
        lambda: data().skip(trained * replicas),
        hooks=[first, *([Kill()] if killed else [])],
        max_steps=RUNS * iterations,
    )
    return estimator, first


@pytest.mark.parametrize("kind", KINDS)
def test_killed_training_resumes(
    run_program: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    iterations, _ = KINDS[kind]
    folder = str(tmp_path / "killed")
    child = run_program(CHILD, args=[kind, folder], cwd=ROOT, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    saved = (KILLED_AFTER - 1) * iterations
    assert tf.train.latest_checkpoint(folder) == f"{folder}/model.ckpt-{saved}"

    resumed, first = train(kind, folder)
    straight, _ = train(kind, str(tmp_path / "straight"))
    assert first.value == saved
    assert resumed.get_variable_value("global_step") == RUNS * iterations
    names = straight.get_variable_names()
    assert resumed.get_variable_names() == names
    assert any("Adam" in name for name in names)
    for name in names:
        np.testing.assert_array_equal(
            resumed.get_variable_value(name), straight.get_variable_value(name), err_msg=name
        )


def test_training_that_is_complete_is_not_done_again(tmp_path: Path) -> None:
    train("one", str(tmp_path))
    _, again = train("one", str(tmp_path))
    assert again.value == -1, "there was a session"
