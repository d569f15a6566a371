"""Ops of Keras models have the lines that make or call their layers, in reports and in errors."""

from __future__ import annotations

import collections
import contextlib
import copy
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import keras as ipu_keras
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.import_hook.versions import keras2
from tensorflow_ipu.profiler.export import html_page
from tensorflow_ipu.profiler.report import Report
from tests.support.checkout.source_lines import place_of, short_place_of
from tests.support.models import keras_models

base_layer = keras2.module("engine.base_layer")
node_lib = keras2.module("engine.node")
_layers = tf.keras.layers


class _Block(_layers.Layer):
    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.inner = _layers.Dense(3, name="inner")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        y = self.inner(x)
        return y * 2.0


def _functional() -> tf.keras.Model:
    x = tf.keras.Input((3,))
    dense = _layers.Dense(3, name="dense")
    y = dense(x)  # the first call
    y = dense(y)  # the second call
    y = y + 1.0
    y = _Block("block")(y)
    nested = _sequential()
    return tf.keras.Model(x, nested(y))


def _sequential() -> tf.keras.Model:
    model = tf.keras.Sequential([_layers.Dense(4, name="first")], name="inside")
    model.add(_layers.Dense(2, name="last"))
    return model


class _Subclass(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = _layers.Dense(2)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        y = self.dense(x)
        return y


def _trained(model: tf.keras.Model) -> None:
    model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=12)
    model.fit(keras_models.dataset(epochs=2), epochs=1, verbose=0)


def _sources(op_type: str = "MatMul") -> collections.Counter[tuple[str, str]]:
    """How many ops of a type the last program has, by line and phase."""
    ops = cache.executables()[-1].workload.ops
    return collections.Counter((op.source, op.phase) for op in ops if op.type == op_type)


def test_ops_of_functional_models_have_line_of_call() -> None:
    with keras_models.strategy().scope():
        _trained(_functional())
    found = _sources()
    # One product forward, and two for the gradient; one where nothing in front is trained.
    first = short_place_of(_functional, "the first call")
    assert (found[first, ""], found[first, "backward"]) == (1, 1)
    for function, text in [
        (_functional, "the second call"),
        (_Block.call, "self.inner(x)"),
        (_sequential, 'name="first"'),
        (_sequential, 'name="last"'),
    ]:
        place = short_place_of(function, text)
        assert (found[place, ""], found[place, "backward"]) == (1, 2)
    assert _sources("AddV2")[short_place_of(_functional, "y + 1.0"), ""] == 1
    assert (short_place_of(_Block.call, "* 2.0"), "") in _sources("Mul")


def test_loss_metrics_and_optimizer_have_line_of_compile() -> None:
    with keras_models.strategy().scope():
        _trained(_functional())
    compiled = short_place_of(_trained, "model.compile")
    updates = {line for line, phase in _sources("AssignAddVariableOp") if phase == "update"}
    assert updates == {compiled}
    assert (compiled, "") in _sources("SquaredDifference")
    assert (compiled, "") in _sources("Abs")
    assert not [op.name for op in cache.executables()[-1].ops if "model.fit" in str(op.source)]


def test_reports_and_listings_show_lines_of_the_model() -> None:
    with keras_models.strategy().scope():
        _trained(_functional())
    executable = cache.executables()[-1]
    report = Report.from_executable(executable)
    place = short_place_of(_functional, "the first call")
    listed = [line for line in str(executable).splitlines() if line.endswith(place)]
    assert any("dense/MatMul" in line for line in listed)
    ops = [line.split() for line in str(report).splitlines() if line.endswith(place)]
    assert ops and all("dense" in words for words in ops)  # the layer in a column of its own
    assert place in report.to_json() and place in html_page.report_page(report)
    rows = [row for row in report.ops() if row.source == place]
    assert {row.layer for row in rows} == {"dense"}
    live = report.insights["largest_tensors_at_peak"]
    assert [row["layer"] for row in live if row["source"] == place] == ["dense"] * len(
        [row for row in live if row["source"] == place]
    )


@pytest.mark.parametrize("input_shape", [None, (4, 3)])
def test_ops_of_sequential_models_have_line_of_layer(input_shape: Any) -> None:
    with keras_models.strategy().scope():
        model = _sequential()
        if input_shape:
            model.build(input_shape)
        _trained(model)
    lines = [short_place_of(_sequential, text) for text in ('name="first"', 'name="last"')]
    assert {line for line, phase in _sources() if not phase} == set(lines)


def test_subclasses_call_their_layers_themselves() -> None:
    with keras_models.strategy().scope():
        _trained(_Subclass())
    line = short_place_of(_Subclass.call, "self.dense(x)")
    assert _sources() == {(line, ""): 1, (line, "backward"): 1}


def _staged(stages: bool = False) -> tf.keras.Model:
    x = tf.keras.Input((3,))
    with ipu_keras.PipelineStage(0) if stages else contextlib.nullcontext():
        y = _layers.Dense(3, name="in_front")(x)
    with ipu_keras.PipelineStage(1) if stages else contextlib.nullcontext():
        y = _layers.Dense(2, name="behind")(y)
    return tf.keras.Model(x, y)


def test_ops_of_pipelines_have_line_of_layer() -> None:
    with keras_models.strategy(2).scope():
        model = _staged(stages=True)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=12)
        _trained(model)
    lines = {short_place_of(_staged, text) for text in ('"in_front"', '"behind"')}
    assert {line for line, _ in _sources()} == lines


def test_layers_in_functions_of_user_have_their_line() -> None:
    strategy = keras_models.strategy()
    with strategy.scope():
        model = _functional()

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor) -> tf.Tensor:
            return model(x)

    strategy.run(step, [tf.zeros([2, 3])])
    assert (short_place_of(_functional, "the second call"), "") in _sources()
    assert (short_place_of(_sequential, 'name="last"'), "") in _sources()


def _embedding() -> tf.keras.Model:
    x = tf.keras.Input((3,), dtype=tf.int32)
    y = _layers.Embedding(5, 4, name="words")(x)
    y = _layers.Flatten()(y)
    return tf.keras.Model(x, _layers.Dense(2)(y))


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_errors_while_a_model_runs(method: str) -> None:
    x, y = np.full([8, 3], 7, np.int32), np.zeros([8, 2], np.float32)
    with keras_models.strategy().scope():
        model = _embedding()
        model.compile("sgd", "mse", steps_per_execution=2)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=True)
        with pytest.raises(tf.errors.InvalidArgumentError, match="7 is not in") as caught:
            getattr(model, method)(data, verbose=0)
    message = str(caught.value)
    assert place_of(_embedding, "_layers.Embedding") in message
    assert "words" in message and "{{" not in message


def test_nothing_is_left_in_keras() -> None:
    attributes = [
        *((base_layer.Layer, name) for name in ("__new__", "__call__")),
        *((node_lib.Node, name) for name in ("__init__", "map_arguments")),
    ]
    before = [vars(owner)[name] for owner, name in attributes]
    with keras_models.strategy().scope():
        assert [vars(owner)[name] for owner, name in attributes] != before
    assert [vars(owner)[name] for owner, name in attributes] == before


def test_models_are_copied_and_saved_as_before(tmp_path: Any) -> None:
    with keras_models.strategy().scope():
        layer = copy.deepcopy(_layers.Dense(3))
        model = tf.keras.models.clone_model(_staged())
        model.save(tmp_path / "model.keras")
        loaded = tf.keras.models.load_model(tmp_path / "model.keras")
        _trained(loaded)
    assert layer.units == 3
    line = short_place_of(test_models_are_copied_and_saved_as_before, "load_model")
    assert (line, "") in _sources()
