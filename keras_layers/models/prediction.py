"""`predict` on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.keras_layers.models import calls, checks, programs
from tensorflow_ipu.keras_layers.models import data as data_lib
from tensorflow_ipu.keras_layers.models.execution import Hooks

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


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
    """Predicts with a model; the arguments after the model are those of `tf.keras.Model.predict`.

    The last three are for generators, which the device does not take.
    """
    del max_queue_size, workers, use_multiprocessing
    checks.check(model, "predict")
    with model.distribute_strategy.scope():
        data = data_lib.from_arguments(x, batch_size=batch_size, steps=steps, partial_batches=True)
        checks.check_with_data(model, "predict", data.dataset.element_spec)
        plan = calls.plan_inference(model, data, steps)
        callbacks = calls.callback_list(model, callbacks, verbose, 1, plan)
        runner = calls.runner(model, programs.PREDICT, data, plan)
        model._predict_counter.assign(0)
        callbacks.on_predict_begin()
        hooks = Hooks(
            callbacks.on_predict_batch_begin,
            lambda step, found: callbacks.on_predict_batch_end(step, {"outputs": found}),
        )
        outputs = list(runner.epoch(hooks))
        callbacks.on_predict_end()
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)
