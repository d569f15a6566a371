"""`evaluate` on the device, and validation during `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.models import calls, checks, programs
from tensorflow_ipu.keras_layers.models import data as data_lib
from tensorflow_ipu.keras_layers.models.execution import Hooks, Runner
from tensorflow_ipu.versions import keras2

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel

training_lib = keras2.module("engine.training")

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
    """Evaluates a model; the arguments after the model are those of `tf.keras.Model.evaluate`.

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
        callbacks = calls.callback_list(model, callbacks, verbose, 1, runner.steps)
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
    plan = calls.plan_inference(model, data, steps)
    return calls.runner(model, programs.TEST, data, plan)


def _evaluate(model: IPUModel, runner: Runner, callbacks: Any) -> dict[str, Any]:
    """Runs all steps; the order of the callbacks is that of Keras."""
    model._test_counter.assign(0)
    callbacks.on_test_begin()
    model.reset_metrics()
    last: Any = {}
    hooks = Hooks(callbacks.on_test_batch_begin, callbacks.on_test_batch_end)
    runner.rewind()
    for results in runner.epoch(hooks):
        last = results
    logs = calls.checked_logs(last, "test_step")
    logs = calls.epoch_logs(model, logs, "test_step", runner.steps)
    callbacks.on_test_end(logs=logs)
    return logs


class Validation:
    """Evaluates a model after epochs of its training, always on the same batches."""

    def __init__(
        self, model: IPUModel, data: Any, batch_size: int | None, steps: int | None, frequency: Any
    ) -> None:
        """Remembers what to do; the arguments are those of `tf.keras.Model.fit`."""
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
