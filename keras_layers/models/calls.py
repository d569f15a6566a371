"""The steps that `fit`, `evaluate` and `predict` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.keras_layers.models import checks, padding, programs, replicas
from tensorflow_ipu.keras_layers.models import steps as steps_lib
from tensorflow_ipu.keras_layers.models.data import Data
from tensorflow_ipu.keras_layers.models.execution import Delivery, Runner
from tensorflow_ipu.keras_layers.models.steps import Steps
from tensorflow_ipu.versions import keras2

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

callbacks_lib = keras2.module("callbacks")
training_lib = keras2.module("engine.training")


def plan_inference(model: IPUModel, data: Data, requested: int | None) -> Steps:
    """Returns the steps that a model runs in `evaluate` or `predict`.

    Args:
        model: an extended model.
        data: the batches.
        requested: what the user passed for `steps`.
    """
    stages = model._pipeline_stages() if model._is_pipelined() else 1
    return steps_lib.plan_inference(
        data, "steps", requested, per_execution(model), _number(model), stages
    )


def plan_training(model: IPUModel, data: Data, requested: int | None, epochs: int) -> Steps:
    """Returns the steps that a model runs in `fit`.

    Args:
        model: an extended model.
        data: the batches.
        requested: what the user passed for `steps_per_epoch`.
        epochs: number of epochs that run.
    """
    argument, number, each = "steps_per_epoch", _number(model), per_execution(model)
    # Padding follows the last batch of the data, which a number of steps may not come to.
    if model._ipu_options.pad_in_fit and requested in (None, data.size):
        count = checks.accumulation_steps(model)
        return steps_lib.plan_padded_training(data, argument, requested, each, number, count)
    return steps_lib.plan(data, argument, requested, each, number, epochs)


def _number(model: IPUModel) -> int:
    """Returns the number of replicas that a model runs on."""
    ipus = model._pipeline_ipus() if model._is_pipelined() else 1
    return replicas.replication_factor(model.distribute_strategy.device_ordinal, ipus)


def runner(model: IPUModel, mode: str, data: Data, steps: Steps, epochs: int = 1) -> Runner:
    """Returns what runs a model over the steps of one call, with its program found or made.

    Args:
        model: an extended model.
        mode: a mode of `programs`.
        data: the batches.
        steps: what to run.
        epochs: number of epochs.
    """
    options = model._ipu_options
    group = checks.accumulation_steps(model) * steps.replicas
    batches = padding.prepared(data, steps, mode, group, epochs)
    accumulates = model._is_pipelined() and bool(options.pipelining_accumulate_outfeed)
    predicts = mode == programs.PREDICT
    asynchronous = options.asynchronous_callbacks and (predicts or not accumulates)
    # Sums over mini-batches need an outfeed that keeps all. So do steps without data, after which
    # it is an earlier one that counts.
    every_step = predicts or asynchronous or accumulates or bool(batches.sizes)
    program = programs.of(
        model, mode, batches.dataset, steps.per_execution, steps.replicas, every_step, batches.sizes
    )
    reduction = options.replicated_metric_reduction_method
    delivery = Delivery(predicts, asynchronous, reduction)
    return Runner(program, batches, steps, _counter(model, mode), delivery)


def _counter(model: IPUModel, mode: str) -> tf.Variable:
    """Returns the number of steps that have ended, which Keras counts in its own steps."""
    return {
        programs.TRAIN: model._train_counter,
        programs.TEST: model._test_counter,
        programs.PREDICT: model._predict_counter,
    }[mode]


def per_execution(model: IPUModel) -> int:
    """Returns `steps_per_execution` of a model; 1 for one that was not compiled."""
    counter = model._steps_per_execution
    return 1 if counter is None else int(counter.numpy())


def callback_list(model: IPUModel, callbacks: Any, verbose: Any, epochs: int, steps: Steps) -> Any:
    """Returns a list of callbacks as Keras makes it.

    Args:
        model: the model.
        callbacks: what the user passed, or the list of the `fit` that this is part of.
        verbose: whether there is a progress bar.
        epochs: number of epochs.
        steps: what is run.
    """
    if isinstance(callbacks, callbacks_lib.CallbackList):
        return callbacks
    verbose = training_lib._get_verbosity(verbose, model.distribute_strategy)
    callbacks = tf.nest.flatten(callbacks) if callbacks else []
    if verbose and not any(isinstance(one, callbacks_lib.ProgbarLogger) for one in callbacks):
        callbacks = [*callbacks, _ProgressBar(count_mode="steps")]
    made = callbacks_lib.CallbackList(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        model=model,
        verbose=verbose,
        epochs=epochs,
        steps=steps.per_epoch,
    )
    for callback in made:
        if isinstance(callback, callbacks_lib.BackupAndRestore):
            # It lists the strategies it knows. To a checkpoint, this one is as good as none.
            callback._supported_strategies += (type(model.distribute_strategy),)
    return made


def checked_logs(logs: Any, step: str) -> dict[str, Any]:
    """Returns the logs of an epoch.

    Args:
        logs: what the last step gave.
        step: name of the method that did.

    Raises:
        ValueError: If that is no dict.
    """
    if not isinstance(logs, dict):
        raise ValueError(
            f"{step}() of the model must return a dict of loss and metrics by name. "
            f"Received: {logs!r}"
        )
    return logs


def epoch_logs(model: IPUModel, logs: dict[str, Any], step: str, steps: Steps) -> dict[str, Any]:
    """Returns what an epoch reports.

    Args:
        model: the model.
        logs: what the last step gave.
        step: name of the method that did.
        steps: what was run.

    Returns:
        The logs. For a step of the model's own that returns values under the names of the model's
        metrics, these metrics have the last word, as in Keras. Of several replicas the host has
        no metrics but those of the first.
    """
    synthetic = common.is_synthetic(SyntheticDataCategory.Outfeed)
    if steps.replicas > 1 or synthetic or not checks.is_overridden(model, step):
        return logs
    reported: dict[str, Any] = model._validate_and_get_metrics_result(logs)
    return reported


_StockProgressBar: Any = callbacks_lib.ProgbarLogger


class _ProgressBar(_StockProgressBar):
    """Shows one value where there is one of each replica: their mean."""

    def _batch_update_progbar(self, batch: int, logs: Any = None) -> None:
        super()._batch_update_progbar(batch, _means(logs))

    def _finalize_progbar(self, logs: Any, counter: Any) -> None:
        super()._finalize_progbar(_means(logs), counter)


def _means(logs: Any) -> dict[str, Any]:
    return {
        name: np.mean(value) if isinstance(value, list) else value
        for name, value in (logs or {}).items()
    }
