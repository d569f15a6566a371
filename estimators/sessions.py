"""Sessions of estimators: their hooks, and several workers that share the chief's checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context

from tensorflow_ipu.distributed import transport
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.estimators import ipu_run_config
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.ipu_run_config import RunConfig

# --- Session hooks ---


class SessionStart(tf1.train.SessionRunHook):
    """Configures the IPU system before the session is made, and fills the infeed after that."""

    def __init__(self, options: ipu_run_config.IPURunConfig, batches: Batches) -> None:
        """Creates the hook; `begin` and `after_create_session` do the setup.

        Args:
            options: options of the estimator.
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
    """A hook that makes the end of the dataset an error, not the end of the session."""

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


# --- Workers ---

ModeKeys = tf.estimator.ModeKeys


class WorkerEstimator(tf1.estimator.Estimator):
    """A stock estimator in one of the processes of a distribution strategy, if it has one.

    Each process has a session of its own. The first is the chief.
    """

    _config: RunConfig
    _model_dir: str

    def __init__(
        self, model_fn: Any, model_dir: Any, config: RunConfig, params: Any, warm_start_from: Any
    ) -> None:
        """Makes the estimator.

        Args:
            model_fn: as for stock `Estimator`, as are all.
            model_dir: folder for checkpoints and summaries.
            config: how and where to run.
            params: passed to the user's functions.
            warm_start_from: checkpoint to take initial values from.
        """
        self._strategies = {
            ModeKeys.TRAIN: config.train_distribute,
            ModeKeys.EVAL: config.eval_distribute,
        }
        # Whether it is the chief of a training that evaluates now, which the others do not.
        self._evaluates_alone = False
        # Processes that train together.
        self._num_workers = self._instances(ModeKeys.TRAIN).count
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        # Stock estimators would split the input of a strategy; here each process has a feed.
        self._train_distribution = self._eval_distribution = None

    def _instances(self, mode: str) -> Instances:
        """Returns the processes that run programs of a mode together."""
        strategy = self._strategy(mode)
        return Instances() if strategy is None else strategy.instances

    def _strategy(self, mode: str) -> Any:
        """Returns the strategy that programs of a mode are built with, or None."""
        if mode == ModeKeys.EVAL and self._evaluates_alone:
            return None
        return self._strategies.get(mode)

    def _input_context(self, mode: str) -> tf.distribute.InputContext | None:
        """Returns which part of the input this process is to have; None without a strategy."""
        if self._strategies.get(mode) is None:
            return None
        instances = self._instances(mode)
        return tf.distribute.InputContext(instances.count, instances.index, instances.count)

    @contextlib.contextmanager
    def _in_strategy(self, mode: str) -> Iterator[None]:
        """Enters the distribution strategy of a mode, if there is one, to build programs."""
        strategy = self._strategy(mode)
        if strategy is None:
            yield
            return
        with strategy.scope(), distribute_lib.ReplicaContext(strategy, 0):
            yield

    def _train_with_estimator_spec(
        self,
        estimator_spec: tf.estimator.EstimatorSpec,
        worker_hooks: list[Any],
        hooks: list[Any],
        global_step_tensor: Any,
        saving_listeners: list[Any],
    ) -> Any:
        """Starts all workers from the same checkpoint, and ends when the chief has saved."""
        instances = self._instances(ModeKeys.TRAIN)
        if instances.index > 0:
            estimator_spec = estimator_spec._replace(training_chief_hooks=[])
            saving_listeners = []
        with self._as_worker(instances):
            loss = super()._train_with_estimator_spec(
                estimator_spec, worker_hooks, hooks, global_step_tensor, saving_listeners
            )
        if instances.count > 1:
            _told("trained")
        return loss

    @contextlib.contextmanager
    def _as_worker(self, instances: Instances) -> Iterator[None]:
        """Makes sessions restore from the folder of the chief; in others than that, save nothing.

        What the chief evaluates in between, it evaluates alone.
        """
        if instances.count == 1:
            yield
            return
        before = self._config, self._model_dir
        self._model_dir = folder_of_chief(self._model_dir)
        self._evaluates_alone = True
        if instances.index > 0:
            self._config = self._config.of_follower()
        try:
            yield
        finally:
            self._config, self._model_dir = before
            self._evaluates_alone = False

    def _actual_eval(
        self,
        input_fn: Any,
        strategy: Any = None,
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the same checkpoint in all workers."""
        instances = self._instances(ModeKeys.EVAL)
        if instances.count > 1 and checkpoint_path is None:
            folder = folder_of_chief(self._model_dir)
            checkpoint_path = tf.train.latest_checkpoint(folder)
        return super()._actual_eval(input_fn, strategy, steps, hooks, checkpoint_path, name)

    def _evaluate_run(
        self,
        checkpoint_path: str | None,
        scaffold: Any,
        update_op: Any,
        eval_dict: Any,
        all_hooks: Any,
        output_dir: str,
    ) -> dict[str, Any]:
        """Evaluates; only the chief keeps summaries."""
        arguments = checkpoint_path, scaffold, update_op, eval_dict, all_hooks
        if self._instances(ModeKeys.EVAL).index == 0:
            return super()._evaluate_run(*arguments, output_dir)
        with tempfile.TemporaryDirectory() as passing:
            return super()._evaluate_run(*arguments, passing)


def folder_of_chief(folder: str) -> str:
    """Returns the chief's folder for checkpoints, from which all workers restore.

    Args:
        folder: folder of this worker.

    Raises:
        RuntimeError: In all workers, if one of them does not find what the chief has saved.
    """
    chief = _told(folder if "://" in folder else os.path.abspath(folder))[0]
    found = _told(os.path.basename(tf.train.latest_checkpoint(chief) or ""))
    for worker, name in enumerate(found):
        if name != found[0]:
            raise RuntimeError(
                f"All workers start from the checkpoint of the chief, {found[0] or 'none'} in "
                f"{chief}, but worker {worker} finds {name or 'none'} there. model_dir must be a "
                "folder that all of them share."
            )
    return str(chief)


def _told(text: str) -> list[Any]:
    """Gathers a text from each worker, in the order of their indices. All workers wait here."""
    line = list((json.dumps(text) + "\n").encode())
    with context.eager_mode(), tf.device("/device:CPU:0"):
        lines = transport.joined(tf.constant(line, tf.uint8), "estimator")
    return [json.loads(one) for one in bytes(lines.numpy().tolist()).splitlines()]
