"""Pipeline stages of functional, Sequential and subclassed models."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import model_state
from tensorflow_ipu.keras_layers.model_state import LayerGraph, post_order
from tensorflow_ipu.keras_layers.pipelining import assignment, stage_scope

functional_lib = keras2.module("engine.functional")
sequential_lib = keras2.module("engine.sequential")


# --- Functional models ---


def functional_graph(model: Any) -> LayerGraph:
    """Returns the calls of a functional model.

    Those that no output depends on, such as the ones of `model.add_loss`, come last.

    Args:
        model: a functional model.
    """
    by_depth = model._nodes_by_depth
    nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    members = {id(node) for node in nodes}
    ends = [*model.outputs, *(tf.nest.flatten(node.outputs)[0] for node in nodes)]
    return LayerGraph(tuple(post_order(ends, members)), model._nested_inputs, model._nested_outputs)


def check_functional_call(model: Any) -> None:
    """Raises if the class of a functional model overrides `call`.

    Args:
        model: a functional or Sequential model.

    Raises:
        RuntimeError: If its class overrides `call`.
    """
    stock = (functional_lib.Functional.call, sequential_lib.Sequential.call)
    if type(model).call not in stock:
        raise RuntimeError(
            f"The function `call` for the model {model.name} has been overridden. A functional or "
            "Sequential model with a `call` of its own cannot be pipelined, because its stages "
            "are made of the layers it was built from. Remove `call`, or make it a subclass of "
            "Model that calls the layers itself."
        )


# --- Sequential models ---


def from_stages(model: Any, stages: Sequence[int], elements: Sequence[Any]) -> list[Any]:
    """Returns the assignment that a list of stages means.

    Args:
        model: a Sequential model.
        stages: the stage of each layer; a model in it has one stage for all of its layers.
        elements: elements for its layers.

    Raises:
        ValueError: If there are more or fewer.
    """
    check_length(model, stages)
    result = assignment.copied(elements)
    for element, stage in zip(result, stages):
        for layer in assignment.layer_elements([element]):
            layer.pipeline_stage = stage
    return result


def check_length(model: Any, elements: Sequence[Any]) -> None:
    """Checks the length of an assignment.

    Raises:
        ValueError: If it is not the number of layers.
    """
    if len(elements) != len(model.layers):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(elements)}) does not "
            f"match the number of layers in the graph ({len(model.layers)}). The list of pipeline "
            f"stages of the Sequential model {model.name} must have as many elements as it has "
            "layers."
        )


def check_elements(model: Any, given: Sequence[Any], expected: Sequence[Any]) -> None:
    """Checks that a Sequential model has one element for each of its layers.

    Args:
        model: a Sequential model.
        given: the user's argument.
        expected: elements for all of its layers.

    Raises:
        ValueError: If one is of another class, or for another layer.
    """
    for index, (ours, theirs) in enumerate(zip(given, expected)):
        if not isinstance(ours, type(theirs)):
            raise ValueError(
                "All elements of `pipeline_stage_assignment` must be instances of "
                "`SequentialLayerPipelineStageAssignment` for layers or "
                "`SequentialNestedModelPipelineStageAssignment` for nested models. Expected an "
                f"instance of `{type(theirs).__name__}` at index {index}. Received: {ours!r}"
            )
        if not ours.same_place(theirs):
            raise ValueError(
                f"The provided assignment at index {index} `pipeline_stage_assignment` is for "
                f"layer {assignment.name_of(ours)}, but the layer in the Sequential model at index "
                f"{index} is {assignment.name_of(theirs)}. Pass the list that "
                "get_pipeline_stage_assignment() returns, with other stages."
            )


def check_order(model: Any, elements: Sequence[Any]) -> None:
    """Checks that stages follow each other.

    Args:
        model: a Sequential model.
        elements: an assignment in which every layer has a stage.

    Raises:
        ValueError: If the first is not 0, or one is not that of the layer before or the next.
    """
    before = None
    for name, stage in _sequence(elements):
        if before is None and stage != 0:
            raise ValueError(
                "The first layer in a pipelined sequential model needs to be assigned to the 0th "
                f"pipeline stage, however it was assigned to {stage}. Put the layer {name} of the "
                f"model {model.name} in stage 0."
            )
        if before is not None and stage not in (before, before + 1):
            raise ValueError(
                f"Layer {name} has been assigned to pipeline stage {stage}, however the previous "
                f"layer in the Sequential model was assigned to pipeline stage {before}. A layer "
                "in a Sequential model can only be assigned to the same pipeline stage as the "
                f"previous layer or to the next pipeline stage. Put it in stage {before} or "
                f"{before + 1}."
            )
        before = stage


def _sequence(elements: Sequence[Any]) -> Iterator[tuple[str, int | None]]:
    """Yields names of layers and their stages, in execution order."""
    for element in elements:
        layers = list(assignment.layer_elements([element]))
        if not element.is_nested_model or isinstance(element.nested_model, tf.keras.Sequential):
            yield from ((layer.layer.name, layer.pipeline_stage) for layer in layers)
            continue
        # Other models run their layers in the order of their stages.
        for stage in sorted({layer.pipeline_stage or 0 for layer in layers}):
            yield element.nested_model.name, stage


class PipelinedSequential:
    """Drops the assignment of a Sequential model when its layers change.

    Comes before `keras.Sequential` among the base classes.
    """

    def add(self, layer: Any) -> None:
        """Adds a layer, and forgets an assignment that was set; see `tf.keras.Sequential.add`."""
        super().add(layer)  # type: ignore[misc]
        self._forget_assignment()

    def pop(self) -> None:
        """Removes the last layer, and forgets an assignment that was set.

        See `tf.keras.Sequential.pop`.
        """
        super().pop()  # type: ignore[misc]
        self._forget_assignment()

    def _forget_assignment(self) -> None:
        if model_state.of(self).elements is not None:
            model_state.of(self).set(None)
            self._drop_ipu_programs()  # type: ignore[attr-defined]


# --- Subclassed models ---

base_layer = keras2.module("engine.base_layer")
compile_utils = keras2.module("engine.compile_utils")
keras_tensor = keras2.module("engine.keras_tensor")
saved_model_load = keras2.module("saving.legacy.saved_model.load")


def build(model: Any, input_shape: Any, stock_build: Any) -> None:
    """Builds a model, and traces its `call` if its layers have stages.

    Args:
        model: a subclass of `Model`.
        input_shape: a shape, a list or dict of shapes, or a structure of symbolic tensors.
        stock_build: builds it from shapes as Keras does.

    Raises:
        NotImplementedError: If it has no `call`.
    """
    check_subclass_call(model)
    known = model_state.of(model)
    if _is_symbolic(input_shape):
        inputs = input_shape
        built = _traced(model, (_like(inputs),), {})
        # All that is left to do for Keras: the layers are built.
        base_layer.Layer.build(model, tf.nest.map_structure(lambda one: one.shape, inputs))
        opened = True
    else:
        with stage_scope.recorded() as stages:
            stock_build(input_shape)
        inputs = _inputs(input_shape)
        opened = bool(stages)
        built = None
    pipelined = opened or known.graph is not None or known.saved is not None or marked(model)
    known.inputs = inputs
    if pipelined and built is None:
        built = _traced(model, (_like(inputs),), {})
    _adopt(known, built)
    if model._saved_model_inputs_spec is None:
        # So that it can be saved before it is called with data.
        model._set_save_spec(_specs(inputs))


def _specs(inputs: Any) -> Any:
    """Returns specs of inputs, with the names that they would have after a call with data."""
    flat = tf.nest.flatten(inputs)
    specs = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name)
        for tensor, name in zip(flat, compile_utils.create_pseudo_input_names(inputs))
    ]
    return tf.nest.pack_sequence_as(inputs, specs)


def check_subclass_call(model: Any) -> None:
    """Raises if the class of a model does not define `call`.

    Args:
        model: a subclass of `Model`.

    Raises:
        NotImplementedError: If its class has no `call`.
    """
    # A model that was loaded without its class has a `call` of its own.
    if getattr(model.call, "__func__", None) is tf.keras.Model.call:
        raise NotImplementedError(
            f"The function `call` for the model {model.name} has not been implemented. Define "
            f"`call(self, inputs)` in the class {type(model).__name__}: it calls the layers."
        )


def subclass_graph(model: Any, doing: str = "get") -> LayerGraph:
    """Returns the calls of a model.

    Args:
        model: a subclass of `Model`.
        doing: the refused use of the stages, for errors.

    Raises:
        RuntimeError: If it has not been built.
    """
    known = model_state.of(model)
    if known.graph is None:
        if known.inputs is None and known.saved_inputs is not None:
            known.inputs = assignment.saved_inputs(known.saved_inputs)
        if known.inputs is None:
            raise RuntimeError(
                f"Cannot {doing} pipeline stage assignments for model `{model.name}` which has not "
                "been built yet: the layers that it calls are not known. Please call "
                "`model.build()` first, with the shapes of its inputs or with keras.Input objects."
            )
        known.graph = _traced(model, (_like(known.inputs),), {})
    return known.graph


def nested_graph(model: Any, node: Any) -> LayerGraph:
    """Returns the calls that a model makes where another calls it.

    Its inputs are all symbolic tensors among the arguments of that call, flattened.

    Args:
        model: a subclass of `Model`.
        node: the call.
    """
    known = model_state.of(model)
    # What is passed as `training` is for when the layers are called in earnest.
    kwargs = {name: value for name, value in node.call_kwargs.items() if name != "training"}
    arguments = (node.call_args, kwargs)
    if known.graph is not None and _is_symbolic(arguments):
        if _signature(known.graph.inputs) == _signature(arguments):
            return known.graph
    if node not in known.nested_graphs:
        known.nested_graphs[node] = _traced(model, *_like(arguments))
    return known.nested_graphs[node]


def check_mode(model: Any, training: bool) -> None:
    """Raises if a model calls other layers in this mode.

    Args:
        model: a subclass of `Model`.
        training: the `training` argument.

    Raises:
        ValueError: If other layers are called than without a value for `training`.
    """
    known = model_state.of(model)
    expected = subclass_graph(model)
    if training not in known.in_modes:
        same = True
        if "training" in inspect.signature(model.call).parameters:
            traced = _traced(model, (_like(known.inputs),), {"training": training})
            same = traced.signature() == expected.signature()
        known.in_modes[training] = same
    if not known.in_modes[training]:
        raise ValueError(
            f"`call` of the model {model.name} calls other layers with training={training} than "
            "it did when the model was built, so they have no stages. Call the same layers always, "
            "and pass `training` on to them."
        )


def _adopt(known: model_state.PipelineState, built: LayerGraph | None) -> None:
    """Takes over a new graph; the assignment stays if the graph is the same as before."""
    before = known.graph
    if before is not None and built is not None and known.elements is not None:
        same = before.signature() == built.signature()
        # The calls are others, in the same order: like those of a model that was saved.
        saved = assignment.to_saved(known.elements) if same else None
        known.set(None)
        known.saved = saved
    known.graph = built
    known.in_modes.clear()


def _traced(model: Any, args: Any, kwargs: Any) -> LayerGraph:
    """Calls a model on symbolic tensors and returns the calls of layers that it made."""
    if isinstance(model, saved_model_load.RevivedNetwork):
        name = type(model).__name__
        raise RuntimeError(
            f"The model {model.name} was loaded without its class, so the layers that its `call` "
            "calls are not known, and it has no pipeline stages. Pass the class: "
            f"tf.keras.models.load_model(path, custom_objects={{'{name}': {name}}})"
        )
    parameters = inspect.signature(model.call).parameters
    if "training" in parameters and len(args) < 2:
        # A default would be written into the calls of layers that it is passed to.
        kwargs = {"training": None, **kwargs}
    added = len(model._losses)
    with tf.init_scope():
        outputs = model.call(*args, **kwargs)
    # Losses of symbolic tensors belong to this trace only.
    losses = tuple(model._losses[added:])
    del model._losses[added:]
    inputs = [one for one in tf.nest.flatten((args, kwargs)) if _is_symbolic(one)]
    ends = tf.nest.flatten((outputs, losses))
    if not all(_is_symbolic(end) for end in ends):
        raise ValueError(
            f"`call` of the model {model.name} must return tensors that depend on its inputs, for "
            f"the model to be pipelined. Received: {outputs!r}"
        )
    return LayerGraph(tuple(post_order(ends)), inputs, outputs, losses)


def _like(inputs: Any) -> Any:
    """Returns a structure with new inputs instead of symbolic tensors."""

    def like(one: Any) -> Any:
        if not _is_symbolic(one):
            return one
        return tf.keras.Input(batch_shape=one.shape, dtype=one.dtype)

    return tf.nest.map_structure(like, inputs)


def _inputs(shapes: Any) -> Any:
    """Returns symbolic inputs for the shapes that Keras takes."""
    if isinstance(shapes, dict):
        return {name: _inputs(shape) for name, shape in shapes.items()}
    one = isinstance(shapes, tf.TensorShape) or all(
        size is None or isinstance(size, int) for size in shapes
    )
    if one:
        return tf.keras.Input(batch_shape=tuple(shapes))
    return [_inputs(shape) for shape in shapes]


def _is_symbolic(value: Any) -> bool:
    flat = tf.nest.flatten(value)
    return bool(flat) and all(isinstance(one, keras_tensor.KerasTensor) for one in flat)


def _signature(inputs: Any) -> list[Any]:
    return [(one.shape.as_list(), one.dtype) for one in tf.nest.flatten(inputs)]


def marked(model: Any) -> bool:
    """Returns whether a layer of a model has been made in a stage."""
    layers = model._flatten_layers(include_self=False)
    return any(stage_scope.stage_of(layer) is not None for layer in layers)
