"""Assignments of all kinds of models: reading, setting, resetting, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining import assignment, stage_scope
from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_pipelines
from tests.support.models.keras_pipelines import MODELS, dense, no_stage

layers = tf.keras.layers


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with keras_pipelines.strategy(4).scope():
        yield


def shown(elements: list[Any]) -> list[Any]:
    """Returns names, calls and stages of an assignment."""
    result: list[Any] = []
    for element in elements:
        index = getattr(element, "node_index", None)
        if element.is_nested_model:
            inner = shown(element.pipeline_stage_assignments)
            result.append((element.nested_model.name, index, inner))
        else:
            result.append((element.layer.name, index, element.pipeline_stage))
    return result


def stages(model: Any) -> list[int | None]:
    elements = assignment.layer_elements(model.get_pipeline_stage_assignment())
    return [element.pipeline_stage for element in elements]


def test_scopes_assign_stages_to_a_functional_model() -> None:
    model = MODELS["functional"]()
    elements = model.get_pipeline_stage_assignment()
    assert [
        (element.layer.name.split(".")[-1].rstrip("_0123456789"), element.pipeline_stage)
        for element in elements
    ] == [
        ("a", 0),
        ("b", 0),
        ("c", 1),
        ("getitem", 1),
        ("multiply", 1),
        ("sum", 1),
    ]
    assert all(type(e) is assignment.FunctionalLayerPipelineStageAssignment for e in elements)
    assert [layer.name for layer in elements[0].inbound_layers] == ["in"]
    assert elements[5].inbound_layers == [elements[2].layer, elements[4].layer]
    assert model._is_pipelined() and model._pipeline_ipus() == 2


def test_a_layer_called_twice_has_two_stages() -> None:
    model = keras_pipelines.shared()
    assert shown(model.get_pipeline_stage_assignment()) == [
        ("twice", 0, 0),
        ("twice", 1, 1),
        ("out", 0, 1),
    ]


def test_the_call_wins_over_the_creation() -> None:
    with PipelineStage(1):
        layer = dense(4, 1)
    inputs = layers.Input((4,))
    with PipelineStage(0):
        x = layer(inputs)
    assert stages(tf.keras.Model(inputs, layer(x))) == [0, 1]


def test_scopes_assign_stages_to_a_sequential_model() -> None:
    model = MODELS["sequential"]()
    elements = model.get_pipeline_stage_assignment()
    assert [layer.name for layer in model.layers] == [element.layer.name for element in elements]
    assert [element.pipeline_stage for element in elements] == [0, 0, 1, 2]
    assert all(type(e) is assignment.SequentialLayerPipelineStageAssignment for e in elements)
    assert model._pipeline_ipus() == 3


def test_scopes_assign_stages_to_a_subclass() -> None:
    model = MODELS["subclass"]()
    elements = model.get_pipeline_stage_assignment()
    assert all(type(e) is assignment.ModelLayerPipelineStageAssignment for e in elements)
    found = [(name, index, stage) for name, index, stage in shown(elements) if name in "abc"]
    assert found == [("a", 0, 0), ("b", 0, 1), ("b", 1, 1), ("c", 0, 1)]
    # Operations of TensorFlow, those of the loss too.
    assert len(elements) > 8 and all(element.pipeline_stage == 1 for element in elements[1:])


def test_scopes_assign_stages_to_nested_models() -> None:
    model = MODELS["nested"]()
    middle, tail, last = model.get_pipeline_stage_assignment()
    assert shown([middle, tail, last]) == [
        (
            "middle",
            0,
            [("head", None, 0), (model.layers[1].layers[1].name, None, [("innermost", 0, 1)])],
        ),
        ("tail", 0, [("tail_layer", 0, 1)]),
        ("last", 0, 2),
    ]
    assert type(middle) is assignment.FunctionalNestedModelPipelineStageAssignment
    head, inner = middle.pipeline_stage_assignments
    assert type(head) is assignment.SequentialLayerPipelineStageAssignment
    assert type(inner) is assignment.SequentialNestedModelPipelineStageAssignment
    assert [type(element) for element in tail.pipeline_stage_assignments] == [
        assignment.ModelLayerPipelineStageAssignment
    ]
    assert middle.inbound_layers == [model.layers[0]]


def test_a_nested_model_in_a_subclass_has_stages() -> None:
    class Outer(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            with PipelineStage(0):
                self.inner = tf.keras.Sequential([dense(3, 1, name="first")])
            with PipelineStage(1):
                self.last = dense(2, 2, name="last")

        def call(self, inputs: Any) -> Any:
            return self.last(self.inner(inputs))

    model = Outer()
    model.build((2, 4))
    inner, last = model.get_pipeline_stage_assignment()
    assert type(inner) is assignment.NestedModelPipelineStageAssignment
    assert stages(model) == [0, 1]
    inner.pipeline_stage_assignments[0].pipeline_stage = 0
    model.set_pipeline_stage_assignment([inner, last])


@pytest.mark.parametrize("kind", MODELS)
def test_set_get_and_reset(kind: str) -> None:
    model = MODELS[kind](no_stage)
    if kind == "subclass":
        model = keras_pipelines.Subclass(no_stage)
        model.build(tf.keras.Input((4,)))
    assert not model._is_pipelined() and set(stages(model)) == {None}
    elements = model.get_pipeline_stage_assignment()
    leaves = list(assignment.layer_elements(elements))
    for index, element in enumerate(leaves):
        element.pipeline_stage = 0 if index < 2 else 1
    assert set(stages(model)) == {None}
    model.set_pipeline_stage_assignment(elements)
    expected = [0, 0] + [1] * (len(leaves) - 2)
    assert model._is_pipelined() and stages(model) == expected
    assert model.get_pipeline_stage_assignment() == elements
    # It has a copy, and gives copies.
    leaves[0].pipeline_stage = 7
    next(assignment.layer_elements(model.get_pipeline_stage_assignment())).pipeline_stage = 8
    assert stages(model) == expected
    model.reset_pipeline_stage_assignment()
    assert not model._is_pipelined() and set(stages(model)) == {None}
    assert model._pipeline_ipus() == 1


@pytest.mark.parametrize("kind", MODELS)
def test_a_reset_forgets_stages_from_scopes(kind: str) -> None:
    model = MODELS[kind]()
    assert model._is_pipelined()
    model.reset_pipeline_stage_assignment()
    assert not model._is_pipelined() and set(stages(model)) == {None}


def test_root_has_own_stages_for_nested_models() -> None:
    inner = tf.keras.Sequential([dense(4, 1), dense(4, 2)])
    inner.set_pipeline_stage_assignment([0, 0])
    model = tf.keras.Sequential([inner, dense(4, 3)])
    assert stages(model) == [0, 0, None]
    elements = model.get_pipeline_stage_assignment()
    for stage, element in enumerate(assignment.layer_elements(elements)):
        element.pipeline_stage = stage
    model.set_pipeline_stage_assignment(elements)
    assert stages(model) == [0, 1, 2]
    assert stages(inner) == [0, 0]


def test_scope_around_model_call_skips_layers() -> None:
    inner = tf.keras.Sequential([dense(4, 1)])
    inputs = layers.Input((4,))
    with PipelineStage(0):
        x = inner(inputs)
    with PipelineStage(1):
        x = dense(2, 2)(x)
    assert stages(tf.keras.Model(inputs, x)) == [None, 1]


@pytest.mark.parametrize("change", ["add", "pop"])
def test_changing_a_sequential_model_clears_the_assignment(change: str) -> None:
    model = tf.keras.Sequential([dense(4, 1), dense(4, 2), dense(4, 3)])
    model.set_pipeline_stage_assignment([0, 1, 2])
    dropped = []
    model._drop_ipu_programs = lambda: dropped.append(True)
    model.add(dense(4, 4)) if change == "add" else model.pop()
    assert set(stages(model)) == {None} and dropped
    assert not model._is_pipelined()


def test_scopes_around_add_assign_stages() -> None:
    model = tf.keras.Sequential([layers.Input((4,))])
    for stage in range(3):
        with PipelineStage(stage):
            model.add(dense(4, stage))
    assert stages(model) == [0, 1, 2]


def test_setting_an_assignment_drops_programs() -> None:
    model = MODELS["sequential"]()
    dropped = []
    model._drop_ipu_programs = lambda: dropped.append(True)
    model.set_pipeline_stage_assignment([0, 0, 1, 2])
    model.reset_pipeline_stage_assignment()
    assert len(dropped) == 2


class TestErrors:
    """Errors of assignments."""

    def make(self, kind: str) -> tuple[Any, list[Any]]:
        model = MODELS[kind]()
        return model, model.get_pipeline_stage_assignment()

    @pytest.mark.parametrize("kind", MODELS)
    def test_an_assignment_that_is_no_list_is_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        with pytest.raises(ValueError, match="needs to be a list"):
            model.set_pipeline_stage_assignment({"a": elements[0]})

    @pytest.mark.parametrize("kind", ["functional", "subclass", "nested"])
    def test_an_assignment_of_another_length_is_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        with pytest.raises(ValueError, match="does not match the number of layers in the graph"):
            model.set_pipeline_stage_assignment(elements[:-1])

    @pytest.mark.parametrize("kind", ["functional", "subclass", "nested"])
    def test_elements_of_another_class_are_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        other = assignment.SequentialLayerPipelineStageAssignment(model.layers[-1], 0)
        with pytest.raises(
            ValueError, match=f"must be an instance of `{type(elements[-1]).__name__}`"
        ):
            model.set_pipeline_stage_assignment([*elements[:-1], other])

    @pytest.mark.parametrize("kind", ["functional", "subclass"])
    def test_elements_in_another_order_are_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        with pytest.raises(ValueError, match="does not match the post-order generated"):
            model.set_pipeline_stage_assignment([elements[1], elements[0], *elements[2:]])

    def test_elements_of_another_nested_model_are_refused(self) -> None:
        model, elements = self.make("nested")
        _, others = self.make("nested")
        with pytest.raises(ValueError, match="does not match the post-order generated"):
            model.set_pipeline_stage_assignment([others[0], *elements[1:]])
        elements[0].pipeline_stage_assignments.pop()
        with pytest.raises(ValueError, match="does not match the number of layers in the graph"):
            model.set_pipeline_stage_assignment(elements)

    @pytest.mark.parametrize("kind", MODELS)
    def test_a_layer_without_stage_is_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        list(assignment.layer_elements(elements))[-1].pipeline_stage = None
        with pytest.raises(ValueError, match="has not been assigned a pipeline stage"):
            model.set_pipeline_stage_assignment(elements)

    @pytest.mark.parametrize("kind", ["functional", "subclass", "nested"])
    def test_layer_before_what_it_depends_on_is_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        next(assignment.layer_elements(elements)).pipeline_stage = 2
        match = "has a dependency from a pipeline stage which has not yet been executed"
        with pytest.raises(ValueError, match=match):
            model.set_pipeline_stage_assignment(elements)

    @pytest.mark.parametrize(
        ("given", "match"),
        [
            ([0, 1, 2], "must have as many elements"),
            ([1, 1, 2, 2], "needs to be assigned to the 0th pipeline stage"),
            ([-1, 0, 1, 2], "needs to be assigned to the 0th pipeline stage"),
            ([0, 2, 2, 3], "Put it in stage 0 or 1"),
            ([0, 1, 0, 1], "Put it in stage 1 or 2"),
            ([0, 1, 1, -1], "Put it in stage 1 or 2"),
            ([0, 1, 1, "2"], "instance of `SequentialLayerPipelineStageAssignment` at index 0"),
        ],
    )
    def test_wrong_assignments_of_a_sequential_model_are_refused(
        self, given: list[Any], match: str
    ) -> None:
        model = MODELS["sequential"]()
        with pytest.raises(ValueError, match=match):
            model.set_pipeline_stage_assignment(given)
        assert stages(model) == [0, 0, 1, 2]

    @pytest.mark.parametrize("stage", ["1", 0.5, True])
    @pytest.mark.parametrize("kind", MODELS)
    def test_a_stage_that_is_no_number_is_refused(self, kind: str, stage: Any) -> None:
        model, elements = self.make(kind)
        list(assignment.layer_elements(elements))[-1].pipeline_stage = stage
        with pytest.raises(ValueError, match="must be an integer >= 0"):
            model.set_pipeline_stage_assignment(elements)

    @pytest.mark.parametrize("kind", ["functional", "subclass", "nested"])
    def test_a_negative_stage_is_refused(self, kind: str) -> None:
        model, elements = self.make(kind)
        next(assignment.layer_elements(elements)).pipeline_stage = -1
        match = "in pipeline stage -1 has a dependency from a pipeline stage which has not yet"
        with pytest.raises(ValueError, match=match):
            model.set_pipeline_stage_assignment(elements)

    def test_a_functional_model_partly_in_stages_is_refused(self) -> None:
        inputs = layers.Input((4,))
        x = dense(4, 1, name="outside")(inputs)
        with PipelineStage(0):
            x = dense(4, 2)(x)
        match = "must have an associated pipeline stage. However, outside has not been assigned"
        with pytest.raises(ValueError, match=match):
            tf.keras.Model(inputs, x)


class TestBuild:
    """`build` of subclasses of `Model`."""

    class Plain(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = dense(4, 1), dense(4, 2)
            self.reverse = False

        def call(self, inputs: Any) -> Any:
            one, other = self.first, self.second
            return one(other(inputs)) if self.reverse else other(one(inputs))

    @pytest.mark.parametrize("method", ["get", "set", "print"])
    def test_must_have_been_called(self, method: str) -> None:
        model = self.Plain()
        name = {"print": "print_pipeline_stage_assignment_summary"}.get(
            method, f"{method}_pipeline_stage_assignment"
        )
        with pytest.raises(RuntimeError, match=r"Please call `model.build\(\)` first"):
            getattr(model, name)(*([[]] if method == "set" else []))

    def test_build_without_stages_only_builds(self) -> None:
        model = self.Plain()
        model.build((2, 4))
        assert model.built and len(model.weights) == 4
        assert not model.first.inbound_nodes and not model._is_pipelined()
        assert stages(model) == [None, None]

    @pytest.mark.parametrize(
        "shape",
        [
            lambda: (None, 4),
            lambda: [2, 4],
            lambda: tf.TensorShape([2, 4]),
            lambda: tf.keras.Input((4,)),
        ],
    )
    def test_subclass_is_built_for_any_form_of_shape(self, shape: Callable[[], Any]) -> None:
        model = self.Plain()
        model.build(shape())
        assert len(model.weights) == 4 and stages(model) == [None, None]
        assert [weight.name for weight in model.weights] == [
            f"{layer.name}/{part}:0"
            for layer in (model.first, model.second)
            for part in ("kernel", "bias")
        ]

    @pytest.mark.parametrize("form", [list, dict])
    @pytest.mark.parametrize("symbolic", [False, True])
    def test_a_subclass_is_built_for_several_inputs(self, form: type, symbolic: bool) -> None:
        class Two(tf.keras.Model):
            def __init__(self) -> None:
                super().__init__()
                with PipelineStage(0):
                    self.layer = dense(2, 1)
                with PipelineStage(1):
                    self.join = layers.Add()

            def call(self, inputs: Any) -> Any:
                values = [inputs["a"], inputs["b"]] if isinstance(inputs, dict) else inputs
                return self.join([self.layer(value) for value in values])

        shapes: Any = [(2, 3), (2, 3)] if form is list else {"a": (2, 3), "b": (2, 3)}
        if symbolic:
            shapes = tf.nest.map_structure(
                lambda _: tf.keras.Input((3,)), dict.fromkeys("ab", 0) if form is dict else [0, 0]
            )
        model = Two()
        model.build(shapes)
        assert stages(model) == [0, 0, 1]

    def test_calling_a_model_does_not_build_it_so(self) -> None:
        model = self.Plain()
        model(tf.zeros((2, 4)))
        with pytest.raises(RuntimeError, match="first"):
            model.get_pipeline_stage_assignment()

    def test_building_again_keeps_the_assignment_of_same_graph(self) -> None:
        model = self.Plain()
        model.build((2, 4))
        elements = model.get_pipeline_stage_assignment()
        elements[0].pipeline_stage, elements[1].pipeline_stage = 0, 1
        model.set_pipeline_stage_assignment(elements)
        model.build((3, 4))
        assert stages(model) == [0, 1]
        assert [e.node_index for e in model.get_pipeline_stage_assignment()] == [1, 1]

    def test_building_again_clears_the_assignment_of_another_graph(self) -> None:
        model = self.Plain()
        model.build((2, 4))
        elements = model.get_pipeline_stage_assignment()
        elements[0].pipeline_stage, elements[1].pipeline_stage = 0, 1
        model.set_pipeline_stage_assignment(elements)
        model.reverse = True
        model.build((2, 4))
        assert stages(model) == [None, None]
        assert not model._is_pipelined()

    def test_outputs_that_do_not_depend_on_inputs(self) -> None:
        class Constant(tf.keras.Model):
            def call(self, inputs: Any) -> Any:
                return tf.zeros((2, 2))

        model = Constant()
        model.build((2, 4))
        with pytest.raises(ValueError, match="must return tensors that depend on its inputs"):
            model.get_pipeline_stage_assignment()


class TestElements:
    """The elements themselves."""

    def test_elements_are_equal_by_layer_call_and_stage(self) -> None:
        layer = layers.Dense(1, name="d")
        leaf = assignment.FunctionalLayerPipelineStageAssignment
        assert leaf(layer, 0, 1) == leaf(layer, 0, 1)
        assert leaf(layer, 0, 1) != leaf(layer, 1, 1)
        assert leaf(layer, 0, 1) != leaf(layer, 0)
        assert leaf(layer, 0, 1) != assignment.ModelLayerPipelineStageAssignment(layer, 0, 1)
        assert leaf(layer, 0, 1) != 1
        model = tf.keras.Sequential([layer])
        nested = assignment.SequentialNestedModelPipelineStageAssignment
        assert nested(model, [leaf(layer, 0, 1)]) == nested(model, [leaf(layer, 0, 1)])
        assert nested(model, [leaf(layer, 0, 1)]) != nested(model, [leaf(layer, 0, 2)])

    def test_elements_show_layer_call_and_stage(self) -> None:
        leaf = assignment.FunctionalLayerPipelineStageAssignment(layers.Dense(1, name="d"), 0, 1)
        text = "FunctionalLayerPipelineStageAssignment(layer='d', node_index=0, pipeline_stage=1)"
        assert repr(leaf) == text

    @pytest.mark.parametrize("stage", [-1, "1", 0.5])
    def test_stages_are_written_unchecked(self, stage: Any) -> None:
        leaf = assignment.SequentialLayerPipelineStageAssignment(layers.Dense(1))
        leaf.pipeline_stage = stage
        assert leaf.pipeline_stage == stage

    def test_elements_know_whether_they_are_nested_models(self) -> None:
        assert not assignment.SequentialLayerPipelineStageAssignment(layers.ReLU()).is_nested_model
        nested = assignment.SequentialNestedModelPipelineStageAssignment(tf.keras.Sequential(), [])
        assert nested.is_nested_model
        assert isinstance(nested, assignment.PipelineStageAssignment)


def test_functional_losses_are_in_stage_of_tensor() -> None:
    model = MODELS["functional"]()
    model.add_loss(model.get_layer("b").output)
    assert shown(model.get_pipeline_stage_assignment())[-1][2] == 0
    assert stage_scope.stage_of(model.layers[-1]) is None


# --- Stage assignments in configurations ---


@pytest.mark.parametrize("kind", MODELS)
def test_another_model_gets_the_same_stages(kind: str) -> None:
    model, other = MODELS[kind](), MODELS[kind](no_stage)
    config = json.loads(json.dumps(model._pipeline_config()))
    other._restore_pipeline_config(config)
    assert other._is_pipelined()
    assert other._pipeline_config() == config
    assert stages(other) == stages(model)
    assert other._pipeline_ipus() == model._pipeline_ipus()
    assert other._pipeline_config() == config


def test_inputs_of_any_structure_are_saved() -> None:
    one = tf.keras.Input((4,), dtype="int32")
    named = {"b": tf.keras.Input((2, None), 3), "a": (one, one)}
    saved = json.loads(json.dumps(assignment.inputs_to_saved(named)))
    restored = assignment.saved_inputs(saved)
    for found, tensor in zip(tf.nest.flatten(restored), tf.nest.flatten(named), strict=True):
        assert (found.shape, found.dtype) == (tensor.shape, tensor.dtype)
    assert assignment.inputs_to_saved({True: one}) is None


@pytest.mark.parametrize("kind", MODELS)
def test_without_stages_there_is_nothing(kind: str) -> None:
    model = MODELS[kind](no_stage)
    assert model._pipeline_config() == {}
    model._restore_pipeline_config({"another": 1})
    assert not model._is_pipelined()


def test_setting_replaces_what_was_saved() -> None:
    model = MODELS["sequential"](no_stage)
    model._restore_pipeline_config(MODELS["sequential"]()._pipeline_config())
    model.set_pipeline_stage_assignment([0, 1, 1, 1])
    assert stages(model) == [0, 1, 1, 1]
    model._restore_pipeline_config(MODELS["sequential"]()._pipeline_config())
    model.reset_pipeline_stage_assignment()
    assert not model._is_pipelined()


def test_a_saved_assignment_of_other_layers_is_refused() -> None:
    model = tf.keras.Sequential([dense(3, 1)])
    model._restore_pipeline_config(MODELS["sequential"]()._pipeline_config())
    with pytest.raises(ValueError, match="do not fit its layers"):
        model.get_pipeline_stage_assignment()


def test_assignments_are_kept_in_configurations_and_files(tmp_path: Any) -> None:
    model = MODELS["functional"]()
    again = type(model).from_config(model.get_config())
    assert stages(again) == stages(model)
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras", compile=False)
    assert stages(loaded) == stages(model)


class Staged(tf.keras.Model):
    """Two layers in two stages."""

    def __init__(self) -> None:
        super().__init__()
        with PipelineStage(0):
            self.first = dense(3, 0)
        with PipelineStage(1):
            self.last = dense(2, 1)

    def call(self, x: Any) -> Any:
        return self.last(self.first(x))


def test_subclassed_models_have_stages_when_loaded(tmp_path: Any) -> None:
    model = Staged()
    model.build((2, 4))
    model.save(tmp_path)
    loaded = tf.keras.models.load_model(tmp_path, custom_objects={"Staged": Staged})
    assert stages(loaded) == stages(model) == [0, 1]
    revived = tf.keras.models.load_model(tmp_path)
    with pytest.raises(RuntimeError, match=r"custom_objects=\{'Staged': Staged\}"):
        revived.get_pipeline_stage_assignment()
