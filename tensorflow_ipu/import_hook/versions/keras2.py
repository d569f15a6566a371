"""Keras 2, wherever this TensorFlow has it: the modules behind `tf.keras`."""

from __future__ import annotations

import importlib
import inspect
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tensorflow_ipu.import_hook.versions import legacy_keras


def package() -> str:
    """Returns the package of `tf.keras`: `keras`, or `tf_keras` from TensorFlow 2.16 on.

    Raises:
        ImportError: It is Keras 3.
    """
    name = str(tf.keras.Model.__module__.partition(".")[0])
    version = importlib.import_module(name).__version__
    if not version.startswith("2."):
        raise ImportError(
            f"Keras models on the IPU need Keras 2, but tf.keras is Keras {version}: "
            + legacy_keras.why_keras_3()
        )
    return name


#: The package that has it.
PACKAGE = package()


def module(name: str) -> Any:
    """Returns a module of the sources of Keras 2.

    Args:
        name: its name below `keras.src`, such as `engine.training`.
    """
    return importlib.import_module(f"{PACKAGE}.src.{name}")


def call_of(layer: Any, inputs: Any, training: bool | None) -> AbstractContextManager[Any]:
    """Returns a scope that stands for a call of a layer in a graph: layers called in it are inside.

    Args:
        layer: the layer, or the model.
        inputs: inputs of the call.
        training: default of `training` for layers inside.
    """
    context = module("engine.base_layer_utils").call_context()
    passed: dict[str, Any] = {"training": training}
    if "training" not in inspect.signature(context.enter).parameters:
        passed = {"call_context_args": passed}  # since tf_keras 2.20
    return context.enter(layer, inputs=inputs, build_graph=True, **passed)
