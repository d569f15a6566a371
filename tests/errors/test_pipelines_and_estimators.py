"""Words of errors that programs look for: pipelines and estimators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.support.models import estimator_models as models
from tests.support.models import pipelines

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys
Pipeline = ipu.pipelining_ops
Options = Pipeline.PipelineStageOptions
IPUEstimatorSpec = ipu.ipu_estimator.IPUEstimatorSpec
Hook = ipu.ipu_session_run_hooks.IPULoggingTensorHook


class Phrase(NamedTuple):
    """An error.

    Args:
        name: The API and what is wrong.
        error: Its class.
        phrase: What programs look for in its message.
        provoke: Makes it.
    """

    name: str
    error: type[Exception]
    phrase: str
    provoke: Callable[[], Any]


# ---- pipelines


def _build(*stages: Any, **arguments: Any) -> Any:
    """Builds a pipeline of two stages; it does not run."""

    def optimizer_function(loss: tf.Tensor) -> Any:
        return Pipeline.OptimizerFunctionOutput(pipelines.optimizer("sgd"), loss)

    train = arguments.pop("train", True)
    outfeed = arguments.pop("outfeed_queue", ipu.ipu_outfeed_queue.IPUOutfeedQueue())
    return pipelines.run(
        list(stages) or pipelines.stages(2),
        pipelines.data(4),
        opt="sgd" if train else None,
        outfeed_queue=outfeed,
        **{"gradient_accumulation_count": 4, **arguments},
    )


def _pipeline(
    name: str, error: type[Exception], phrase: str, *stages: Any, **arguments: Any
) -> Phrase:
    return Phrase(f"pipeline, {name}", error, phrase, lambda: _build(*stages, **arguments))


PIPELINES = [
    _pipeline(
        "device_mapping neither list nor tuple",
        TypeError,
        "device_mapping argument needs to be a list or a tuple.",
        device_mapping=3,
    ),
    _pipeline(
        "batch serialization over several IPUs",
        NotImplementedError,
        "When using batch serialization, all the pipeline stages need to be mapped to a single "
        "IPU.",
        batch_serialization_iterations=2,
        device_mapping=[0, 1],
    ),
    _pipeline(
        "Interleaved, training, stages that share an IPU",
        NotImplementedError,
        "The pipelining schedule 'Interleaved' does not currently support multiple pipeline "
        "stages on the same device for training graphs.",
        pipeline_schedule=Pipeline.PipelineSchedule.Interleaved,
        device_mapping=[0, 0],
    ),
    *(
        _pipeline(
            f"number of {part} options",
            ValueError,
            f"{part}_propagation_stages_poplar_options must be a list or a tuple of "
            "PipelineStageOptions objects of length 2",
            **{f"{part}_propagation_stages_poplar_options": [Options()]},
        )
        for part in ("forward", "backward")
    ),
    _pipeline(
        "type of weight_update_poplar_options",
        TypeError,
        "weight_update_poplar_options to be of type PipelineStageOptions, but got",
        weight_update_poplar_options={},
    ),
    _pipeline(
        "accumulate_outfeed with a queue of another mode",
        ValueError,
        "To accumulate the outfeed, it must be in IPUOutfeedMode ALL.",
        accumulate_outfeed=True,
        outfeed_queue=ipu.ipu_outfeed_queue.IPUOutfeedQueue(
            outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST
        ),
    ),
    _pipeline(
        "outfeed_loss without optimizer_function",
        ValueError,
        "An optimizer_function must be provided when outfeed_loss is True.",
        train=False,
        outfeed_loss=True,
    ),
    _pipeline(
        "outfeed_mask without optimizer_function",
        ValueError,
        "An optimizer_function must be provided when outfeed_mask is set.",
        train=False,
        outfeed_mask=[True],
    ),
    _pipeline(
        "outfeed_loss without a queue",
        ValueError,
        "An outfeed_queue must be provided when outfeed_loss is True",
        outfeed_loss=True,
        outfeed_queue=None,
    ),
    _pipeline(
        "outputs without a queue, and nothing to train",
        ValueError,
        "The last computational stage has tensor outputs: ",
        lambda x, y: x,
        lambda x: tf.reduce_sum(x),
        outfeed_mask=[False],
        outfeed_queue=None,
    ),
    _pipeline(
        "split optimizer state that is not offloaded",
        ValueError,
        "optimizer state must be offloaded",
        replicated_optimizer_state_sharding=True,
        offload_weight_update_variables=False,
    ),
    _pipeline(
        "a count below 0",
        ValueError,
        "gradient_accumulation_count must be >= 0",
        gradient_accumulation_count=-1,
    ),
    *(
        _pipeline(
            f"outputs without an outfeed, {'training' if train else 'inference'}",
            ValueError,
            phrase,
            train=train,
            outfeed_queue=None,
        )
        for train in (True, False)
        for phrase in (
            "The last computational stage has tensor outputs: ",
            ", but no outfeed_queue has been provided.",
        )
    ),
]


# ---- pipelined estimators


def _pipeline_estimator(model_fn: Callable[..., Any], iterations: int = 4, shards: int = 2) -> Any:
    return ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        model_fn, config=models.run_config(iterations, 1, shards)
    )


def _data() -> tf.data.Dataset:
    slices = tf.data.Dataset.from_tensor_slices(pipelines.data(4))
    return slices.batch(pipelines.BATCH, drop_remainder=True).repeat()


def _spec(mode: str, **arguments: Any) -> Any:
    """Returns a specification that can evaluate and predict, and train."""
    defaults = {
        "computational_stages": [lambda x, y: x, lambda x: tf.reduce_sum(x)],
        "gradient_accumulation_count": 4,
        "eval_metrics_fn": lambda loss: {"loss": loss},
        "optimizer_function": lambda loss: None,
    }
    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(mode, **{**defaults, **arguments})


def _run_estimator(made: Any, method: str = "evaluate", steps: int = 4) -> Any:
    if method == "predict":
        return next(made.predict(_data))
    return getattr(made, method)(_data, steps=steps)


def _pipelined(
    name: str,
    error: type[Exception],
    phrase: str,
    method: str = "evaluate",
    iterations: int = 4,
    shards: int = 2,
    **arguments: Any,
) -> Phrase:
    def provoke() -> None:
        model = lambda mode: _spec(mode, **arguments)  # noqa: E731  (it needs no name)
        _run_estimator(_pipeline_estimator(model, iterations, shards), method, iterations)

    return Phrase(f"IPUPipelineEstimator, {name}", error, phrase, provoke)


def _model_of_data(features: Any, labels: Any, mode: str) -> None:
    """Is no model function of a pipeline."""


PIPELINED_ESTIMATORS = [
    _pipelined(
        "metrics without loss",
        KeyError,
        "The dict returned from `eval_metrics_fn` must contain 'loss'",
        eval_metrics_fn=lambda loss: {},
    ),
    _pipelined(
        "iterations that are no multiple",
        ValueError,
        "`IPURunConfig.iterations_per_loop` (got 4) must be divisible by "
        "`gradient_accumulation_count` (got 3)",
        gradient_accumulation_count=3,
    ),
    _pipelined(
        "too few iterations",
        ValueError,
        "(got 4) cannot be less than `gradient_accumulation_count` (got 8)",
        gradient_accumulation_count=8,
    ),
    _pipelined(
        "too few devices",
        ValueError,
        "This pipeline requires 4 devices, but `IPURunConfig.num_shards` was set to 2",
        computational_stages=[],
        device_mapping=[0, 1, 2, 3],
    ),
    Phrase(
        "IPUPipelineEstimator, another specification",
        TypeError,
        "The `model_fn` used with `IPUPipelineEstimator` must return `IPUPipelineEstimatorSpec`.",
        lambda: _run_estimator(_pipeline_estimator(lambda mode: mode)),
    ),
    *(
        Phrase(
            f"IPUPipelineEstimator, a model function for data, {method}",
            ValueError,
            "must not have `features` or `labels` arguments",
            functools.partial(
                lambda method: _run_estimator(_pipeline_estimator(_model_of_data), method), method
            ),
        )
        for method in ("train", "evaluate", "predict")
    ),
    _pipelined(
        "several predictions",
        ValueError,
        "The last computational stage must return exactly one prediction tensor, but got 2",
        method="predict",
        computational_stages=[lambda x, y: x, lambda x: (x, x)],
    ),
    Phrase(
        "IPUPipelineEstimatorSpec, nothing to train with",
        ValueError,
        "`IPUPipelineEstimatorSpec` must contain `optimizer_function` when training",
        lambda: _spec(ModeKeys.TRAIN, optimizer_function=None),
    ),
    Phrase(
        "IPUPipelineEstimatorSpec, nothing to evaluate with",
        ValueError,
        "`IPUPipelineEstimatorSpec` must contain `eval_metrics_fn` when evaluating",
        lambda: _spec(ModeKeys.EVAL, eval_metrics_fn=None),
    ),
]


# ---- estimators


def _estimator(specification: Callable[..., Any], method: str, input_fn: Any = None) -> Any:
    """Trains or evaluates with the specification that a function makes of mode and loss."""

    def model(features: Any, labels: Any, mode: str) -> Any:
        return specification(mode, models.squared_error(labels, models.prediction(features)))

    made = models.estimator(model=model)
    if method == "predict":
        return next(made.predict(input_fn or models.repeated))
    return getattr(made, method)(input_fn or models.repeated, steps=1)


def _host_call_of_nothing(mode: str, loss: tf.Tensor) -> Any:
    return IPUEstimatorSpec(
        mode, loss=loss, train_op=tf.identity(loss), host_call=(lambda value: None, [loss])
    )


def _both_metrics(mode: str, loss: tf.Tensor) -> Any:
    metrics = {"eval_metric_ops": {"a": (loss, loss)}, "eval_metrics": (lambda x: {}, [loss])}
    return IPUEstimatorSpec(mode, loss=loss, **metrics)


def _advancing(mode: str, loss: tf.Tensor) -> Any:
    step = tf1.train.get_global_step()
    train_op = models.sgd().minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _spec_in_graph(**arguments: Any) -> None:
    with tf.Graph().as_default():
        IPUEstimatorSpec(ModeKeys.EVAL, loss=tf.constant(0.0), **arguments)


def _train_with_prefetch_depth(depth: int) -> None:
    estimator = models.estimator(models.run_config(ipu={"prefetch_depth": depth}))
    estimator.train(models.repeated, steps=1)


ESTIMATORS = [
    *(
        Phrase(
            f"IPUEstimator, {name} 0",
            ValueError,
            f"{name} (got 0) must be positive",
            functools.partial(models.estimator, **{name: 0}),
        )
        for name in ("train_batch_size", "eval_batch_size", "predict_batch_size")
    ),
    Phrase(
        "IPUEstimator, batch size and replicas",
        ValueError,
        "train_batch_size (got 1) must be divisible by num_workers * num_replicas (1 * 2)",
        lambda: models.estimator(models.run_config(replicas=2), train_batch_size=1),
    ),
    Phrase(
        "IPURunConfig, prefetch_depth when it trains",
        ValueError,
        "prefetch_depth must be greater than zero",
        lambda: _train_with_prefetch_depth(-1),
    ),
    Phrase(
        "IPUEstimator, batch_size twice",
        ValueError,
        "batch_size cannot be passed in params when a batch size argument is passed",
        lambda: models.estimator(train_batch_size=4, params={"batch_size": 2}),
    ),
    Phrase(
        "IPUEstimatorSpec, both kinds of metrics",
        ValueError,
        "EstimatorSpec cannot contain both eval_metric_ops and eval_metrics",
        lambda: _estimator(_both_metrics, "evaluate"),
    ),
    Phrase(
        "IPUEstimatorSpec, no metrics",
        ValueError,
        "EstimatorSpec must contain either eval_metric_ops or eval_metrics when evaluating",
        lambda: _estimator(lambda mode, loss: IPUEstimatorSpec(mode, loss=loss), "evaluate"),
    ),
    Phrase(
        "IPUEstimatorSpec, eval_metrics of a tensor",
        TypeError,
        "second element in `eval_metrics` must be a list or dict",
        lambda: _spec_in_graph(eval_metrics=(tf.group, 3)),
    ),
    Phrase(
        "IPUEstimatorSpec, host_call that returns nothing",
        TypeError,
        "`host_call` return value must be Operation or Tensor",
        lambda: _estimator(_host_call_of_nothing, "train"),
    ),
    Phrase(
        "IPURunConfig, replicas without ipu_options",
        ValueError,
        "configuration requires more than one device",
        lambda: ipu.ipu_run_config.IPURunConfig(num_replicas=3),
    ),
    Phrase(
        "IPUEstimator, a model that advances the global step",
        ValueError,
        "Illegal increment of the `global_step` variable in the `model_fn`",
        lambda: _estimator(_advancing, "train"),
    ),
    *(
        Phrase(
            f"IPUEstimator, tuples of {length}, {method}",
            ValueError,
            "input_fn should return (features, labels) as a len 2 tuple.",
            functools.partial(
                lambda length, method: _estimator(
                    _advancing,
                    method,
                    lambda: models.repeated().map(lambda x, y: (x, y, y)[:length]),
                ),
                length,
                method,
            ),
        )
        for length in (1, 3)
        for method in ("train", "evaluate", "predict")
    ),
]


# ---- logging


def _log(value: Any) -> None:
    with tf.Graph().as_default():
        Hook(at_end=True).log(value)


HOOKS = [
    Phrase(
        "IPULoggingTensorHook, both intervals",
        ValueError,
        "Cannot provide both every_n_iter and every_n_secs",
        lambda: Hook(every_n_iter=1, every_n_secs=1),
    ),
    Phrase(
        "IPULoggingTensorHook, no interval",
        ValueError,
        "Either every_n_iter, every_n_secs or at_end should be provided",
        lambda: Hook(),
    ),
    Phrase(
        "IPULoggingTensorHook.log, no tensor",
        TypeError,
        "Expected `tf.Tensor`, got",
        lambda: _log(3.0),
    ),
]


@pytest.mark.parametrize(
    "row", [*PIPELINES, *PIPELINED_ESTIMATORS, *ESTIMATORS, *HOOKS], ids=lambda row: row.name
)
def test_errors_have_the_phrase_of_the_original(row: Phrase) -> None:
    with pytest.raises(row.error) as raised:
        row.provoke()
    assert row.phrase in str(raised.value)
