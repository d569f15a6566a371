"""Layers against NumPy and TensorFlow."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
import tensorflow as tf
from popxl_addons import layers
from popxl_addons.testing_utils import TensorInput, run_module

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 6)).astype(np.float32)
IMAGES = RNG.normal(size=(2, 4, 5, 5)).astype(np.float32)


def values(shapes):
    """Makes values for variables."""
    return {name: RNG.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def normalized(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def grouped(x, v):
    found = normalized(x.reshape(2, 2, 2, 5, 5), (2, 3, 4)).reshape(x.shape)
    return found * v["weight"][:, None, None] + v["bias"][:, None, None]


def convolved(x, v):
    images, kernel = x.transpose(0, 2, 3, 1), v["weight"].transpose(2, 3, 1, 0)
    return tf.nn.conv2d(images, kernel, 1, "SAME").numpy().transpose(0, 3, 1, 2) + v["bias"]


CASES = {
    "linear": (
        layers.Linear(3),
        X,
        values({"weight": (6, 3), "bias": (3,)}),
        lambda x, v: x @ v["weight"] + v["bias"],
    ),
    "no bias": (
        layers.Linear(3, bias=False),
        X,
        values({"weight": (6, 3)}),
        lambda x, v: x @ v["weight"],
    ),
    "layer norm": (
        layers.LayerNorm(),
        X,
        values({"weight": (6,), "bias": (6,)}),
        lambda x, v: normalized(x, 1) * v["weight"] + v["bias"],
    ),
    "group norm": (
        layers.GroupNorm(2),
        IMAGES,
        values({"weight": (4,), "bias": (4,)}),
        grouped,
    ),
    "embedding": (
        layers.Embedding(popxl.float32, 10, 3),
        np.array([[1, 9], [0, 1]], np.int32),
        values({"weight": (16, 3)}),
        lambda x, v: v["weight"][x],
    ),
    "convolution": (
        layers.Conv2D(3, (3, 3), paddings="same_upper"),
        IMAGES,
        values({"weight": (3, 4, 3, 3), "bias": (1, 3, 1, 1)}),
        convolved,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_compute_their_formula(name):
    module, x, weights, expected = CASES[name]

    def given(variables):
        assert sorted(variables.to_dict()) == sorted(weights)
        return {variable: weights[key] for key, variable in variables.to_dict().items()}

    (found,) = run_module(module, TensorInput(x), weights=given)
    np.testing.assert_allclose(found, expected(x, weights), rtol=1e-4, atol=1e-5)


def test_initial_weights_are_normal_without_tails_and_repeat():
    def draw():
        with popxl.Ir().main_graph:
            facts, _ = layers.Linear(400).create_graph(popxl.TensorSpec((2, 400), popxl.float16))
            return facts.init().weight

    np.random.seed(1)
    weight = draw()
    assert weight.dtype is popxl.float16 and np.abs(weight.data).max() <= 0.0401
    # The standard deviation of a normal distribution that is cut off at 2.
    np.testing.assert_allclose(weight.data.astype(np.float64).std(), 0.02 * 0.8796, rtol=0.01)
    np.random.seed(1)
    np.testing.assert_array_equal(draw().data, weight.data)


def test_shards_of_a_table_have_a_multiple_of_16_rows():
    size = layers.Embedding.get_vocab_shard_size
    assert (size(10, 1), size(100, 3), size(96, 3)) == (16, 48, 32)
    assert layers.Embedding.get_offsets(100, 3).tolist() == [0, 48, 96]


def test_layer_norm_takes_matrices():
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="shape N x C"):
        layers.LayerNorm().create_graph(popxl.TensorSpec((2, 3, 4), popxl.float32))


def test_values_of_torch_layers_are_transposed():
    class Parameter:
        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        def numpy(self):
            return self.array

    class TorchLinear:
        weight, bias = Parameter(np.arange(6.0).reshape(2, 3)), Parameter(np.ones(2))

    with popxl.Ir().main_graph:
        factories, _ = layers.Linear(2).create_graph(popxl.TensorSpec((4, 3), popxl.float16))
        variables = factories.init()
    mapped = layers.Linear.torch_mapping(variables, TorchLinear, popxl.float16)
    assert mapped[variables.weight].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert mapped[variables.bias].dtype == np.float16
    for wrong in (np.zeros(3, np.float16), np.zeros(2, np.float32)):
        with pytest.raises(ValueError, match="must have the shape"):
            addons.WeightsDict({variables.bias: wrong})
