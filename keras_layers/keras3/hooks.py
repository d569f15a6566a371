"""Hooks by which Keras 3 models of an `IPUStrategy`'s scope run as its programs.

Keras 3 makes a function of a model's step before it runs it, in `make_train_function` and the like.
For models of an `IPUStrategy` that function runs programs, each a loop over the steps of an
execution. All else, such as data, callbacks and metrics, is Keras's own.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler import strategy_scope
from tensorflow_ipu.device import system
from tensorflow_ipu.keras_layers.keras3 import programs

# Keras's function for steps: it takes an iterator and returns logs, or takes data and returns
# outputs.
_Function = Callable[[Any], Any]

_HOOKED = "_ipu_hooked"


def install() -> None:
    """Hooks Keras 3, if the program has loaded it and it is not hooked yet."""
    keras: Any = sys.modules.get("keras")
    if not str(getattr(keras, "__version__", "")).startswith("3."):
        return
    if keras.config.backend() != "tensorflow":
        return  # which has no strategies
    trainer = importlib.import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer
    if _HOOKED in vars(trainer):
        return
    for mode, make in (("train", _train), ("test", _test), ("predict", _predict)):
        name = f"make_{mode}_function"
        setattr(trainer, name, _hooked(getattr(trainer, name), f"{mode}_function", make))
    setattr(trainer, _HOOKED, True)


def _hooked(original: Any, attribute: str, make: Callable[[Any, Any], _Function]) -> Any:
    """Returns a method that makes a function, for models on the IPU or elsewhere.

    Args:
        original: the method of Keras.
        attribute: where models keep the function.
        make: makes it for a model and its `IPUStrategy`.
    """

    @functools.wraps(original)
    def method(self: Any, force: bool = False) -> Any:
        strategy = self._distribute_strategy
        on_ipu = isinstance(strategy, strategy_scope.DeviceStrategy)
        if not on_ipu or not strategy.enable_keras_extensions:
            return original(self, force)
        if getattr(self, attribute) is None or force:
            _check(self, strategy)
            setattr(self, attribute, make(self, strategy))
        return getattr(self, attribute)

    return method


def _train(model: Any, strategy: Any) -> _Function:
    return _logs(model, programs.Programs(model.name, model.train_step, strategy))


def _test(model: Any, strategy: Any) -> _Function:
    return _logs(model, programs.Programs(model.name, model.test_step, strategy))


def _logs(model: Any, made: programs.Programs) -> _Function:
    """Returns a function that gives the logs of the last step of an execution."""

    def function(iterator: Any) -> Any:
        return made.run(programs.read(iterator, model.steps_per_execution))[-1]

    return function


def _predict(model: Any, strategy: Any) -> _Function:
    made = programs.Programs(model.name, model.predict_step, strategy)

    def function(data: list[Any]) -> Any:
        outputs = made.run([programs.Batch(batch) for batch in data])
        return tf.nest.map_structure(lambda *each: tf.constant(np.concatenate(each)), *outputs)

    return function


def _check(model: Any, strategy: Any) -> None:
    """Raises for features that programs of Keras 3 models lack."""
    if model.run_eagerly:
        raise RuntimeError(
            f"The model {model.name!r} was compiled with run_eagerly=True, but models made in the "
            "scope of an IPUStrategy run as compiled programs. Compile it without, or make it "
            "outside of the scope."
        )
    replicas = system.current().replication_factor(strategy.device_ordinal, 1)
    if replicas > 1:
        raise NotImplementedError(
            f"The model {model.name!r} is one of Keras 3, which runs on one IPU, but "
            f"{strategy.ipu_device} has {replicas}. Configure auto_select_ipus = 1; or make it "
            "with tf.keras of a program that imports ipu, which is Keras 2 and has replicas and "
            "pipelines, with the environment variable TF_USE_LEGACY_KERAS unset or 1."
        )
