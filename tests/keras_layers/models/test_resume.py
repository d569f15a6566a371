"""Training that was killed goes on from the last checkpoint, and ends with the same weights."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.checkout.repository import ROOT
from tests.support.models import keras_models
from tests.support.models.keras_models import BATCH, KINDS, X, Y, state

pytestmark = keras_models.KERAS_WARNINGS

_EPOCHS = 4


class _Kill(tf.keras.callbacks.Callback):
    """Kills the process in the middle of the third epoch."""

    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._epoch == 2 and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def _saved(folder: Path, form: str) -> list[Path]:
    if form == "whole":
        return sorted(folder.glob("*.keras"))
    return sorted(path.with_suffix("") for path in folder.glob("*.index"))


def train(folder: Path, form: str, *callbacks: Any) -> tuple[tf.keras.Model, int]:
    """Trains for the epochs that are left, and saves after each.

    Args:
        folder: Where checkpoints are.
        form: What is saved: "whole" models, or "weights" with the state of the optimizer.
        *callbacks: Further ones.

    Returns:
        The model and the epoch that training began with.
    """
    with keras_models.strategy(2).scope():
        files = _saved(folder, form)
        if files and form == "whole":
            model = tf.keras.models.load_model(files[-1])
        else:
            kind = KINDS["functional" if form == "whole" else "functional_subclass"]
            model = kind.compiled("adam", loss="mse", steps_per_execution=2)
            model.set_gradient_accumulation_options(2)
            if files:
                model.load_weights(files[-1]).assert_existing_objects_matched()
        first = int(files[-1].stem) if files else 0
        name = "{epoch:02d}.keras" if form == "whole" else "{epoch:02d}"
        checkpoint = tf.keras.callbacks.ModelCheckpoint(
            str(folder / name), save_weights_only=form == "weights"
        )
        # Four steps of both replicas in an epoch, which are two executions and two updates.
        model.fit(
            X[:16],
            Y[:16],
            BATCH // 2,
            epochs=_EPOCHS,
            initial_epoch=first,
            verbose=0,
            shuffle=False,
            callbacks=[checkpoint, *callbacks],
        )
    return model, first


@pytest.mark.parametrize("form", ["whole", "weights"])
def test_killed_training_ends_as_one_that_was_not(
    run_program: Callable[..., Any], tmp_path: Path, form: str
) -> None:
    interrupted, straight = tmp_path / "interrupted", tmp_path / "straight"
    interrupted.mkdir()
    straight.mkdir()
    code = (
        "import sys, pathlib; from tests.keras_layers.models import test_resume as test;"
        "test.train(pathlib.Path(sys.argv[1]), sys.argv[2], test._Kill())"
    )
    killed = run_program(code, args=[str(interrupted), form], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(_saved(interrupted, form)) == 2
    found, first = train(interrupted, form)
    assert first == 2
    expected, _ = train(straight, form)
    assert expected.optimizer.iterations.numpy() == 2 * _EPOCHS
    pairs = zip(
        [*found.get_weights(), *state(found.optimizer)],
        [*expected.get_weights(), *state(expected.optimizer)],
    )
    for mine, theirs in pairs:
        np.testing.assert_array_equal(mine, theirs)
