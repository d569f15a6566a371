"""`IPUPipelineEstimator`, for models in stages: the module `ipu.ipu_pipeline_estimator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.util import function_utils

from tensorflow_ipu.estimators import (
    arguments,
    base,
    pipeline_export,
    pipeline_programs,
    pipeline_spec,
)
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.ipu_run_config import RunConfig
from tensorflow_ipu.estimators.pipeline_spec import IPUPipelineEstimatorSpec

__all__ = ["IPUPipelineEstimator", "IPUPipelineEstimatorSpec"]

_DATA = ("features", "labels")


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
            model_dir: folder for checkpoints and summaries; that of `config` if None, or a
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
        pipeline_spec.check_required(spec, mode)
        return spec

    def _prepare_dataset(self, dataset: tf.data.Dataset, mode: str) -> tf.data.Dataset:
        """Leaves elements as they are: the first stage takes them."""
        del mode
        return dataset

    def _training_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return pipeline_programs.training(self, batches, config)

    def _evaluation_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return pipeline_programs.evaluation(self, batches, config)

    def _prediction_program(self, batches: Batches, config: Any) -> base.PredictionProgram:
        return pipeline_programs.prediction(self, batches, config)

    def _host_spec(
        self, features: Any, labels: Any, mode: str, config: Any
    ) -> tf.estimator.EstimatorSpec:
        spec = self._call_user_model(mode, config)
        return pipeline_export.host_spec(spec, features, labels, mode)


def _with_params(features: Any, labels: Any, mode: str, params: Any, config: Any) -> None:
    """Stands for the model function where stock `Estimator` checks its arguments."""


def _without_params(features: Any, labels: Any, mode: str, config: Any) -> None:
    """Stands for a model function without `params`."""


def _check_takes_no_data(model_fn: Callable[..., Any]) -> None:
    """Refuses a model function for data, when it is to be called.

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
    """Refuses what is no model function of a pipeline.

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
