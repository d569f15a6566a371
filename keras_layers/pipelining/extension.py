"""Pipelining methods of Keras models made in an `IPUStrategy`, and a table of their stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.keras_layers import dimensions, model_state
from tensorflow_ipu.keras_layers.pipelining import assignment, listing, model_types, validation

# --- Summary ---


def print_summary(
    model: Any, line_length: int | None, print_fn: Callable[[str], Any] | None
) -> None:
    """Prints the table of a model.

    Args:
        model: a Keras model.
        line_length: characters of a line: 89 when None, 60 for a Sequential model.
        print_fn: called with each line; `print` when None.
    """
    sequential = listing.is_sequential(model)
    length = line_length or (60 if sequential else 89)
    if sequential:
        titles = ["Layer (type)", "Pipeline Stage"]
        ends = [length // 2, length]
    else:
        titles = ["Layer (type) (node index)", "Input Layers", "Pipeline Stage"]
        ends = [length * 2 // 5, length * 4 // 5, length]
    show = print_fn or print
    show(f'Model: "{model.name}"')
    show("_" * length)
    show(_line(titles, ends))
    show("=" * length)
    for line in _table(listing.listed(model), ends):
        show(line)


def _table(elements: Sequence[Any], ends: Sequence[int]) -> Iterator[str]:
    """Yields the lines of one model's elements and of models nested in it."""
    length = ends[-1]
    for element, following in zip(elements, [*elements[1:], None]):
        if element.is_nested_model:
            yield f'Nested Model: "{element.nested_model.name}"'
            yield "-" * length
            yield from _table(element.pipeline_stage_assignments, ends)
            continue
        for cells in _rows(element, with_inputs=len(ends) == 3):
            yield _line(cells, ends)
        ends_here = following is None or following.is_nested_model
        yield ("=" if ends_here else "_") * length


def _rows(element: Any, with_inputs: bool) -> Iterator[list[str]]:
    """Yields the cells of the rows of a layer: one for each of its inputs, but at least one."""
    name = f"{element.layer.name} ({type(element.layer).__name__})"
    stage = str(element.pipeline_stage)
    if not with_inputs:
        yield [name, stage]
        return
    index = getattr(element, "node_index", None)
    call = "" if index is None else f" ({index})"
    first, *others = [layer.name for layer in getattr(element, "inbound_layers", ())] or [""]
    yield [name + call, first, stage]
    for other in others:
        yield ["", other, ""]


def _line(cells: Sequence[str], ends: Sequence[int]) -> str:
    """Returns a row, in which text too long for its column is cut off."""
    line = ""
    for cell, end in zip(cells, ends):
        # A space at least between two columns.
        line = (line[:-1] + " " if line else "") + cell
        line = line[:end].ljust(end)
    return line


# --- Methods of models ---

functional_lib = keras2.module("engine.functional")
generic_utils = keras2.module("utils.generic_utils")
# Key of the configuration of a model.
CONFIG_KEY = "pipeline_stage_assignment"
# With it for a subclass of `Model`: what it was built with, from which its layers are found.
INPUTS_KEY = "pipeline_inputs"


class PipelinedModel:
    """Methods of a model whose layers can be in pipeline stages.

    Comes before the Keras class among the base classes.
    """

    def get_pipeline_stage_assignment(self) -> list[assignment.PipelineStageAssignment]:
        """Returns the stage of each layer, in the order in which they run.

        Returns:
            A new list. Changes to it have an effect after `set_pipeline_stage_assignment`. A
            functional model and a subclass of `Model` have an element for each call of a layer.

        Raises:
            RuntimeError: If a subclass of `Model` has not been built.
        """
        return listing.listed(self)

    def set_pipeline_stage_assignment(
        self, pipeline_stage_assignment: Sequence[assignment.PipelineStageAssignment | int]
    ) -> None:
        """Sets the stage of each layer.

        Args:
            pipeline_stage_assignment: the result of `get_pipeline_stage_assignment`, with a stage
                for each layer. A Sequential model also takes a list of stages.

        Raises:
            RuntimeError: If a subclass of `Model` has not been built.
            ValueError: If the list is not for the layers of this model, or a layer would be in an
                earlier stage than one whose output it takes.
        """
        elements = validation.from_user(self, pipeline_stage_assignment)
        model_state.of(self).set(elements)
        self._drop_ipu_programs()  # type: ignore[attr-defined]

    def reset_pipeline_stage_assignment(self) -> None:
        """Takes all layers out of their stages: the model is not pipelined any more."""
        model_state.of(self).set(None, cleared=True)
        self._drop_ipu_programs()  # type: ignore[attr-defined]

    def print_pipeline_stage_assignment_summary(
        self, line_length: int | None = None, print_fn: Callable[[str], Any] | None = None
    ) -> None:
        """Prints a table of the layers and their stages.

        Args:
            line_length: characters of a line: 89 when None, 60 for a Sequential model.
            print_fn: called with each line; `print` when None.

        Raises:
            RuntimeError: If a subclass of `Model` has not been built.
        """
        print_summary(self, line_length, print_fn)

    @generic_utils.default
    def build(self, input_shape: Any = None) -> None:
        """Builds the model; see `tf.keras.Model.build`.

        For a subclass of `Model` this also finds out which layers its `call` calls, by calling it
        with symbolic tensors. An assignment that was set holds as long as they are the same.

        Args:
            input_shape: a shape, or a list or dict of shapes. For a subclass of `Model` also a
                structure of `keras.Input` objects, which have a type too.

        Raises:
            NotImplementedError: If a subclass of `Model` has no `call`.
            ValueError: If it calls some layers in stages, and others in none.
        """
        input_shape = dimensions.static_shape(input_shape)
        stock: Any = super().build  # type: ignore[misc]
        if isinstance(self, functional_lib.Functional):
            stock(input_shape)
            return
        model_types.build(self, input_shape, stock)
        if model_state.of(self).graph is not None:
            validation.check_complete(self)

    @property
    def losses(self) -> list[Any]:
        """The losses that layers add; see `tf.keras.layers.Layer.losses`."""
        made = model_state.of(self).losses
        stock: list[Any] = super().losses if made is None else made  # type: ignore[misc]
        return stock

    def _is_pipelined(self) -> bool:
        """Returns whether a layer has a stage."""
        return listing.has_stage(self)

    def _pipeline_stages(self) -> int:
        """Returns the number of stages of a pipelined model."""
        stages = (e.pipeline_stage for e in assignment.layer_elements(listing.listed(self)))
        return 1 + max(stage for stage in stages if stage is not None)

    def _pipeline_ipus(self) -> int:
        """Returns how many IPUs the stages of a pipelined model are on: the last one plus one."""
        mapping = self._ipu_options.pipelining_device_mapping  # type: ignore[attr-defined]
        if not self._is_pipelined():
            return 1
        return self._pipeline_stages() if mapping is None else 1 + max(mapping)

    def _pipeline_config(self) -> dict[str, Any]:
        """Returns the stages of the layers as values that JSON has; empty if there are none."""
        known = model_state.of(self)
        inputs = known.saved_inputs
        if known.inputs is not None:
            inputs = assignment.inputs_to_saved(known.inputs)
        found = {} if inputs is None else {INPUTS_KEY: inputs}
        if known.saved is not None:
            return {CONFIG_KEY: known.saved, **found}
        unknown = not isinstance(self, functional_lib.Functional) and known.graph is None
        if unknown or not self._is_pipelined():
            return {}
        return {CONFIG_KEY: assignment.to_saved(listing.listed(self)), **found}

    def _restore_pipeline_config(self, config: dict[str, Any]) -> None:
        """Restores the result of `_pipeline_config` as soon as the layers exist.

        Args:
            config: a configuration, with other keys too.
        """
        if config.get(CONFIG_KEY) is not None:
            known = model_state.of(self)
            known.set(None)
            known.saved = list(config[CONFIG_KEY])
            known.saved_inputs = config.get(INPUTS_KEY)
