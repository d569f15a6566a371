"""`fit`, `evaluate` and `predict` of Keras models on the device."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from absl import logging

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers.models import checks, execution, padding, programs
from tensorflow_ipu.keras_layers.models import data as data_lib
from tensorflow_ipu.keras_layers.models import steps as steps_lib
from tensorflow_ipu.keras_layers.models.data import Data
from tensorflow_ipu.keras_layers.models.execution import Delivery, Hooks, Runner
from tensorflow_ipu.keras_layers.models.steps import Steps

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


# --- Shared steps ---

callbacks_lib = keras2.module("callbacks")
training_lib = keras2.module("engine.training")


def plan_inference(model: IPUModel, data: Data, requested: int | None) -> Steps:
    """Returns the steps that a model runs in `evaluate` or `predict`.

    Args:
        model: an extended model.
        data: the batches.
        requested: the user's `steps`.
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
        requested: the user's `steps_per_epoch`.
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
    return execution.replication_factor(model.distribute_strategy.device_ordinal, ipus)


def make_runner(model: IPUModel, mode: str, data: Data, steps: Steps, epochs: int = 1) -> Runner:
    """Makes the runner of one call's steps, with the model's program found or made.

    Args:
        model: an extended model.
        mode: a mode of `programs`.
        data: the batches.
        steps: the steps to run.
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
    """Returns `steps_per_execution` of a model; 1 if it was not compiled."""
    counter = model._steps_per_execution
    return 1 if counter is None else int(counter.numpy())


def callback_list(model: IPUModel, callbacks: Any, verbose: Any, epochs: int, steps: Steps) -> Any:
    """Returns a list of callbacks as Keras makes it.

    Args:
        model: the model.
        callbacks: the user's argument, or the list of the `fit` that this is part of.
        verbose: whether there is a progress bar.
        epochs: number of epochs.
        steps: the steps to run.
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
        logs: results of the last step.
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
    """Returns the logs that an epoch reports.

    Args:
        model: the model.
        logs: results of the last step.
        step: name of the method that did.
        steps: the steps to run.

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


# --- evaluate ---

# Model attribute with the data of the validation that `fit` is at.
_VALIDATION = "_ipu_validation"


def evaluate(
    model: IPUModel,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    max_queue_size: int = 10,
    workers: int = 1,
    use_multiprocessing: bool = False,
    return_dict: bool = False,
    **kwargs: Any,
) -> Any:
    """Evaluates a model, with the arguments of `tf.keras.Model.evaluate`.

    Those from `max_queue_size` to `use_multiprocessing` are for generators, which the device does
    not take.
    """
    del max_queue_size, workers, use_multiprocessing
    cached = kwargs.pop("_use_cached_eval_dataset", False)
    if kwargs:
        raise TypeError(f"Invalid keyword arguments: {list(kwargs)}")
    checks.check(model, "evaluate")
    with model.distribute_strategy.scope():
        runner = model.__dict__.get(_VALIDATION) if cached else None
        if runner is None:
            runner = _runner(model, x, y, sample_weight, batch_size, steps)
        callbacks = callback_list(model, callbacks, verbose, 1, runner.steps)
        logs = _evaluate(model, runner, callbacks)
    if return_dict:
        return logs
    return training_lib.flatten_metrics_in_order(logs, model.metrics_names)


def _runner(
    model: IPUModel, x: Any, y: Any, sample_weight: Any, batch_size: int | None, steps: int | None
) -> Runner:
    data = data_lib.from_arguments(
        x, y, sample_weight, batch_size=batch_size, steps=steps, partial_batches=True
    )
    checks.check_with_data(model, "evaluate", data.dataset.element_spec)
    plan = plan_inference(model, data, steps)
    return make_runner(model, programs.TEST, data, plan)


def _evaluate(model: IPUModel, runner: Runner, callbacks: Any) -> dict[str, Any]:
    """Runs all steps and calls the callbacks in Keras's order."""
    model._test_counter.assign(0)
    callbacks.on_test_begin()
    model.reset_metrics()
    last: Any = {}
    hooks = Hooks(callbacks.on_test_batch_begin, callbacks.on_test_batch_end)
    runner.rewind()
    for results in runner.epoch(hooks):
        last = results
    logs = checked_logs(last, "test_step")
    logs = epoch_logs(model, logs, "test_step", runner.steps)
    callbacks.on_test_end(logs=logs)
    return logs


class Validation:
    """Evaluates a model after epochs of its training, always on the same batches."""

    def __init__(
        self, model: IPUModel, data: Any, batch_size: int | None, steps: int | None, frequency: Any
    ) -> None:
        """Creates the validation of a `fit`, from its arguments."""
        self._model = model
        self._x, self._y, self._sample_weight = tf.keras.utils.unpack_x_y_sample_weight(data)
        # That of data in memory, for a dataset that has batches of its own.
        self._batch_size = None if isinstance(self._x, tf.data.Dataset) else batch_size
        self._steps = steps
        self._frequency = frequency
        self._runner: Runner | None = None

    def is_due(self, epoch: int) -> bool:
        """Returns whether to evaluate after an epoch."""
        return bool(self._model._should_eval(epoch, self._frequency))

    def run(self, callbacks: Any) -> dict[str, Any]:
        """Evaluates the model and returns its logs."""
        model = self._model
        if self._runner is None:
            self._runner = _runner(
                model, self._x, self._y, self._sample_weight, self._batch_size, self._steps
            )
        model.__dict__[_VALIDATION] = self._runner
        try:
            # Through the model: the user's class may have an `evaluate` of its own.
            logs: dict[str, Any] = model.evaluate(
                x=self._x,
                y=self._y,
                sample_weight=self._sample_weight,
                batch_size=self._batch_size,
                steps=self._steps,
                callbacks=callbacks,
                return_dict=True,
                _use_cached_eval_dataset=True,
            )
        finally:
            del model.__dict__[_VALIDATION]
        return logs


# --- fit ---

data_adapter = keras2.module("engine.data_adapter")
training_utils = keras2.module("engine.training_utils")


def fit(
    model: IPUModel,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: Any = True,
    class_weight: Any = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: Any = 1,
    max_queue_size: int = 10,
    workers: int = 1,
    use_multiprocessing: bool = False,
) -> tf.keras.callbacks.History:
    """Trains a model, with the arguments of `tf.keras.Model.fit`.

    The last three are for generators, which the device does not take.
    """
    del max_queue_size, workers, use_multiprocessing
    checks.check(model, "fit")
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = data_adapter.train_validation_split(
            (x, y, sample_weight), validation_split=validation_split
        )
    with model.distribute_strategy.scope(), training_utils.RespectCompiledTrainableState(model):
        data = data_lib.from_arguments(
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            steps=steps_per_epoch,
            epochs=epochs - initial_epoch,
            shuffle=shuffle,
            class_weight=class_weight,
            partial_batches=model._ipu_options.pad_in_fit,
        )
        checks.check_with_data(model, "fit", data.dataset.element_spec)
        steps = plan_training(model, data, steps_per_epoch, epochs - initial_epoch)
        checks.check_accumulation(model, steps.per_execution)
        _log_batch_size(model, data, steps)
        validation = None
        if validation_data:
            validation = Validation(
                model,
                validation_data,
                validation_batch_size or batch_size,
                validation_steps,
                validation_freq,
            )
        callbacks = callback_list(model, callbacks, verbose, epochs, steps)
        runner = make_runner(model, programs.TRAIN, data, steps, epochs - initial_epoch)
        model._show_train_function(runner.traced)
        return _train(model, runner, callbacks, initial_epoch, epochs, validation)


def _train(
    model: IPUModel,
    runner: Runner,
    callbacks: Any,
    initial_epoch: int,
    epochs: int,
    validation: Validation | None,
) -> tf.keras.callbacks.History:
    """Runs the epochs and calls the callbacks in Keras's order."""
    model.stop_training = False
    model._train_counter.assign(0)
    callbacks.on_train_begin()
    initial_epoch, first_step = _restored(model, runner.steps, initial_epoch)
    logs = None
    for epoch in range(initial_epoch, epochs):
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        logs = copy.copy(_epoch(model, runner, callbacks, first_step))
        first_step = 0
        if validation is not None and validation.is_due(epoch):
            found = validation.run(callbacks)
            logs.update({f"val_{name}": value for name, value in found.items()})
        callbacks.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    if isinstance(model.optimizer, tf.keras.optimizers.Optimizer) and epochs > 0:
        model.optimizer.finalize_variable_values(model.trainable_variables)
    callbacks.on_train_end(logs=logs)
    return model.history


def _restored(model: IPUModel, steps: Steps, initial_epoch: int) -> tuple[int, int]:
    """Returns epoch and step to begin with; a BackupAndRestore callback may have restored them."""
    epoch, step = model._maybe_load_initial_counters_from_ckpt(steps.per_epoch, initial_epoch)
    # Keras goes on after the first step of the last execution, but all of its steps were done.
    step += -step % steps.per_execution
    return (epoch, step) if step < steps.per_epoch else (epoch + 1, 0)


def _epoch(model: IPUModel, runner: Runner, callbacks: Any, first_step: int) -> dict[str, Any]:
    """Runs an epoch and returns its logs."""
    hooks = Hooks(callbacks.on_train_batch_begin, callbacks.on_train_batch_end)
    last: Any = {}
    for results in runner.epoch(hooks, first_step):
        last = results
        if model.stop_training:
            break
    logs = checked_logs(last, "train_step")
    return epoch_logs(model, logs, "train_step", runner.steps)


def _log_batch_size(model: IPUModel, data: data_lib.Data, steps: Steps) -> None:
    """Tells how many samples an update is made of."""
    batch = data.batch_size
    if batch is None:
        first = tf.nest.flatten(data.dataset.element_spec)[0].shape
        batch = first[0] if first.rank else 1
    if batch is None:
        return  # not known before the dataset has been read
    count = checks.accumulation_steps(model)
    if count * steps.replicas > 1:
        logging.info(
            "The effective batch size is %d: batches of %d, %d gradient accumulation step(s), "
            "%d replica(s).",
            batch * count * steps.replicas,
            batch,
            count,
            steps.replicas,
        )


# --- predict ---


def predict(
    model: IPUModel,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
    max_queue_size: int = 10,
    workers: int = 1,
    use_multiprocessing: bool = False,
) -> Any:
    """Predicts with a model, with the arguments of `tf.keras.Model.predict`.

    The last three are for generators, which the device does not take.
    """
    del max_queue_size, workers, use_multiprocessing
    checks.check(model, "predict")
    with model.distribute_strategy.scope():
        data = data_lib.from_arguments(x, batch_size=batch_size, steps=steps, partial_batches=True)
        checks.check_with_data(model, "predict", data.dataset.element_spec)
        plan = plan_inference(model, data, steps)
        callbacks = callback_list(model, callbacks, verbose, 1, plan)
        runner = make_runner(model, programs.PREDICT, data, plan)
        model._predict_counter.assign(0)
        callbacks.on_predict_begin()
        hooks = Hooks(
            callbacks.on_predict_batch_begin,
            lambda step, found: callbacks.on_predict_batch_end(step, {"outputs": found}),
        )
        outputs = list(runner.epoch(hooks))
        callbacks.on_predict_end()
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)
