"""`IPUEstimator`: the public module `ipu.ipu_estimator`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu import loops, scopes
from tensorflow_ipu.estimators import arguments, base, evaluation, export, input, spec, training
from tensorflow_ipu.estimators.input import Batches
from tensorflow_ipu.estimators.ipu_run_config import RunConfig
from tensorflow_ipu.estimators.spec import IPUEstimatorSpec

__all__ = ["IPUEstimator", "IPUEstimatorSpec"]

ModeKeys = tf.estimator.ModeKeys


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
            model_dir: folder for checkpoints and summaries; that of `config` if None, or a
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
        """Returns a scope for what leaves the model.

        A replica has as many IPUs as its program names, so this keeps replicas at the size that
        `num_shards` says.
        """
        shards = self._ipu.num_shards
        return scopes.ipu_shard(shards - 1) if shards > 1 else contextlib.nullcontext()

    def _training_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return training.build(self, batches, config)

    def _evaluation_program(self, batches: Batches, config: Any) -> tf.estimator.EstimatorSpec:
        return evaluation.build(self, batches, config)

    def _prediction_program(self, batches: Batches, config: Any) -> base.PredictionProgram:
        outfeed = batches.new_outfeed()
        returned: list[Any] = []

        def program() -> Any:
            def body(*args: Any, **kwargs: Any) -> tf.Operation:
                features, _ = input.split_element(args, kwargs)
                returned[:] = [self._call_user_model(features, None, ModeKeys.PREDICT, config)]
                with self._on_last_shard():
                    return outfeed.enqueue(spec.from_stock(returned[0]).predictions)

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
        return export.host_spec(returned, mode)
