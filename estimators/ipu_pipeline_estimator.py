"""`IPUPipelineEstimator`, for models in stages: the module `ipu.ipu_pipeline_estimator`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.util import function_utils

from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.estimators import arguments, base, specs
from tensorflow_ipu.estimators import specs as _evaluation
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.ipu_run_config import RunConfig
from tensorflow_ipu.estimators.specs import IPUPipelineEstimatorSpec
from tensorflow_ipu.feeds import ipu_infeed_queue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue, feed_of
from tensorflow_ipu.ops import optimizer_steps, pipelining_ops
from tensorflow_ipu.ops.pipeline import loop, stages
from tensorflow_ipu.ops.pipeline.pipeline_arguments import input_list

__all__ = ["IPUPipelineEstimator", "IPUPipelineEstimatorSpec"]


class IPUPipelineEstimator(base.IPUEstimatorBase):
    """An estimator that trains, evaluates and predicts with a pipeline over several IPUs.

    The model function says what the stages are; the first one takes the elements of the dataset.
    One run of the session takes `iterations_per_loop` mini-batches through the pipeline of each of
    `num_replicas` replicas, and updates the weights after every `gradient_accumulation_count` of
    them. With several replicas the optimizer has to be wrapped in a `CrossReplicaOptimizer`.
    """

    # Processes exchange gradients once for each update of the weights, not in each step.
    _loops_with_strategy = True

    def __init__(
        self,
        model_fn: Callable[..., IPUPipelineEstimatorSpec],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: dict[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        """Makes the estimator.

        Args:
            model_fn: takes of `mode`, `params` and `config` what it needs; returns an
                `IPUPipelineEstimatorSpec`.
            model_dir: folder for checkpoints and summaries; the folder of `config` if None, or a
                temporary one.
            config: how and where to run; the defaults of `RunConfig` if None.
            params: passed to functions that take `params`.
            warm_start_from: checkpoint or SavedModel to take initial values from, or
                `tf.estimator.WarmStartSettings`.

        Raises:
            ValueError: If an argument is wrong.
            NotImplementedError: If the configuration has a distribution strategy of another kind
                than an `IPUMultiWorkerStrategy` or `IPUHorovodStrategy`.
        """
        _check_model_fn(model_fn)
        self._user_model_fn = model_fn
        takes_params = "params" in function_utils.fn_args(model_fn)
        form = _with_params if takes_params else _without_params
        super().__init__(form, model_dir, config, params, warm_start_from)

    def _call_user_model(self, mode: str, config: Any) -> IPUPipelineEstimatorSpec:
        """Calls the model function with the arguments that it takes.

        Raises:
            ValueError: If it has arguments that it does not get.
            TypeError: If it returns no `IPUPipelineEstimatorSpec`.
        """
        _check_takes_no_data(self._user_model_fn)
        available = {"mode": mode, "params": self._params_for(mode), "config": config}
        spec = self._user_model_fn(**arguments.accepted_by(self._user_model_fn, available))
        if not isinstance(spec, IPUPipelineEstimatorSpec):
            raise TypeError(
                "The `model_fn` used with `IPUPipelineEstimator` must return "
                f"`IPUPipelineEstimatorSpec`. Received: {type(spec).__name__}"
            )
        specs.check_required(spec, mode)
        return spec

    def _prepare_dataset(self, dataset: tf.data.Dataset, mode: str) -> tf.data.Dataset:
        """Leaves elements as they are: the first stage takes them."""
        del mode
        return dataset

    def _training_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return _build_training(self, batches, config)

    def _evaluation_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return _build_evaluation(self, batches, config)

    def _prediction_program(self, batches: Batches, config: Any) -> base.PredictionProgram:
        return _build_prediction(self, batches, config)

    def _host_spec(
        self, features: Any, labels: Any, mode: str, config: Any
    ) -> tf.estimator.EstimatorSpec:
        spec = self._call_user_model(mode, config)
        return _host_spec(spec, features, labels, mode)


def _without_labels(stages: Any, inputs: int, element: Any) -> Any:
    """Returns the stages of a pipeline that predicts.

    Args:
        stages: the user's stages.
        inputs: how many arguments the first one gets before the element.
        element: the form of the dataset's elements.

    Returns:
        The same, except that the labels of (features, labels) are not passed to a first stage that
        only takes the features.
    """
    first = stages[0]
    is_pair = isinstance(element, tuple) and len(element) == 2
    if not is_pair or not callable(first) or _accepts(first, inputs + 2):
        return stages
    if not _accepts(first, inputs + 1):
        return stages

    @functools.wraps(first)
    def features_only(*arguments: Any) -> Any:
        return tensorflow_hooks.converted(first)(*arguments[:-1])

    return [features_only, *stages[1:]]


def _accepts(function: Callable[..., Any], positional: int, names: Any = ()) -> bool:
    """Returns whether a function takes a number of positional arguments and some named ones.

    Args:
        function: the function.
        positional: number of positional arguments.
        names: names of the keyword arguments.
    """
    try:
        inspect.signature(function).bind(*range(positional), **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _call_metrics_function(
    function: Callable[..., Any], outputs: Any
) -> tuple[tf.Tensor, dict[str, Any]]:
    """Calls the metrics function of a user, on the host.

    Args:
        function: the `eval_metrics_fn`.
        outputs: results of the last stage, stacked: a dict, a list or tuple, or one tensor.

    Returns:
        The loss, a scalar, and the other metrics by name.

    Raises:
        TypeError: If the function returns something else than a dict, or its loss is no tensor.
        KeyError: If there is no loss in it.
    """
    if isinstance(outputs, dict):
        returned = function(**outputs)
    else:
        returned = function(*outputs) if isinstance(outputs, (list, tuple)) else function(outputs)
    if not isinstance(returned, dict):
        raise TypeError(
            "The `eval_metrics_fn` must return a dict of (value, update_op) by name, and the "
            f"tensor 'loss'. Received: {type(returned).__name__}"
        )
    if "loss" not in returned:
        raise KeyError(
            "The dict returned from `eval_metrics_fn` must contain 'loss', a tensor. Received: "
            f"{sorted(map(str, returned))}"
        )
    metrics = dict(returned)
    loss = metrics.pop("loss")
    if not tf.is_tensor(loss):
        raise TypeError(
            "The 'loss' that `eval_metrics_fn` returns must be a tensor: the loss of the run. "
            f"Received: {loss!r}"
        )
    # One of each mini-batch is as good: this is what they are averaged to.
    return tf.reduce_mean(loss), metrics


def _single_prediction(outputs: Any) -> Any:
    """Returns the output of a pipeline's last stage after checking that it is one tensor or a dict.

    Args:
        outputs: a dict, a list or tuple, one tensor, or None for nothing; of tensors or their
            specifications.

    Raises:
        ValueError: If it is something else.
    """
    values = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    if len(values) != 1 or values[0] is None:
        raise ValueError(
            "The last computational stage must return exactly one prediction tensor, but got "
            f"{0 if outputs is None else len(values)}. To predict several, return them as a dict."
        )
    return values[0]


ModeKeys = tf.estimator.ModeKeys


def _host_spec(
    spec: IPUPipelineEstimatorSpec, features: Any, labels: Any, mode: str
) -> tf.estimator.EstimatorSpec:
    """Builds the model of a pipeline in the graph of the host, for one mini-batch.

    Args:
        spec: the result of the model function.
        features: a tensor, or a dict of tensors.
        labels: the same, or None.
        mode: the `tf.estimator.ModeKeys` to build it for.

    Returns:
        What stock estimators expect of a model function.
    """
    outputs = _run_stages(spec, features, labels)
    if mode == ModeKeys.PREDICT:
        predictions = _single_prediction(outputs)
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    if mode == ModeKeys.EVAL:
        stacked = tf.nest.map_structure(lambda tensor: tf.expand_dims(tensor, 0), outputs)
        loss, metrics = _call_metrics_function(
            spec.eval_metrics_fn, [] if stacked is None else stacked
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    values, named = stages.as_arguments(outputs)
    result = _converted(spec.optimizer_function)(*values, **named)
    train_op = optimizer_steps.apply_gradients(
        result.opt,
        loop._compute_gradients(result),
        {},
        *result.apply_gradients_args,
        **result.apply_gradients_kwargs,
    )
    return tf.estimator.EstimatorSpec(mode, loss=result.loss, train_op=train_op)


def _run_stages(spec: IPUPipelineEstimatorSpec, features: Any, labels: Any) -> Any:
    """Runs all stages one after the other and returns the outputs of the last."""
    inputs = input_list(spec.pipeline_op_kwargs.get("inputs"))
    values, named = _first_arguments(spec.computational_stages[0], inputs, features, labels)
    outputs: Any = None
    for stage in spec.computational_stages:
        members = stage if isinstance(stage, (list, tuple)) else (stage,)
        results = [_converted(member)(*values, **named) for member in members]
        outputs = results[0]
        if len(results) > 1:
            outputs = [v for result in results for v in stages.as_arguments(result)[0]]
        values, named = stages.as_arguments(outputs)
    return outputs


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a user's function as AutoGraph makes it, as in a pipeline."""
    with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.ENABLED):
        return tensorflow_hooks.converted(function)


def _first_arguments(
    stage: Any, inputs: list[Any], features: Any, labels: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of the first stage: features by name, if it takes them so."""
    first = stage[0] if isinstance(stage, (list, tuple)) else stage
    if labels is not None:
        return [*inputs, features, labels], {}
    names = features if isinstance(features, dict) else ()
    by_name = bool(names) and all(isinstance(name, str) for name in names)
    if by_name and _accepts(first, len(inputs), names):
        return inputs, dict(features)
    return [*inputs, features], {}


tf1 = tf.compat.v1


def _build_training(
    estimator: IPUPipelineEstimator, batches: Batches, config: Any
) -> tf.estimator.EstimatorSpec:
    """Builds the program that trains on `iterations_per_loop` mini-batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: the `config` of the model function.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    pipeline = _Pipeline(estimator, batches, config)
    launch = estimator._compile(pipeline.train)
    with estimator._on_host():
        return tf.estimator.EstimatorSpec(
            ModeKeys.TRAIN,
            loss=pipeline.loss(launch),
            train_op=launch,
            training_hooks=pipeline.spec.training_hooks,
        )


def _build_evaluation(
    estimator: IPUPipelineEstimator, batches: Batches, config: Any
) -> tf.estimator.EstimatorSpec:
    """Builds the program that evaluates `iterations_per_loop` mini-batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: the `config` of the model function.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    pipeline = _Pipeline(estimator, batches, config)
    launch = estimator._compile(pipeline.evaluate)
    with estimator._on_host():
        loss, metrics = _call_metrics_function(
            pipeline.spec.eval_metrics_fn, pipeline.outputs(launch)
        )
        with tf.control_dependencies([launch]):
            loss = tf.identity(loss)
        return tf.estimator.EstimatorSpec(
            ModeKeys.EVAL,
            loss=loss,
            eval_metric_ops=metrics,
            evaluation_hooks=pipeline.spec.evaluation_hooks,
        )


def _build_prediction(
    estimator: IPUPipelineEstimator, batches: Batches, config: Any
) -> base.PredictionProgram:
    """Builds the program that predicts for `iterations_per_loop` mini-batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: the `config` of the model function.

    Returns:
        The program.
    """
    pipeline = _Pipeline(estimator, batches, config)
    launch = estimator._compile(pipeline.predict)
    outfeed = pipeline.outfeed
    _single_prediction(feed_of(outfeed).element_spec)

    def dequeue() -> Any:
        # In programs for TensorFlow 1 a pipeline enqueues a single tensor as a list.
        return _single_prediction(outfeed.dequeue())

    return base.PredictionProgram(launch, dequeue, pipeline.spec.prediction_hooks)


class _Pipeline:
    """A pipeline of a model function, with its infeed and outfeed.

    Attributes:
        spec: What the model function returned, once a program was built.
        outfeed: What the pipeline fills.
    """

    spec: IPUPipelineEstimatorSpec

    def __init__(self, estimator: IPUPipelineEstimator, batches: Batches, config: Any) -> None:
        self._estimator = estimator
        self._batches = batches
        self._config = config
        self._repeat_count = 0
        self.outfeed: IPUOutfeedQueue = batches.new_outfeed()

    def train(self) -> tf.Operation:
        """Adds a pipeline that trains to the program being built."""
        spec = self._call_model_fn()
        operation = self._build(
            spec.computational_stages,
            optimizer_function=spec.optimizer_function,
            reduction_method=spec.reduction_method,
            outfeed_loss=True,
            accumulate_outfeed=True,
            accumulate_outfeed_dtype=spec.loss_accumulator_dtype,
        )
        graph = tf1.get_default_graph()
        arguments.check_global_step(graph, tf1.train.get_global_step())
        arguments.check_replicated_training(graph, self._estimator._ipu.num_replicas)
        return operation

    def evaluate(self) -> tf.Operation:
        """Adds the pipeline of an evaluation to the program being built."""
        return self._build(self._call_model_fn().computational_stages)

    def predict(self) -> tf.Operation:
        """Adds a pipeline that predicts to the program being built."""
        spec = self._call_model_fn()
        inputs = input_list(spec.pipeline_op_kwargs.get("inputs"))
        element = ipu_infeed_queue.feed_of(self._batches.infeed).element_spec
        return self._build(_without_labels(spec.computational_stages, len(inputs), element))

    def loss(self, launch: tf.Operation) -> tf.Tensor:
        """Takes the mean loss of a mini-batch out of the outfeed, on the host.

        Args:
            launch: the launch that fills the outfeed.

        Raises:
            ValueError: If the loss is not a scalar.
        """
        shape = feed_of(self.outfeed).element_spec.shape
        if shape.num_elements() != 1:
            raise ValueError(
                "The loss of optimizer_function must be a scalar. Received the shape "
                f"{shape}. Use tf.reduce_mean."
            )
        sums = self._dequeued(self._repeat_count, launch)
        return tf.reduce_mean(tf.cast(sums, tf.float32)) / self.spec.mini_batches_per_execution

    def outputs(self, launch: tf.Operation) -> Any:
        """Dequeues the outputs of the last stage in one run, on the host.

        Args:
            launch: the launch that fills the outfeed.
        """
        if not self.outfeed.enqueued:
            return []
        return self._dequeued(self._estimator._ipu.iterations_per_loop, launch)

    def _dequeued(self, groups: int, launch: tf.Operation) -> Any:
        replicas = self._estimator._ipu.num_replicas
        return _evaluation.dequeued(self.outfeed, [groups], replicas, launch)

    def _call_model_fn(self) -> IPUPipelineEstimatorSpec:
        options = self._estimator._ipu
        spec = self._estimator._call_user_model(self._batches.mode, self._config)
        specs.check_devices(spec, options.num_shards)
        self._repeat_count = specs.repeat_count(spec, options.iterations_per_loop)
        self.spec = spec
        return spec

    def _build(self, stages: Any, **arguments: Any) -> tf.Operation:
        return pipelining_ops.pipeline(
            stages,
            gradient_accumulation_count=self.spec.gradient_accumulation_count,
            repeat_count=self._repeat_count,
            infeed_queue=self._batches.infeed,
            outfeed_queue=self.outfeed,
            device_mapping=self.spec.device_mapping,
            **arguments,
            **self.spec.pipeline_op_kwargs,
        )


_DATA = ("features", "labels")


def _with_params(features: Any, labels: Any, mode: str, params: Any, config: Any) -> None:
    """Stands for the model function where stock `Estimator` checks its arguments."""


def _without_params(features: Any, labels: Any, mode: str, config: Any) -> None:
    """Stands for a model function without `params`."""


def _check_takes_no_data(model_fn: Callable[..., Any]) -> None:
    """Raises if a model function takes data; it is called without.

    Raises:
        ValueError: If it has arguments for features or labels.
    """
    names = function_utils.fn_args(model_fn)
    if any(name in names for name in _DATA):
        raise ValueError(
            "The `model_fn` used with `IPUPipelineEstimator` must not have `features` or `labels` "
            "arguments: the first of the computational_stages gets the elements of the dataset. "
            f"Received: model_fn({', '.join(names)})"
        )


def _check_model_fn(model_fn: Any) -> None:
    """Raises if a function is no model function of a pipeline.

    Raises:
        ValueError: If it is missing, or takes other arguments.
    """
    if model_fn is None:
        raise ValueError("model_fn must be provided to IPUPipelineEstimator.")
    # Those that are no data; see `_check_takes_no_data`.
    known = ("mode", "params", "config", *_DATA)
    unknown = [name for name in function_utils.fn_args(model_fn) if name not in known]
    if unknown:
        raise ValueError(
            "The model_fn of an IPUPipelineEstimator is called with `mode`, `params` and `config`. "
            f"Received a function that also takes: {', '.join(unknown)}"
        )
