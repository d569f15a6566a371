"""Subclasses of `Model` that are run before anybody has built them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers.pipelining.stage_scope import PipelineStage
from tests.support.models import keras_pipelines
from tests.support.models.keras_pipelines import OUTPUTS, dense, no_stage

layers = tf.keras.layers
Make = Callable[[Any], tf.keras.Model]


@pytest.fixture
def scope() -> Iterator[None]:
    with keras_pipelines.strategy(2).scope():
        yield


in_scope = pytest.mark.usefixtures("scope")


class InCall(tf.keras.Model):
    """Has stages in its `call` only."""

    def __init__(self, stage: Any = PipelineStage) -> None:
        super().__init__()
        self._stage = stage
        self.first, self.second = dense(5, 1), dense(OUTPUTS, 2)

    def call(self, x: Any, training: Any = None) -> Any:
        """Calls each layer in its stage."""
        with self._stage(0):
            x = self.first(x)
        with self._stage(1):
            return self.second(x)


class Inputs(tf.keras.Model):
    """Takes a structure of two inputs, one of them integers."""

    def __init__(self, stage: Any, get: Callable[[Any], tuple[Any, Any]]) -> None:
        super().__init__()
        self._get = get
        with stage(0):
            initializer = tf.keras.initializers.RandomUniform(seed=1)
            self.table = layers.Embedding(7, 4, initializer)
            self.pool = layers.GlobalAveragePooling1D()
        with stage(1):
            self.add = layers.Add()
            self.last = dense(OUTPUTS, 2)

    def call(self, inputs: Any) -> Any:
        """Looks up the integers, and adds the other input."""
        indices, values = self._get(inputs)
        return self.last(self.add([self.pool(self.table(indices)), values]))


def _indices(samples: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 7, (samples, 3)).astype(np.int32)


FORMS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "tuple": (lambda i, v: (i, v), lambda x: x),
    "dict": (lambda i, v: {"v": v, "i": i}, lambda x: (x["i"], x["v"])),
    "keys_of_another_type": (lambda i, v: {True: v, False: i}, lambda x: (x[False], x[True])),
}


def _case(name: str) -> tuple[Make, Any]:
    if name == "call":
        return InCall, keras_pipelines.data(4)[0]
    if name == "constructor":
        return keras_pipelines.Subclass, keras_pipelines.data(4)[0]
    pack, get = FORMS[name]
    x = keras_pipelines.data(4)[0]
    return (lambda stage: Inputs(stage, get)), pack(_indices(len(x)), x)


def _compiled(model: tf.keras.Model) -> tf.keras.Model:
    model.compile(tf.keras.optimizers.SGD(0.1), "mse", steps_per_execution=4)
    return model


def _data(*parts: Any) -> tf.data.Dataset:
    return keras_pipelines.dataset(*parts)


@pytest.mark.parametrize("first", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("name", ["call", "constructor", *FORMS])
def test_it_runs_as_a_pipeline(name: str, first: str) -> None:
    make, x = _case(name)
    y = keras_pipelines.data(4)[1]
    with keras_pipelines.strategy(2).scope():
        model = _compiled(make(PipelineStage))
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        found = {
            "fit": lambda: model.fit(_data(x, y), verbose=0).history["loss"],
            "evaluate": lambda: model.evaluate(_data(x, y), verbose=0),
            # Of a tuple Keras would take the first part for all inputs, but not inside another.
            "predict": lambda: model.predict(
                _data(x).map(lambda *one: (one if isinstance(x, tuple) else one[0],)), verbose=0
            ),
        }[first]()
        assert model._is_pipelined() and model._pipeline_stages() == 2
        elements = model.get_pipeline_stage_assignment()
        assert {element.pipeline_stage for element in elements} == {0, 1}
        after = model.get_weights()
    plain = make(no_stage)
    plain(tf.nest.map_structure(lambda one: tf.constant(one[:2]), x))
    if first == "fit":
        plain.compile(tf.keras.optimizers.SGD(0.1), "mse")
        batches = [
            (tf.nest.map_structure(lambda a, i=i: a[2 * i : 2 * i + 2], x), y[2 * i : 2 * i + 2])
            for i in range(4)
        ]
        losses = keras_pipelines.trained(plain, batches, 4)
        np.testing.assert_allclose(found, [np.mean(losses)], 1e-5)
        for mine, theirs in zip(after, plain.get_weights()):
            np.testing.assert_allclose(mine, theirs, 1e-4, 1e-6)
        return
    expected = plain(tf.nest.map_structure(tf.constant, x), training=False).numpy()
    if first == "predict":
        np.testing.assert_allclose(found, expected, 1e-4, 1e-6)
    elif name != "constructor":  # which adds a loss of its own
        np.testing.assert_allclose(found, np.mean((expected - y) ** 2), 1e-4)


class PartlyInStages(tf.keras.Model):
    """Leaves a layer out."""

    def __init__(self) -> None:
        super().__init__()
        with PipelineStage(0):
            self.inside = dense(3, 1)
        self.outside = dense(OUTPUTS, 2, name="outside")

    def call(self, x: Any) -> Any:
        """Calls both."""
        return self.outside(self.inside(x))


@in_scope
@pytest.mark.parametrize("method", ["build", "fit", "evaluate", "predict"])
def test_a_layer_without_a_stage_is_refused(method: str) -> None:
    model = _compiled(PartlyInStages())
    x, y = keras_pipelines.data(4)
    argument = {"build": (2, 4), "predict": _data(x)}.get(method, _data(x, y))
    match = "must have an associated pipeline stage. However, outside has not been assigned"
    with pytest.raises(ValueError, match=match):
        getattr(model, method)(argument)


@in_scope
@pytest.mark.parametrize("method", ["build", "fit", "evaluate", "predict"])
def test_a_model_without_call(method: str) -> None:
    model = _compiled(type("NoCall", (tf.keras.Model,), {})(name="empty"))
    x, y = keras_pipelines.data(4)
    argument = {"build": (2, 4), "predict": _data(x)}.get(method, _data(x, y))
    match = "The function `call` for the model empty has not been implemented"
    with pytest.raises(NotImplementedError, match=match):
        getattr(model, method)(argument)


@in_scope
def test_a_model_that_was_called_before_is_accepted() -> None:
    model = _compiled(keras_pipelines.Subclass(PipelineStage))
    x, _ = keras_pipelines.data(4)
    expected = model(tf.constant(x)).numpy()
    found = model.predict(_data(x), verbose=0)
    assert model._is_pipelined()
    np.testing.assert_allclose(found, expected, 1e-4, 1e-6)


@in_scope
def test_stages_that_were_not_to_be_found() -> None:
    class Hiding(InCall):
        def call(self, x: Any, training: Any = None) -> Any:
            tf.debugging.assert_equal(tf.compat.v1.get_default_graph().name == "stages", False)
            return super().call(x)

    model = _compiled(Hiding())
    with pytest.raises(RuntimeError, match=r"opens the pipeline stages \[0, 1\]"):
        model.predict(_data(keras_pipelines.data(4)[0]), verbose=0)
    model.reset_pipeline_stage_assignment()
    model.predict(_data(keras_pipelines.data(4)[0]), verbose=0)


class ToSave(InCall):
    """Has a configuration."""

    def get_config(self) -> dict[str, Any]:
        """Returns the parent's result."""
        return super().get_config()

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Takes no argument out of the configuration."""
        return cls()


@in_scope
def test_a_model_that_was_built_is_saved(tmp_path: Any) -> None:
    model = ToSave()
    model.build((2, 4))
    model.set_pipelining_options(4, device_mapping=[0, 0], accumulate_outfeed=True)
    elements = model.get_pipeline_stage_assignment()
    model.save(tmp_path / "model")
    loaded = tf.keras.models.load_model(tmp_path / "model", custom_objects={"ToSave": ToSave})
    options = loaded._ipu_options
    assert options.pipelining_gradient_accumulation_steps_per_replica == 4
    assert options.pipelining_device_mapping == [0, 0]
    assert options.pipelining_accumulate_outfeed
    loaded.build((2, 4))
    assert [e.pipeline_stage for e in loaded.get_pipeline_stage_assignment()] == [
        e.pipeline_stage for e in elements
    ]
    x = tf.constant(keras_pipelines.data(1)[0])
    np.testing.assert_allclose(loaded(x), model(x), 1e-6)
