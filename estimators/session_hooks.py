"""Session hooks of estimators: starting feeds, ending the training, saving checkpoints."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu.estimators import ipu_run_config
from tensorflow_ipu.estimators.input import Batches


class SessionStart(tf1.train.SessionRunHook):
    """Configures the IPU system before the session is made, and fills the infeed after that."""

    def __init__(self, options: ipu_run_config.IPURunConfig, batches: Batches) -> None:
        """Remembers what to set up.

        Args:
            options: those of the estimator.
            batches: the feeds of the session's program.
        """
        self._options = options
        self._batches = batches
        self._initializer: tf.Operation | None = None

    def begin(self) -> None:
        """Configures the IPU system."""
        ipu_run_config.configure(self._options)
        self._initializer = self._batches.infeed.initializer

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Starts reading the dataset."""
        del coord
        session.run(self._initializer)


class NoEndOfData(tf1.train.SessionRunHook):
    """Makes the end of the dataset an error, where a session would take it for its own end."""

    def end(self, session: tf1.Session) -> None:
        """Raises the error with which the session ends, if that is the end of the dataset.

        Raises:
            tf.errors.OutOfRangeError: If so.
        """
        del session
        reason = sys.exc_info()[1]
        if isinstance(reason, tf.errors.OutOfRangeError):
            raise tf.errors.OutOfRangeError(
                reason.node_def,
                reason.op,
                "The dataset of input_fn ended before all steps were done. Each step reads one "
                "batch for each replica: repeat the dataset, or do fewer steps. "
                f"{reason.message}",
            ) from reason


class StopAtStep(tf1.train.SessionRunHook):
    """Stops at the first end of a run where the global step has reached a value."""

    def __init__(self, steps: int | None, last_step: int | None, iterations: int) -> None:
        """Remembers when to stop; one of the first two arguments is None.

        Args:
            steps: steps from the start of the session.
            last_step: value of the global step.
            iterations: steps in a run.
        """
        self._steps = steps
        self._last_step = last_step
        self._iterations = iterations
        self._global_step: Any = None

    def begin(self) -> None:
        """Looks up the global step."""
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Counts steps from here."""
        del coord
        if self._steps is not None:
            self._last_step = session.run(self._global_step) + self._steps

    def before_run(self, run_context: Any) -> tf1.train.SessionRunArgs:
        """Asks for the global step, as it is before the run or after it."""
        del run_context
        return tf1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Asks to stop when the step is reached."""
        if run_values.results + self._iterations < self._last_step:
            return
        if run_context.session.run(self._global_step) >= self._last_step:
            run_context.request_stop()


def save_checkpoints(
    config: tf1.estimator.RunConfig,
    scaffold: tf1.train.Scaffold,
    hooks: list[Any],
    iterations_per_loop: int,
) -> list[Any]:
    """Makes checkpoints be saved at the first end of a run where they are due.

    Stock hooks expect that a run is one step, and would save one run later.

    Args:
        config: when to save.
        scaffold: the session's.
        hooks: hooks that the session has; those that save checkpoints are told how long a run is.
        iterations_per_loop: steps in a run.

    Returns:
        The hook that the session needs beside them: none or one.
    """
    saving = [hook for hook in hooks if isinstance(hook, tf1.train.CheckpointSaverHook)]
    added = []
    if not saving and (config.save_checkpoints_secs or config.save_checkpoints_steps):
        added = [
            tf1.train.CheckpointSaverHook(
                config.model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=scaffold,
                save_graph_def=config.checkpoint_save_graph_def,
            )
        ]
    for hook in (*saving, *added):
        hook._set_steps_per_run(iterations_per_loop)
    return added
