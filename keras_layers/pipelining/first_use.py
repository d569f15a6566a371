"""Pipeline stages of subclassed models that are built at their first run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.keras_layers import model_state
from tensorflow_ipu.keras_layers.pipelining import listing, stage_scope

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


def learn_stages(model: IPUModel, element_spec: Any, training: bool) -> None:
    """Builds a model for the data it is run with, if its layers are made or called in stages.

    Args:
        model: an extended model.
        element_spec: specs of the dataset's elements, as far as known.
        training: whether it is run by `fit`.

    Raises:
        ValueError: If some layers are in stages, and others are not.
    """
    known = model_state.of(model)
    built_here = known.graph is not None or known.inputs is not None
    if built_here or known.cleared or listing.is_functional(model) or listing.is_sequential(model):
        return
    x = tf.keras.utils.unpack_x_y_sample_weight(element_spec)[0]
    if listing.has_stage(model) or (not model.built and _opens_stages(model, x, training)):
        model.build(tf.nest.map_structure(_symbolic, x))


def check_none_opened(model: IPUModel, stages: list[int]) -> None:
    """Raises if a model with stages has been run as a whole before.

    Args:
        model: an extended model that is not pipelined.
        stages: the stages that were opened when it was traced.

    Raises:
        RuntimeError: If it has opened stages that nobody has cleared.
    """
    if stages and not model_state.of(model).cleared:
        raise RuntimeError(
            f"The model {model.name} opens the pipeline stages {sorted(set(stages))} when it is "
            "called, which was not known when its program was planned. Please call "
            "`model.build()` first, with the shapes of its inputs or with keras.Input objects, or "
            "reset_pipeline_stage_assignment() to run it without stages."
        )


def _opens_stages(model: IPUModel, x: Any, training: bool) -> bool:
    """Returns whether a model calls layers in stages, by calling it in a graph of no use."""
    kwargs = {"training": training} if model._expects_training_arg else {}
    graph = tf.__internal__.FuncGraph("stages")
    # An error here would come again where the program is traced, or is due to this graph.
    with stage_scope.recorded() as stages, contextlib.suppress(Exception):
        with trace.cluster_scope(), graph.as_default():
            model(tf.nest.map_structure(_placeholder, x), **kwargs)
    return bool(stages)


def _placeholder(spec: tf.TensorSpec) -> Any:
    return tf.compat.v1.placeholder(spec.dtype, spec.shape)


def _symbolic(spec: tf.TensorSpec) -> Any:
    return tf.keras.Input(batch_shape=spec.shape, dtype=spec.dtype)
