"""Base class of `IPUEstimator` and `IPUPipelineEstimator`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.eager import context

from tensorflow_ipu.estimators import arguments, session_hooks, stock_overrides
from tensorflow_ipu.util.short_repr import shows

__all__ = ["IPUEstimatorBase", "PredictionProgram"]


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
        request: what is asked for.

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
            request: what is asked for.
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
            start = session_hooks.SessionStart(estimator._ipu, batches)
            self._session = cleanup.enter_context(_monitored(estimator, program, request, start))

    def items(self) -> Iterator[Any]:
        """Yields items until the dataset ends or a hook asks to stop."""
        while not (self._ended or self._session.should_stop()):
            yield from self._take_apart(self._run())

    def _run(self) -> Any:
        """Returns what one run predicts, with leading dimensions `[L]`, or `[L, R]` for R > 1."""

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
    """Yields what each iteration predicts: `[(R), batch, ...]`."""
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


class IPUEstimatorBase(stock_overrides.ProgramEstimator):
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
