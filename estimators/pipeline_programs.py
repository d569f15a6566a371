"""Builds the programs of `IPUPipelineEstimator`: pipelines with feeds around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.estimators import base, checks, pipeline_functions, pipeline_spec
from tensorflow_ipu.estimators import evaluation as _evaluation
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.pipeline_spec import IPUPipelineEstimatorSpec
from tensorflow_ipu.feeds import ipu_infeed_queue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue, feed_of
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.ops.pipeline import arguments

if TYPE_CHECKING:
    from tensorflow_ipu.estimators.ipu_pipeline_estimator import IPUPipelineEstimator

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys


def training(
    estimator: IPUPipelineEstimator, batches: Batches, config: Any
) -> tf.estimator.EstimatorSpec:
    """Builds the program that trains on `iterations_per_loop` mini-batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: what the model function gets as `config`.

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


def evaluation(
    estimator: IPUPipelineEstimator, batches: Batches, config: Any
) -> tf.estimator.EstimatorSpec:
    """Builds the program that evaluates `iterations_per_loop` mini-batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: what the model function gets as `config`.

    Returns:
        What a session has to run; see `IPUEstimatorBase`.
    """
    pipeline = _Pipeline(estimator, batches, config)
    launch = estimator._compile(pipeline.evaluate)
    with estimator._on_host():
        loss, metrics = pipeline_functions.call_metrics_function(
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


def prediction(
    estimator: IPUPipelineEstimator, batches: Batches, config: Any
) -> base.PredictionProgram:
    """Builds the program that predicts for `iterations_per_loop` mini-batches, and its launch.

    Args:
        estimator: the estimator.
        batches: the feeds.
        config: what the model function gets as `config`.

    Returns:
        The program.
    """
    pipeline = _Pipeline(estimator, batches, config)
    launch = estimator._compile(pipeline.predict)
    outfeed = pipeline.outfeed
    pipeline_functions.single_prediction(feed_of(outfeed).element_spec)

    def dequeue() -> Any:
        # In programs for TensorFlow 1 a pipeline enqueues a single tensor as a list.
        return pipeline_functions.single_prediction(outfeed.dequeue())

    return base.PredictionProgram(launch, dequeue, pipeline.spec.prediction_hooks)


class _Pipeline:
    """A pipeline of a model function, with what it reads and fills.

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
        checks.check_global_step(graph, tf1.train.get_global_step())
        checks.check_replicated_training(graph, self._estimator._ipu.num_replicas)
        return operation

    def evaluate(self) -> tf.Operation:
        """Adds a pipeline that computes what metrics need to the program being built."""
        return self._build(self._call_model_fn().computational_stages)

    def predict(self) -> tf.Operation:
        """Adds a pipeline that predicts to the program being built."""
        spec = self._call_model_fn()
        inputs = arguments.input_list(spec.pipeline_op_kwargs.get("inputs"))
        element = ipu_infeed_queue.feed_of(self._batches.infeed).element_spec
        return self._build(
            pipeline_functions.without_labels(spec.computational_stages, len(inputs), element)
        )

    def loss(self, launch: tf.Operation) -> tf.Tensor:
        """Takes the mean loss of a mini-batch out of the outfeed, on the host.

        Args:
            launch: what fills the outfeed.

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
        """Takes what the last stage returned in a run out of the outfeed, on the host.

        Args:
            launch: what fills the outfeed.
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
        pipeline_spec.check_devices(spec, options.num_shards)
        self._repeat_count = pipeline_spec.repeat_count(spec, options.iterations_per_loop)
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
