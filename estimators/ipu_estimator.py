"""`IPUEstimator`: the public module `ipu.ipu_estimator`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from tensorflow_ipu.api import loops, scopes
from tensorflow_ipu.estimators import arguments, base, input, specs
from tensorflow_ipu.estimators.input import Batches, split_element
from tensorflow_ipu.estimators.ipu_run_config import RunConfig
from tensorflow_ipu.estimators.specs import IPUEstimatorSpec
from tensorflow_ipu.feeds import ipu_infeed_queue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedMode
from tensorflow_ipu.ops import cross_replica_ops

__all__ = ["IPUEstimator", "IPUEstimatorSpec"]


class IPUEstimator(base.IPUEstimatorBase):
    """An estimator that trains, evaluates and predicts on IPUs.

    The model function is that of a stock estimator. What it builds becomes a program, which does
    `iterations_per_loop` iterations in one run of the session, on `num_replicas` replicas. The
    dataset is dealt to the replicas batch by batch. With several replicas the optimizer has to be
    wrapped in a `CrossReplicaOptimizer`.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: dict[str, Any] | None = None,
        warm_start_from: Any = None,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
    ) -> None:
        """Makes the estimator.

        Args:
            model_fn: takes `features`, and of `labels`, `mode`, `params` and `config` what it
                needs; returns an `EstimatorSpec` or an `IPUEstimatorSpec`.
            model_dir: folder for checkpoints and summaries; the folder of `config` if None, or a
                temporary one.
            config: how and where to run; the defaults of `RunConfig` if None.
            params: passed to functions that take `params`.
            warm_start_from: checkpoint or SavedModel to take initial values from, or
                `tf.estimator.WarmStartSettings`.
            train_batch_size: examples in a batch of all replicas together. Functions find the
                size for one replica in `params["batch_size"]`.
            eval_batch_size: the same, to evaluate.
            predict_batch_size: the same, to predict.

        Raises:
            ValueError: If an argument is wrong.
            NotImplementedError: If the configuration has a distribution strategy of another kind
                than an `IPUMultiWorkerStrategy` or `IPUHorovodStrategy`.
        """
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        sizes = {
            "train_batch_size": train_batch_size,
            "eval_batch_size": eval_batch_size,
            "predict_batch_size": predict_batch_size,
        }
        shares = self._num_workers * self._ipu.num_replicas
        arguments.check_batch_sizes(params, sizes, self._num_workers, self._ipu.num_replicas)
        modes = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
        self._batch_sizes = {
            mode: size // shares for mode, size in zip(modes, sizes.values()) if size is not None
        }

    def _params_for(self, mode: str) -> dict[str, Any]:
        """Adds the size of a replica's batch, if it is known."""
        params = super()._params_for(mode)
        if mode in self._batch_sizes:
            params["batch_size"] = self._batch_sizes[mode]
        return params

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> tf.data.Dataset:
        if mode in self._batch_sizes:
            arguments.check_accepts_params(input_fn)
        return super()._call_input_fn(input_fn, mode, input_context)

    def _prepare_dataset(self, dataset: tf.data.Dataset, mode: str) -> tf.data.Dataset:
        if mode == ModeKeys.PREDICT:
            return input.features_only(dataset)
        return input.features_and_labels(dataset)

    def _call_user_model(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Calls the model function with the arguments that it takes.

        Raises:
            ValueError: If there are labels and it does not take them.
        """
        available = {
            "labels": labels,
            "mode": mode,
            "params": self._params_for(mode),
            "config": config,
        }
        accepted = arguments.accepted_by(self._model_fn, available)
        if labels is not None and "labels" not in accepted:
            raise ValueError(
                "model_fn does not take labels, but input_fn returns labels. Give it an argument "
                "`labels`, or drop them from the dataset."
            )
        return self._model_fn(features=features, **accepted)

    def _on_last_shard(self) -> contextlib.AbstractContextManager[None]:
        """Returns the scope of the model's outputs: the last shard.

        A replica has as many IPUs as its program names, so this keeps replicas at the size that
        `num_shards` says.
        """
        shards = self._ipu.num_shards
        return scopes.ipu_shard(shards - 1) if shards > 1 else contextlib.nullcontext()

    def _training_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return _build_training(self, batches, config)

    def _evaluation_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return _build_evaluation(self, batches, config)

    def _prediction_program(self, batches: Batches, config: Any) -> base.PredictionProgram:
        outfeed = batches.new_outfeed()
        returned: list[Any] = []

        def program() -> Any:
            def body(*args: Any, **kwargs: Any) -> tf.Operation:
                features, _ = input.split_element(args, kwargs)
                returned[:] = [self._call_user_model(features, None, ModeKeys.PREDICT, config)]
                with self._on_last_shard():
                    return outfeed.enqueue(specs.from_stock(returned[0]).predictions)

            return loops.repeat(self._ipu.iterations_per_loop, body, [], batches.infeed)

        launch = self._compile(program)
        return base.PredictionProgram(
            launch,
            outfeed.dequeue,
            returned[0].prediction_hooks,
            getattr(returned[0], "scaffold", None),
        )

    def _host_spec(
        self, features: Any, labels: Any, mode: str, config: Any
    ) -> tf.estimator.EstimatorSpec:
        returned = self._call_user_model(features, labels, mode, config)
        return _host_spec(returned, mode)


def _host_spec(returned: Any, mode: str) -> tf.estimator.EstimatorSpec:
    """Converts the result of a model function to the spec of stock estimators.

    Args:
        returned: an `IPUEstimatorSpec` or an `EstimatorSpec`.
        mode: the `tf.estimator.ModeKeys` it was called with.

    Raises:
        ValueError: If it is something else.
    """
    if isinstance(returned, tf.estimator.EstimatorSpec):
        return returned
    given = specs.from_stock(returned)
    return tf.estimator.EstimatorSpec(
        mode,
        predictions=given.predictions,
        loss=given.loss,
        train_op=given.train_op if given.host_call is None else _host_train_op(given),
        eval_metric_ops=_host_metrics(given),
        training_hooks=given.training_hooks,
        evaluation_hooks=given.evaluation_hooks,
        prediction_hooks=given.prediction_hooks,
    )


def _host_train_op(given: specs.IPUEstimatorSpec) -> Any:
    """Returns the training op of a model with a host call."""
    with tf.control_dependencies([given.train_op]):
        return specs.host_operation(specs.call_host_function(given.host_call))


def _host_metrics(given: specs.IPUEstimatorSpec) -> Any:
    """Returns the metrics, for one iteration on one replica."""
    if given.eval_metrics is None:
        return given.eval_metric_ops
    function, tensors = given.eval_metrics
    stacked = tf.nest.map_structure(lambda tensor: tf.expand_dims(tensor, 0), tensors)
    return specs.metrics_dict(specs.call_host_function((function, stacked)))


_TRAIN = tf.estimator.ModeKeys.TRAIN


def _build_training(
    estimator: IPUEstimator, batches: Batches, config: Any
) -> tf.estimator.EstimatorSpec:
    """Builds the program that does `iterations_per_loop` steps, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: the `config` of the model function.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    iterations = estimator._ipu.iterations_per_loop
    step = _TrainingStep(estimator, config)

    def one_step() -> list[tf.Tensor]:
        element = ipu_infeed_queue.feed_of(batches.infeed).dequeue()
        if isinstance(element, dict):
            loss = step.train((), element)
        else:
            loss = step.train(element if isinstance(element, tuple) else (element,), {})
        return [loss, *step.tensors_for_host()]

    def all_steps() -> tf.Tensor:
        def body(total: tf.Tensor, /, *args: Any, **kwargs: Any) -> tf.Tensor:
            loss = step.train(args, kwargs)
            step.refuse_host_call()
            with estimator._on_last_shard():
                return total + loss

        total = loops.repeat(iterations, body, [tf.constant(0.0)], batches.infeed)
        return cross_replica_ops.cross_replica_mean(total / iterations)

    loss, *tensors = estimator._compile(one_step if iterations == 1 else all_steps)
    return step.session_spec(loss, tensors)


class _TrainingStep:
    """A training step on one replica, with the result of the model function."""

    def __init__(self, estimator: IPUEstimator, config: Any) -> None:
        self._estimator = estimator
        self._config = config
        self._global_step = tf1.train.get_global_step()
        self._returned: Any = None
        self._spec: Any = None

    def train(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tf.Tensor:
        """Adds the step to the program.

        Args:
            args: features, and labels if there are any.
            kwargs: features by name, instead.

        Returns:
            The loss before the step, a float32 scalar that is there after it.
        """
        features, labels = split_element(args, kwargs)
        self._returned = self._estimator._call_user_model(features, labels, _TRAIN, self._config)
        self._spec = specs.from_stock(self._returned)
        graph = tf1.get_default_graph()
        arguments.check_global_step(graph, self._global_step)
        arguments.check_replicated_training(graph, self._estimator._ipu.num_replicas)
        with self._estimator._on_last_shard(), tf.control_dependencies([self._spec.train_op]):
            return tf.cast(tf.identity(self._spec.loss), tf.float32)

    def tensors_for_host(self) -> list[tf.Tensor]:
        """Returns the arguments of the host call, with their values after the step."""
        if self._spec.host_call is None:
            return []
        with tf.control_dependencies([self._spec.train_op]):
            return [tf.identity(tensor) for tensor in self._spec.host_call[1]]

    def refuse_host_call(self) -> None:
        """Raises an error if the model has a host call.

        Raises:
            ValueError: If so.
        """
        if self._spec.host_call is not None:
            raise ValueError(
                "host_call is not allowed for iterations_per_loop > 1, as the host cannot come "
                "in between the iterations of one run. Received: iterations_per_loop="
                f"{self._estimator._ipu.iterations_per_loop}"
            )

    def session_spec(self, loss: tf.Tensor, tensors: list[tf.Tensor]) -> tf.estimator.EstimatorSpec:
        """Returns the spec of a training session: the loss, the training op and hooks.

        Args:
            loss: result of the launch.
            tensors: those for the host call, if there is one.
        """
        train_op = loss.op
        if self._spec.host_call is not None:
            with self._estimator._on_host(), tf.control_dependencies([train_op]):
                train_op = specs.host_operation(self._spec.host_call[0](*tensors))
        return tf.estimator.EstimatorSpec(
            _TRAIN,
            loss=specs.loss_that_moves(loss),
            train_op=train_op,
            training_hooks=self._spec.training_hooks,
            training_chief_hooks=getattr(self._returned, "training_chief_hooks", None),
            scaffold=getattr(self._returned, "scaffold", None),
        )


_EVAL = tf.estimator.ModeKeys.EVAL


def _build_evaluation(
    estimator: IPUEstimator, batches: Batches, config: Any
) -> tf.estimator.EstimatorSpec:
    """Builds the program that evaluates `iterations_per_loop` batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: the `config` of the model function.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    iterations = estimator._ipu.iterations_per_loop
    step = _EvaluationStep(estimator, batches, config)

    def program() -> tf.Tensor:
        def body(total: tf.Tensor, /, *args: Any, **kwargs: Any) -> tf.Tensor:
            return total + step.evaluate(args, kwargs)

        total = loops.repeat(iterations, body, [tf.constant(0.0)], batches.infeed)
        return cross_replica_ops.cross_replica_mean(total / iterations)

    (loss,) = estimator._compile(program)
    with estimator._on_host():
        return step.session_spec(loss)


class _EvaluationStep:
    """An iteration of evaluation on one replica, with the result of the model function."""

    def __init__(self, estimator: IPUEstimator, batches: Batches, config: Any) -> None:
        self._estimator = estimator
        self._batches = batches
        self._config = config
        self._returned: Any = None
        self._spec: Any = None
        self._outfeed: Any = None

    def evaluate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tf.Tensor:
        """Adds the iteration to the program.

        Args:
            args: features, and labels if there are any.
            kwargs: features by name, instead.

        Returns:
            The loss, a float32 scalar.
        """
        features, labels = split_element(args, kwargs)
        self._returned = self._estimator._call_user_model(features, labels, _EVAL, self._config)
        self._spec = specs.check_metrics(specs.from_stock(self._returned))
        if self._spec.eval_metrics is not None:
            mode, tensors = IPUOutfeedMode.ALL, self._spec.eval_metrics[1]
        else:
            mode, tensors = IPUOutfeedMode.LAST, specs.updates(self._spec.eval_metric_ops)
        with (
            self._estimator._on_last_shard(),
            tf.control_dependencies(self._enqueue(mode, tensors)),
        ):
            return tf.cast(tf.identity(self._spec.loss), tf.float32)

    def _enqueue(self, mode: IPUOutfeedMode, tensors: Any) -> list[tf.Operation]:
        if not tensors:
            return []
        self._outfeed = self._batches.new_outfeed(mode)
        return [self._outfeed.enqueue(tensors)]

    def session_spec(self, loss: tf.Tensor) -> tf.estimator.EstimatorSpec:
        """Returns the spec of an evaluation session: the loss and metrics after the launch.

        Args:
            loss: result of the launch.
        """
        return tf.estimator.EstimatorSpec(
            _EVAL,
            loss=specs.loss_that_moves(loss),
            eval_metric_ops=self._metrics(loss),
            evaluation_hooks=self._spec.evaluation_hooks,
            scaffold=getattr(self._returned, "scaffold", None),
        )

    def _metrics(self, launch: tf.Tensor) -> dict[str, tuple[Any, Any]]:
        """Makes the metrics of the host."""
        options = self._estimator._ipu
        if self._spec.eval_metrics is None:
            values = specs.dequeued(self._outfeed, [], options.num_replicas, launch)
            return {
                name: specs.last_value(name, value, options.num_replicas)
                for name, value in values.items()
            }
        function, tensors = self._spec.eval_metrics
        if self._outfeed is not None:
            iterations = options.iterations_per_loop
            tensors = specs.dequeued(self._outfeed, [iterations], options.num_replicas, launch)
        return specs.metrics_dict(specs.call_host_function((function, tensors)))


ModeKeys = tf.estimator.ModeKeys
