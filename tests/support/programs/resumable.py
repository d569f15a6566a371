"""Trainings with checkpoints, one of each kind, which go on from those in their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models, keras_models
from tests.support.programs import replicas
from tests.support.programs.kills import RUNS_PER_SAVE

tf1 = tf.compat.v1

STEPS_PER_RUN = 2
REPLICAS = 2
WIDTH = 384  # checkpoints of a megabyte or two, which take several writes


class Outcome(NamedTuple):
    """Results of a training.

    Attributes:
        first: Checkpoints that were there when it began.
        values: All variables in the end, by name.
    """

    first: int
    values: dict[str, np.ndarray]


# Arguments: folder of the checkpoints, how many there are to be in the end, and what to call after
# each launch of the device.
Train = Callable[[Path, int, Callable[[], None]], Outcome]


def _data(done: int) -> tf.data.Dataset:
    """Returns the batches that follow after N checkpoints.

    There are 23 different ones, so that whoever starts again from the first is found out.
    """
    batches = estimator_models.dataset().take(23).repeat()
    return batches.skip(done * RUNS_PER_SAVE * STEPS_PER_RUN * REPLICAS)


def _features(x: tf.Tensor) -> tf.Tensor:
    """Returns `[batch, WIDTH]` of `[batch, 3]`, which costs nothing to draw and little to train."""
    return tf.tile(x, [1, WIDTH // 3])


def train_keras(folder: Path, saves: int, after_run: Callable[[], None]) -> Outcome:
    """Trains with `fit` and `BackupAndRestore`: an epoch for each checkpoint."""
    layers = tf.keras.layers
    begun = []
    follow = tf.keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: begun.append(epoch),
        on_train_batch_end=lambda *_: after_run(),
    )
    backup = tf.keras.callbacks.BackupAndRestore(str(folder), delete_checkpoint=False)
    with keras_models.strategy(REPLICAS).scope():
        keras_models.seed()
        model = tf.keras.Sequential(
            [
                layers.Input((3,)),
                layers.Lambda(_features),
                layers.Dense(WIDTH, "tanh"),
                layers.BatchNormalization(),
                layers.Dense(2),
            ]
        )
        model.compile("adam", "mse", steps_per_execution=STEPS_PER_RUN)
        data = keras_models.dataset(epochs=None)
        steps = RUNS_PER_SAVE * STEPS_PER_RUN * REPLICAS
        model.fit(data.take(steps), epochs=saves, verbose=0, callbacks=[backup, follow])
    variables = [*model.variables, *model.optimizer.variables]
    values = {f"{i} {variable.name}": variable.numpy() for i, variable in enumerate(variables)}
    return Outcome(begun[0] if begun else saves, values)


def train_session(folder: Path, saves: int, after_run: Callable[[], None]) -> Outcome:
    """Trains in a session of TensorFlow 1 with a `Saver`. The data goes on where the weights do."""
    replicas.configure(REPLICAS)
    latest = tf.train.latest_checkpoint(str(folder))
    first = int(latest.rsplit("-", 1)[1]) if latest else 0
    runs = RUNS_PER_SAVE * saves
    with tf.Graph().as_default():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(_data(first))
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            train = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(STEPS_PER_RUN, _step, [], infeed)
            )
        saver = tf1.train.Saver(max_to_keep=2)
        with tf1.Session() as session:
            session.run([infeed.initializer, tf1.global_variables_initializer()])
            if latest:
                saver.restore(session, latest)
            for run in range(first * RUNS_PER_SAVE, runs):
                session.run(train)
                after_run()
                if (run + 1) % RUNS_PER_SAVE == 0:
                    saver.save(session, str(folder / "model"), (run + 1) // RUNS_PER_SAVE)
            values = session.run({v.name: v for v in tf1.global_variables()})
    return Outcome(first, values)


def _step(x: tf.Tensor, y: tf.Tensor) -> Any:
    loss = tf.reduce_mean(tf.square(_prediction(x) - y))
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(_momentum())
    return optimizer.minimize(loss)


def _prediction(x: tf.Tensor) -> tf.Tensor:
    draw = tf1.random_normal_initializer(stddev=0.05, seed=3)
    with tf1.variable_scope("model", use_resource=True):
        hidden = tf1.get_variable("hidden", [WIDTH, WIDTH], initializer=draw)
        outer = tf1.get_variable("outer", [WIDTH, 1], initializer=draw)
    return tf.tanh(_features(x) @ hidden) @ outer


def _momentum() -> tf1.train.Optimizer:
    return tf1.train.MomentumOptimizer(0.01, 0.9)


def _model_fn(features: Any, labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
    loss = tf.reduce_mean(tf.square(_prediction(features) - labels))
    optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(_momentum())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


class _AfterRun(tf1.train.SessionRunHook):
    def __init__(self, after_run: Callable[[], None]) -> None:
        self._after_run = after_run

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._after_run()


def train_estimator(folder: Path, saves: int, after_run: Callable[[], None]) -> Outcome:
    """Trains an `IPUEstimator`. The data goes on where the weights do."""
    steps = RUNS_PER_SAVE * STEPS_PER_RUN
    config = estimator_models.run_config(
        STEPS_PER_RUN,
        REPLICAS,
        model_dir=str(folder),
        save_checkpoints_steps=steps,
        save_summary_steps=None,
        keep_checkpoint_max=2,
    )
    estimator = estimator_models.estimator(config, _model_fn)
    latest = estimator.latest_checkpoint()
    first = int(estimator.get_variable_value("global_step")) // steps if latest else 0
    estimator.train(
        lambda: _data(first),
        hooks=[_AfterRun(after_run)],
        max_steps=saves * steps,
    )
    names = estimator.get_variable_names()
    values = {name: estimator.get_variable_value(name) for name in names}
    return Outcome(first, values)


TRAININGS: Mapping[str, Train] = {
    "keras": train_keras,
    "session": train_session,
    "estimator": train_estimator,
}
