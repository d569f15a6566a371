"""Base class of `IPUEstimator` and `IPUPipelineEstimator`: stock estimators with IPU programs."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.eager import context

from tensorflow_ipu.api import ipu_compiler, scopes, utils
from tensorflow_ipu.estimators import arguments, input, ipu_run_config, sessions
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.sessions import WorkerEstimator
from tensorflow_ipu.ops import summary_ops
from tensorflow_ipu.util.short_repr import shows

__all__ = ["IPUEstimatorBase", "PredictionProgram"]


# --- Stock estimators with IPU programs ---

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
            model_dir: folder for checkpoints and summaries; the folder of `config` if None, or a
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
        """Returns the `params` that the user's functions get and may keep."""
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
        """Returns the scope of host ops."""
        scope: contextlib.AbstractContextManager[Any] = tf.device("/device:CPU:0")
        return scope

    def _assert_members_are_not_overridden(self) -> None:
        """Allows this class to override members that stock `Estimator` protects."""

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
        return [sessions.StopAtStep(steps, max_steps, self._ipu.iterations_per_loop)]

    def _convert_eval_steps_to_hooks(self, steps: int) -> list[tf1.train.SessionRunHook]:
        """Converts steps to runs, which stock hooks count."""
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
        hooks = [sessions.SessionStart(self._ipu, batches), sessions.NoEndOfData()]
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
        """Adds the hooks that save checkpoints. State at the end of the dataset is not saved."""
        chief_hooks = [
            sessions.NoEndOfData(),
            *estimator_spec.training_chief_hooks,
            *sessions.save_checkpoints(
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


# --- Base class ---


class PredictionProgram(NamedTuple):
    """A program that predicts.

    Args:
        launch: what to run for `iterations_per_loop` batches of each replica: an operation or
            tensor of the session's graph.
        dequeue: adds ops to the graph that take the predictions of all batches out of the outfeed:
            a tensor or a dict of tensors.
        hooks: those that the model asks for.
        scaffold: the session's, if the model has one.
    """

    launch: Any
    dequeue: Callable[[], Any]
    hooks: tuple[Any, ...] = ()
    scaffold: Any = None


class PredictionRequest(NamedTuple):
    """The arguments of `predict` other than `input_fn`."""

    predict_keys: Any
    hooks: Any
    checkpoint_path: str | None
    yield_single_examples: bool
    num_predictions: int | None


def _predict(
    estimator: IPUEstimatorBase, input_fn: Callable[..., Any], request: PredictionRequest
) -> Iterator[Any]:
    """Yields predictions; see `IPUEstimatorBase.predict`.

    Args:
        estimator: the estimator.
        input_fn: returns the dataset.
        request: the requested predictions.

    Yields:
        Arrays, or dicts of arrays.
    """
    with contextlib.ExitStack() as cleanup:
        session = _PredictionSession(estimator, input_fn, request, cleanup)
        yield from itertools.islice(session.items(), request.num_predictions)


class _PredictionSession:
    """A session that predicts. Outside its runs the caller's graph is the default one."""

    def __init__(
        self,
        estimator: IPUEstimatorBase,
        input_fn: Callable[..., Any],
        request: PredictionRequest,
        cleanup: contextlib.ExitStack,
    ) -> None:
        """Builds the program and starts the session.

        Args:
            estimator: the estimator.
            input_fn: returns the dataset.
            request: the requested predictions.
            cleanup: where to register what has to be ended and freed.
        """
        self._graph = tf.Graph()
        self._ended = False
        self._take_apart = _examples if request.yield_single_examples else _iterations
        with context.graph_mode(), self._graph.as_default():
            tf1.set_random_seed(estimator.config.tf_random_seed)
            estimator._create_and_assert_global_step(self._graph)
            batches = estimator._new_batches(input_fn, tf.estimator.ModeKeys.PREDICT)
            cleanup.callback(batches.delete)
            program = estimator._call_model_fn(
                batches, None, tf.estimator.ModeKeys.PREDICT, estimator.config
            )
            with tf.control_dependencies([program.launch]):
                self._of_run = _predictions(estimator, program, request)
            # For what is there when the dataset ends in the middle of a run.
            self._of_last_run = _predictions(estimator, program, request)
            start = sessions.SessionStart(estimator._ipu, batches)
            self._session = cleanup.enter_context(_monitored(estimator, program, request, start))

    def items(self) -> Iterator[Any]:
        """Yields items until the dataset ends or a hook asks to stop."""
        while not (self._ended or self._session.should_stop()):
            yield from self._take_apart(self._run())

    def _run(self) -> Any:
        """Returns the predictions of one run: `[L, ...]`, or `[L, R, ...]` for R > 1."""

        def take_rest(step_context: Any) -> Any:
            return step_context.session.run(self._of_last_run)

        with context.graph_mode(), self._graph.as_default():
            try:
                return self._session.run(self._of_run)
            except tf.errors.OutOfRangeError:
                self._ended = True
                return self._session.run_step_fn(take_rest)


def _predictions(estimator: Any, program: PredictionProgram, request: PredictionRequest) -> Any:
    """Returns the tensors that are asked for, out of all that is in the outfeed."""
    return estimator._extract_keys(program.dequeue(), request.predict_keys)


def _monitored(
    estimator: Any, program: PredictionProgram, request: PredictionRequest, start: Any
) -> tf1.train.MonitoredSession:
    """Starts a session with the variables of a checkpoint, or with their initial values."""
    for hook in request.hooks or ():
        if not isinstance(hook, tf1.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook. Received: {hook!r}")
    path = request.checkpoint_path or estimator.latest_checkpoint()
    if not path:
        tf1.logging.info(
            "There is no trained model in model_dir %s: predicting with initial values.",
            estimator.model_dir,
        )
    estimator._maybe_warm_start(path)
    return tf1.train.MonitoredSession(
        session_creator=tf1.train.ChiefSessionCreator(
            checkpoint_filename_with_path=path,
            master=estimator.config.master,
            scaffold=program.scaffold,
            config=estimator.config.session_config,
        ),
        hooks=[start, *(request.hooks or ()), *program.hooks],
    )


def _iterations(values: Any) -> Iterator[Any]:
    """Yields the predictions of each iteration: `[(R), batch, ...]`."""
    for index in range(len(tf.nest.flatten(values)[0])):
        yield tf.nest.map_structure(lambda array, i=index: array[i], values)


def _examples(values: Any) -> Iterator[Any]:
    """Yields examples, with one replica; with more, the batch of each replica in turn.

    Raises:
        ValueError: If predictions differ in how many there are of them.
    """
    for iteration in _iterations(values):
        lengths = {array.shape[:1] for array in tf.nest.flatten(iteration)}
        if len(lengths) != 1 or lengths == {()}:
            raise ValueError(
                "Batch length of predictions should be same, to take batches apart. Received the "
                f"leading dimensions {sorted(lengths)}. Set yield_single_examples=False."
            )
        yield from _iterations(iteration)


class IPUEstimatorBase(ProgramEstimator):
    """An estimator whose sessions launch programs on an IPU device.

    Sessions, checkpoints, summaries, warm start and export are those of stock `Estimator`. It asks
    `_get_features_and_labels_from_input_fn` for the input, which is a `Batches` here, and passes
    that to `_call_model_fn`, which builds the program around the user's model function.

    A subclass says what the programs are, with the methods below; they are called in the graph of
    the session, outside device scopes. Everything that they put on the host belongs under
    `with self._on_host():`, else TensorFlow may place it on the IPU.

    * `_training_program(batches, config)` returns a stock `EstimatorSpec` of mode TRAIN: `train_op`
      does one run, without `global_step`, which this class advances by `iterations_per_loop` after
      it; `loss` is a scalar.
    * `_evaluation_program(batches, config)` returns a stock `EstimatorSpec` of mode EVAL: `loss`
      and `eval_metric_ops` (pairs of value and update op) on the host, updated once in a run.
    * `_prediction_program(batches, config)` returns a `PredictionProgram`.
    * `_host_spec(features, labels, mode, config)` returns a stock `EstimatorSpec` of the model in
      the graph of the host, for export: features and labels are ordinary tensors.
    * `_prepare_dataset(dataset, mode)` checks the elements of the dataset of `input_fn`, and
      returns the dataset that the infeed is made of.

    They may use:

    * `self._ipu`: the `IPURunConfig`; `self._num_workers`: processes that train together.
    * `self._params_for(mode)`: what the user's functions get as `params`.
    * `self._compile(computation)`: `ipu_compiler.compile` on the device.
    * `batches.infeed`, `batches.new_outfeed(mode)`: queues, freed when the session has ended.
    * `checks.check_replicated_training(graph, replicas)`, to be called in the computation.

    `warm_start_from`, `model_dir` and `params` are as for stock `Estimator`.
    """

    __repr__ = shows(
        lambda self: {
            "model_dir": self.model_dir,
            "device": self._ipu.device,
            "iterations_per_loop": self._ipu.iterations_per_loop,
            "num_replicas": self._ipu.num_replicas,
            "num_shards": self._ipu.num_shards,
        }
    )

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Any = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> IPUEstimatorBase:
        """Trains the model.

        Args:
            input_fn: returns a `tf.data.Dataset`. May take `mode`, `params` and `config`.
            hooks: `tf.estimator.SessionRunHook` objects, called for each run of
                `iterations_per_loop` steps.
            steps: how many steps to train for; a multiple of `iterations_per_loop`.
            max_steps: value of the global step to train to, instead. Training ends at the first
                end of a run there or after it.
            saving_listeners: `tf.estimator.CheckpointSaverListener` objects.

        Returns:
            The estimator.

        Raises:
            ValueError: If the steps, the dataset or what the model function returns are wrong.
            tf.errors.OutOfRangeError: If the dataset ends before.
        """
        arguments.check_training_steps(steps, max_steps, self._ipu.iterations_per_loop)
        with self._batches_deleted():
            super().train(input_fn, hooks, steps, max_steps, saving_listeners)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the model.

        Args:
            input_fn: as for `train`.
            steps: how many steps to evaluate; a multiple of `iterations_per_loop`.
            hooks: as for `train`.
            checkpoint_path: checkpoint to evaluate; the latest if None, or initial values if there
                is none.
            name: name of the evaluation, part of that of the folder of its summaries.

        Returns:
            Values by name: the metrics, `loss` and `global_step`.

        Raises:
            ValueError: If the steps, the dataset or what the model function returns are wrong.
            tf.errors.OutOfRangeError: If the dataset ends before.
        """
        arguments.check_evaluation_steps(steps, self._ipu.iterations_per_loop)
        with self._batches_deleted():
            return super().evaluate(input_fn, steps, hooks, checkpoint_path, name)

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        num_predictions: int | None = None,
    ) -> Iterator[Any]:
        """Yields predictions, until the dataset ends.

        Args:
            input_fn: as for `train`; labels are dropped.
            predict_keys: names of the predictions to yield, if they are a dict; all if None.
            hooks: as for `train`.
            checkpoint_path: as for `evaluate`.
            yield_single_examples: whether to take batches apart. With one replica an item is then
                one example, with more it is the batch of one replica. Otherwise an item is what
                one iteration predicts, with a leading dimension for the replicas if there are more
                than one.
            num_predictions: how many items to yield at most.

        Yields:
            Arrays, or dicts of arrays.

        Raises:
            ValueError: If the dataset, the keys or what the model function returns are wrong.
        """
        yield from _predict(
            self,
            input_fn,
            PredictionRequest(
                predict_keys, hooks, checkpoint_path, yield_single_examples, num_predictions
            ),
        )
