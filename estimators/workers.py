"""Estimators of several workers: all start from what the chief has saved, and only it saves."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context

from tensorflow_ipu.distributed import transport
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.estimators.ipu_run_config import RunConfig

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
        """Lets programs be built as the distribution strategy of a mode has it, if there is one."""
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
        folder: that of this worker.

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
    """Returns what each worker says, in order, when all have come here."""
    line = list((json.dumps(text) + "\n").encode())
    with context.eager_mode(), tf.device("/device:CPU:0"):
        lines = transport.joined(tf.constant(line, tf.uint8), "estimator")
    return [json.loads(one) for one in bytes(lines.numpy().tolist()).splitlines()]
