"""Runs the prediction program until the dataset ends, and splits its results by element."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.eager import context

from tensorflow_ipu.estimators import session_hooks

if TYPE_CHECKING:
    from tensorflow_ipu.estimators import base


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


def predict(
    estimator: base.IPUEstimatorBase, input_fn: Callable[..., Any], request: PredictionRequest
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
        session = _Session(estimator, input_fn, request, cleanup)
        yield from itertools.islice(session.items(), request.num_predictions)


class _Session:
    """A session that predicts. Outside its runs the caller's graph is the default one."""

    def __init__(
        self,
        estimator: base.IPUEstimatorBase,
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
