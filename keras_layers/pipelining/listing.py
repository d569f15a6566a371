"""The current stage assignment of any kind of Keras model, and its making at the first run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import model_state
from tensorflow_ipu.keras_layers.model_state import LayerGraph, node_index
from tensorflow_ipu.keras_layers.pipelining import assignment, model_types, stage_scope

if TYPE_CHECKING:
    from tensorflow_ipu.keras_layers.models.protocol import IPUModel


# --- The current stage assignment of any kind of Keras model ---

base_layer = keras2.module("engine.base_layer")


functional_lib = keras2.module("engine.functional")


def is_sequential(model: Any) -> bool:
    """Returns whether a model is Sequential."""
    return isinstance(model, tf.keras.Sequential)


def is_functional(model: Any) -> bool:
    """Returns whether a model is made of symbolic inputs and outputs, and not Sequential."""
    return isinstance(model, functional_lib.Functional) and not is_sequential(model)


def graph(model: Any, node: Any = None, doing: str = "get") -> LayerGraph:
    """Returns the calls of a model that is not Sequential.

    Args:
        model: the model.
        node: the call of it, for a model in another model.
        doing: the refused use of the stages, for errors.
    """
    if is_functional(model):
        return model_types.functional_graph(model)
    return (
        model_types.subclass_graph(model, doing)
        if node is None
        else model_types.nested_graph(model, node)
    )


def has_stage(model: Any) -> bool:
    """Returns whether a layer of a model has a stage, without tracing its `call`.

    Args:
        model: any Keras model.
    """
    known = model_state.of(model)
    if known.saved is not None:
        return any(stage is not None for stage in assignment.saved_stages(known.saved))
    if known.elements is not None:
        elements = assignment.layer_elements(known.elements)
        return any(element.pipeline_stage is not None for element in elements)
    if known.cleared:
        return False
    if is_sequential(model):
        return any(map(_layer_has_stage, model.layers))
    if not is_functional(model) and known.graph is None:
        # Not built yet, or without any stage being open.
        return model_types.marked(model)
    return any(_layer_has_stage(call.layer, call) for call in graph(model).nodes)


def _layer_has_stage(layer: Any, call: Any = None) -> bool:
    if isinstance(layer, tf.keras.Model):
        return has_stage(layer)
    return any(stage_scope.stage_of(made) is not None for made in (layer, call) if made is not None)


def listed(model: Any, node: Any = None, doing: str = "get") -> list[Any]:
    """Returns the assignment of a model: new elements for all its layers, in execution order.

    Args:
        model: any Keras model.
        node: the call of it, for a model in another model.
        doing: the refused use of the stages, for errors.

    Raises:
        RuntimeError: If the layers of a subclass of `Model` are not known yet.
        ValueError: If the stages that were saved with the model do not fit its layers.
    """
    known = model_state.of(model)
    if known.elements is not None and _is_own(model, node):
        return assignment.copied(known.elements)
    elements = _marked(model, node, doing)
    if known.cleared:
        for element in assignment.layer_elements(elements):
            element.pipeline_stage = None
    if known.saved is not None and _is_own(model, node):
        assignment.apply_saved(known.saved, elements, model)
        known.set(assignment.copied(elements))
    return elements


def _is_own(model: Any, node: Any) -> bool:
    """Returns whether a call is of the layers that the model itself has stages for."""
    if node is None or isinstance(model, functional_lib.Functional):
        return True
    return model_types.nested_graph(model, node) is model_state.of(model).graph


def _marked(model: Any, node: Any, doing: str) -> list[Any]:
    """Returns elements with the stages in which layers were made or called."""
    if is_sequential(model):
        return [_sequential_element(layer) for layer in model.layers]
    leaf, nested = (
        (
            assignment.FunctionalLayerPipelineStageAssignment,
            assignment.FunctionalNestedModelPipelineStageAssignment,
        )
        if is_functional(model)
        else (
            assignment.ModelLayerPipelineStageAssignment,
            assignment.NestedModelPipelineStageAssignment,
        )
    )
    elements: list[Any] = []
    stage_of_tensor: dict[int, int | None] = {}
    for call in graph(model, node, doing).nodes:
        index = node_index(call)
        if isinstance(call.layer, tf.keras.Model):
            elements.append(nested(call.layer, index, listed(call.layer, call)))
            continue
        stage = _stage(call, stage_of_tensor)
        stage_of_tensor.update((id(tensor), stage) for tensor in tf.nest.flatten(call.outputs))
        elements.append(leaf(call.layer, index, stage))
    return elements


def _stage(call: Any, stage_of_tensor: dict[int, int | None]) -> int | None:
    """Returns the stage of a call by its own mark, or else by its layer's."""
    stage = stage_scope.stage_of(call)
    if stage is None:
        stage = stage_scope.stage_of(call.layer)
    if stage is None and isinstance(call.layer, (base_layer.AddLoss, base_layer.AddMetric)):
        # Keras makes and calls these itself, for a tensor of the user's.
        stage = stage_of_tensor.get(id(call.keras_inputs[0]))
    return stage


def _sequential_element(layer: Any) -> Any:
    if not isinstance(layer, tf.keras.Model):
        return assignment.SequentialLayerPipelineStageAssignment(layer, stage_scope.stage_of(layer))
    node = None
    if not isinstance(layer, functional_lib.Functional) and model_state.of(layer).inputs is None:
        # Not built by itself, but called by the model that it is in.
        node = layer.inbound_nodes[-1] if layer.inbound_nodes else None
    return assignment.SequentialNestedModelPipelineStageAssignment(layer, listed(layer, node))


# --- Pipeline stages of subclassed models that are built at their first run ---


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
    if built_here or known.cleared or is_functional(model) or is_sequential(model):
        return
    x = tf.keras.utils.unpack_x_y_sample_weight(element_spec)[0]
    if has_stage(model) or (not model.built and _opens_stages(model, x, training)):
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
