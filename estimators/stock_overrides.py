"""Overrides of stock `Estimator` members that put IPU programs into its sessions."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu.api import ipu_compiler, scopes, utils
from tensorflow_ipu.estimators import arguments, input, ipu_run_config, session_hooks
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.workers import WorkerEstimator
from tensorflow_ipu.ops import summary_ops

ModeKeys = tf.estimator.ModeKeys


class ProgramEstimator(WorkerEstimator):
    """A stock estimator that runs programs; see `base.IPUEstimatorBase`, which it is made for."""

    # Whether one run may have several steps when there is a distribution strategy.
    _loops_with_strategy = False

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: ipu_run_config.RunConfig | None = None,
        params: dict[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        """Makes the estimator.

        Args:
            model_fn: function that stock `Estimator` accepts: with an argument `features`.
            model_dir: folder for checkpoints and summaries; that of `config` if None, or a
                temporary one.
            config: how and where to run; the defaults of `RunConfig` if None.
            params: passed to the user's functions that take `params`.
            warm_start_from: checkpoint to take initial values from.

        Raises:
            ValueError: If an argument is wrong.
        """
        config = ipu_run_config.RunConfig() if config is None else config
        arguments.check_config(config, self._loops_with_strategy)
        arguments.check_params(params)
        # A copy, as stock `Estimator` makes of the rest: the user may go on to change the options.
        self._ipu = copy.deepcopy(config.ipu_run_config)
        self._open_batches: list[Batches] = []
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    def _training_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        raise NotImplementedError

    def _evaluation_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        raise NotImplementedError

    def _prediction_program(self, batches: Batches, config: Any) -> Any:
        raise NotImplementedError

    def _host_spec(
        self, features: Any, labels: Any, mode: str, config: Any
    ) -> tf.estimator.EstimatorSpec:
        raise NotImplementedError

    def _prepare_dataset(self, dataset: tf.data.Dataset, mode: str) -> tf.data.Dataset:
        raise NotImplementedError

    def _params_for(self, mode: str) -> dict[str, Any]:
        """Returns what the user's functions get as `params`, to keep."""
        del mode
        return copy.deepcopy(self._params)

    def _new_batches(self, input_fn: Callable[..., Any], mode: str) -> Batches:
        """Calls `input_fn` and makes the feeds of a program."""
        dataset = self._call_input_fn(input_fn, mode, self._input_context(mode))
        with self._on_host():
            return Batches(self._prepare_dataset(dataset, mode), mode, self._ipu)

    def _compile(self, computation: Callable[..., Any]) -> Any:
        """Puts the launch of a program on the estimator's device into the graph."""
        with scopes.ipu_scope(self._ipu.device):
            return ipu_compiler.compile(computation)

    def _on_host(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a scope for what runs on the host."""
        scope: contextlib.AbstractContextManager[Any] = tf.device("/device:CPU:0")
        return scope

    def _assert_members_are_not_overridden(self) -> None:
        """Allows this class what stock `Estimator` refuses: it overrides the members below."""

    def _create_global_step(self, graph: tf.Graph) -> Any:
        """Makes the global step a resource, which programs may read.

        It is on the host unless one does: TensorFlow places a variable beside what uses it.
        """
        outer = tf1.get_variable_scope()
        with tf1.variable_scope(outer, use_resource=True):
            return tf1.train.create_global_step(graph)

    def _convert_train_steps_to_hooks(
        self, steps: int | None, max_steps: int | None
    ) -> list[tf1.train.SessionRunHook]:
        return [session_hooks.StopAtStep(steps, max_steps, self._ipu.iterations_per_loop)]

    def _convert_eval_steps_to_hooks(self, steps: int) -> list[tf1.train.SessionRunHook]:
        """Stock hooks count runs."""
        return super()._convert_eval_steps_to_hooks(steps // self._ipu.iterations_per_loop)

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> tf.data.Dataset:
        available = {
            "mode": mode,
            "params": self._params_for(mode),
            "config": self.config,
            "input_context": input_context,
        }
        if input_context is None:
            del available["input_context"]
        accepted = arguments.accepted_by(input_fn, available)
        with self._on_host():
            return input.check_dataset(input_fn(**accepted))

    def _get_features_and_labels_from_input_fn(
        self, input_fn: Callable[..., Any], mode: str
    ) -> tuple[Batches, None, list[tf1.train.SessionRunHook]]:
        """Returns the feeds in place of features, no labels, and the hooks of the feeds."""
        batches = self._new_batches(input_fn, mode)
        self._open_batches.append(batches)
        hooks = [session_hooks.SessionStart(self._ipu, batches), session_hooks.NoEndOfData()]
        return batches, None, hooks

    def _call_model_fn(
        self, features: Any, labels: Any, mode: str, config: Any
    ) -> tf.estimator.EstimatorSpec:
        """Builds the program for a `Batches`, and for ordinary features a model on the host."""
        if not isinstance(features, Batches):
            return self._host_spec(features, labels, mode, config)
        # What is built may depend on the configuration, as do shapes that come out of an outfeed.
        ipu_run_config.configure(self._ipu)
        with self._in_strategy(mode):
            result = self._program(features, mode, config)
        utils.move_variable_initialization_to_cpu()
        return result

    def _program(self, batches: Batches, mode: str, config: Any) -> Any:
        """Builds the program of a mode."""
        if mode == ModeKeys.PREDICT:
            return self._prediction_program(batches, config)
        if mode == ModeKeys.EVAL:
            return self._with_evaluation_summary(self._evaluation_program(batches, config))
        return self._with_global_step(self._training_program(batches, config))

    def _train_with_estimator_spec(
        self,
        estimator_spec: tf.estimator.EstimatorSpec,
        worker_hooks: list[Any],
        hooks: list[Any],
        global_step_tensor: Any,
        saving_listeners: list[Any],
    ) -> Any:
        """Adds the hooks that save checkpoints; what ends with the dataset is not saved."""
        chief_hooks = [
            session_hooks.NoEndOfData(),
            *estimator_spec.training_chief_hooks,
            *session_hooks.save_checkpoints(
                self._config,
                estimator_spec.scaffold,
                [*hooks, *estimator_spec.training_hooks, *estimator_spec.training_chief_hooks],
                self._ipu.iterations_per_loop,
            ),
        ]
        return super()._train_with_estimator_spec(
            estimator_spec._replace(training_chief_hooks=chief_hooks),
            worker_hooks,
            hooks,
            global_step_tensor,
            saving_listeners,
        )

    def _with_global_step(self, spec: tf.estimator.EstimatorSpec) -> tf.estimator.EstimatorSpec:
        """Returns a specification whose `train_op` also advances the global step."""
        self._add_compile_summary(spec.train_op)
        with tf.control_dependencies([spec.train_op, spec.loss]):
            advance = tf1.train.get_global_step().assign_add(
                self._ipu.iterations_per_loop, read_value=False
            )
            return spec._replace(train_op=tf.group(advance, spec.train_op))

    def _call_model_fn_eval(
        self, input_fn: Callable[..., Any], config: Any
    ) -> tuple[Any, Any, list[Any], tf.Operation, dict[str, Any]]:
        """Advances the global step after each run, as in training."""
        scaffold, model_hooks, input_hooks, update, results = super()._call_model_fn_eval(
            input_fn, config
        )
        with self._on_host(), tf.control_dependencies([update]):
            advance = tf1.train.get_global_step().assign_add(
                self._ipu.iterations_per_loop, read_value=False
            )
        return scaffold, model_hooks, input_hooks, tf.group(update, advance), results

    def _evaluate_build_graph(
        self, input_fn: Callable[..., Any], hooks: Any = None, checkpoint_path: str | None = None
    ) -> tuple[Any, tf.Operation, dict[str, Any], list[Any]]:
        """Reports the global step of the model that is evaluated: where evaluation starts."""
        scaffold, update, results, all_hooks = super()._evaluate_build_graph(
            input_fn, hooks, checkpoint_path
        )
        with self._on_host():
            start = tf1.Variable(
                tf1.train.get_global_step().read_value,
                trainable=False,
                collections=[tf1.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name="global_step_at_start",
            )
            results[tf1.GraphKeys.GLOBAL_STEP] = start.read_value()
        return scaffold, update, results, all_hooks

    def _with_evaluation_summary(
        self, spec: tf.estimator.EstimatorSpec
    ) -> tf.estimator.EstimatorSpec:
        """Returns a specification that saves the compile summary, where there is one."""
        summary = self._add_compile_summary(spec.loss)
        steps = self._config.save_summary_steps
        if summary is None or not steps:
            return spec
        saver = tf1.train.SummarySaverHook(
            save_steps=steps, output_dir=self.model_dir, summary_op=summary
        )
        return spec._replace(evaluation_hooks=[*spec.evaluation_hooks, saver])

    def _add_compile_summary(self, after: Any) -> tf.Tensor | None:
        """Makes a summary of the trace events up to the end of a run, if it is asked for."""
        if not self._ipu.compile_summary:
            return None
        return summary_ops.ipu_compile_summary("compile_summary", [after])

    @contextlib.contextmanager
    def _batches_deleted(self) -> Iterator[None]:
        """Frees the feeds that are made inside. Calls may be nested, by listeners."""
        outer, self._open_batches = self._open_batches, []
        try:
            yield
        finally:
            for batches in self._open_batches:
                batches.delete()
            self._open_batches = outer
