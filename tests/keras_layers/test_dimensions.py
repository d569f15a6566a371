"""Shapes and batch sizes as tensors and as dimensions of TensorFlow 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import serving
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers import dimensions

tf1 = tf.compat.v1
layers = tf.keras.layers
X = np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32)


class OneInput(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.dense(x)


class TwoInputs(OneInput):
    def call(self, inputs: Any) -> tf.Tensor:
        return self.dense(inputs[0]) - self.dense(inputs[1])


@pytest.fixture
def scope() -> Any:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with ipu_strategy.IPUStrategy().scope():
        yield


@pytest.mark.parametrize(
    "give", [tf.constant, np.int32, tf1.Dimension, int], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("kind", ["sequential", "functional", "subclass", "two inputs"])
def test_dimensions_of_any_form_build_and_export(
    scope: None, tmp_path: Path, kind: str, give: Any
) -> None:
    batch = tf1.Dimension(None) if give is tf1.Dimension else give(4)
    shape = (batch, give(3))
    if kind == "sequential":
        model = tf.keras.Sequential([layers.Dense(2)])
        model.build(list(shape))
    elif kind == "functional":
        x = tf.keras.Input((3,))
        model = tf.keras.Model(x, layers.Dense(2)(x))
        model.build(shape)
    elif kind == "subclass":
        model = OneInput()
        model.build(list(shape))
    else:
        model = TwoInputs()
        model.build([shape, shape])
    # Another size than it was built with.
    serving.export_keras(model, tmp_path / "model", give(5))
    signature = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    names = [spec.name.split(":")[0] for spec in signature.inputs]
    assert [spec.shape for spec in signature.inputs] == [[5, 3]] * len(names)
    values = [X, X[::-1]][: len(names)]
    got = signature(**dict(zip(names, map(tf.constant, values))))["output_0"]
    kernel = model.get_weights()[0]
    want = values[0] @ kernel - (values[1] @ kernel if len(values) > 1 else 0.0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_subclass_is_saved_once_it_is_built(scope: None, tmp_path: Path) -> None:
    model = TwoInputs()
    model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=4)
    model.build([(None, 3), (None, 3)])
    model.save(tmp_path / "model")
    loaded = tf.keras.models.load_model(
        tmp_path / "model", custom_objects={"TwoInputs": TwoInputs}, compile=False
    )
    assert loaded._ipu_options.gradient_accumulation_steps_per_replica == 4
    for weight, expected in zip(loaded.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(weight, expected)
    (args, _) = loaded.save_spec()
    assert [spec.shape.as_list() for spec in args[0]] == [[None, 3]] * 2


def test_sizes_that_are_none_come_back() -> None:
    for size in (None, "3", 2.5, np.float32(3.0)):
        assert dimensions.static_size(size) is size
    shape = tf.TensorShape([2, None])
    assert dimensions.static_shape({"x": shape, "y": (np.int64(2), None)}) == {
        "x": shape,
        "y": (2, None),
    }


@pytest.mark.parametrize("size", [0, -1, True, 2.0, tf.constant([2]), tf.constant(0)])
def test_sizes_of_batches_are_positive(scope: None, tmp_path: Path, size: Any) -> None:
    model = tf.keras.Sequential([layers.Dense(2, input_shape=(3,))])
    with pytest.raises(ValueError, match="batch_size must be a positive integer"):
        serving.export_keras(model, tmp_path, size)
