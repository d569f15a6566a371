"""`fit` on the device."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from tensorflow_ipu.keras_layers.models import (
    calls,
    checks,
    evaluation,
    programs,
)
from tensorflow_ipu.keras_layers.models import (
    data as data_lib,
)
from tensorflow_ipu.keras_layers.models.execution import Hooks, Runner
from tensorflow_ipu.keras_layers.models.steps import Steps
from tensorflow_ipu.versions import keras2

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

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
    """Trains a model; the arguments after the model are those of `tf.keras.Model.fit`.

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
        steps = calls.plan_training(model, data, steps_per_epoch, epochs - initial_epoch)
        checks.check_accumulation(model, steps.per_execution)
        _log_batch_size(model, data, steps)
        validation = None
        if validation_data:
            validation = evaluation.Validation(
                model,
                validation_data,
                validation_batch_size or batch_size,
                validation_steps,
                validation_freq,
            )
        callbacks = calls.callback_list(model, callbacks, verbose, epochs, steps)
        runner = calls.runner(model, programs.TRAIN, data, steps, epochs - initial_epoch)
        model._show_train_function(runner.traced)
        return _train(model, runner, callbacks, initial_epoch, epochs, validation)


def _train(
    model: IPUModel,
    runner: Runner,
    callbacks: Any,
    initial_epoch: int,
    epochs: int,
    validation: evaluation.Validation | None,
) -> tf.keras.callbacks.History:
    """Runs the epochs; the order of the callbacks is that of Keras."""
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
    logs = calls.checked_logs(last, "train_step")
    return calls.epoch_logs(model, logs, "train_step", runner.steps)


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
