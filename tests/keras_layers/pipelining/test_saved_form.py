"""Stage assignments in configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining import assignment, saved_form
from tensorflow_ipu.keras_layers.pipelining.stage import PipelineStage
from tests.support.models import keras_pipelines
from tests.support.models.keras_pipelines import MODELS, dense, no_stage


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with keras_pipelines.strategy(1).scope():
        yield


def stages(model: Any) -> list[int | None]:
    elements = assignment.layer_elements(model.get_pipeline_stage_assignment())
    return [element.pipeline_stage for element in elements]


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
    saved = json.loads(json.dumps(saved_form.inputs_to_saved(named)))
    restored = saved_form.inputs(saved)
    for found, tensor in zip(tf.nest.flatten(restored), tf.nest.flatten(named), strict=True):
        assert (found.shape, found.dtype) == (tensor.shape, tensor.dtype)
    assert saved_form.inputs_to_saved({True: one}) is None


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
