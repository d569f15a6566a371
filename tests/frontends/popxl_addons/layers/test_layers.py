"""Layers and their gradients against TensorFlow in float64."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
import tensorflow as tf
from popxl_addons import layers
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.testing_utils import TensorInput, run_module

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 6))
IMAGES = RNG.normal(size=(2, 4, 5, 5))


def normalized(x, axes):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-5)


def grouped(x, v, bias=None):
    found = tf.reshape(normalized(tf.reshape(x, (2, 2, 2, 5, 5)), (2, 3, 4)), x.shape)
    shift = v["bias"][:, None, None] if bias is None else bias
    return found * v["weight"][:, None, None] + shift


def convolved(x, v, strides=1, padding="SAME"):
    images, kernel = tf.transpose(x, (0, 2, 3, 1)), tf.transpose(v["weight"], (2, 3, 1, 0))
    found = tf.nn.conv2d(images, kernel, strides, padding)
    found = tf.transpose(found, (0, 3, 1, 2))
    return found + v["bias"] if "bias" in v else found


def dilated(x, v):
    """The kernel with zeros between its elements: TensorFlow has no such gradient on the CPU."""
    spread = tf.pad(
        tf.reshape(v["weight"], (2, 4, 2, 1, 2, 1)), [[0, 0]] * 3 + [[0, 1], [0, 0], [0, 1]]
    )
    return convolved(x, {"weight": tf.reshape(spread, (2, 4, 4, 4))[:, :, :3, :3]}, 1, "VALID")


def grouped_convolution(x, v):
    halves = [
        convolved(part, {"weight": kernel})
        for part, kernel in zip(tf.split(x, 2, 1), tf.split(v["weight"], 2))
    ]
    return tf.concat(halves, 1)


CASES = {
    # The layer, what it is called with, shapes of its variables, and its formula.
    "linear": (
        lambda: layers.Linear(3),
        X,
        {"weight": (6, 3), "bias": (3,)},
        lambda x, v: x @ v["weight"] + v["bias"],
    ),
    "no bias": (
        lambda: layers.Linear(3, bias=False),
        IMAGES,
        {"weight": (5, 3)},
        lambda x, v: x @ v["weight"],
    ),
    "layer norm": (
        layers.LayerNorm,
        X,
        {"weight": (6,), "bias": (6,)},
        lambda x, v: normalized(x, [1]) * v["weight"] + v["bias"],
    ),
    "group norm": (lambda: layers.GroupNorm(2), IMAGES, {"weight": (4,), "bias": (4,)}, grouped),
    "embedding": (
        lambda: layers.Embedding(popxl.float32, 10, 3),
        np.array([[1, 9], [0, 1]], np.int32),
        {"weight": (16, 3)},
        lambda x, v: tf.gather(v["weight"], x),
    ),
    "embedding of columns": (
        lambda: layers.Embedding(popxl.float32, 10, 3, axis=1),
        np.array([2, 0], np.int32),
        {"weight": (16, 3)},
        lambda x, v: tf.gather(v["weight"], x, axis=1),
    ),
    "convolution": (
        lambda: layers.Conv2D(3, 3, paddings="same_upper", available_memory_proportions=(0.3,)),
        IMAGES,
        {"weight": (3, 4, 3, 3), "bias": (1, 3, 1, 1)},
        convolved,
    ),
    "strided convolution": (
        lambda: layers.Conv2D(3, (2, 3), (2, 1), (1, 0, 0, 2), bias=False),
        IMAGES,
        {"weight": (3, 4, 2, 3)},
        lambda x, v: convolved(x, v, (2, 1), [[0, 0], [1, 0], [0, 2], [0, 0]]),
    ),
    "grouped convolution": (
        lambda: layers.Conv2D(6, (3, 3), paddings=(1, 1, 1, 1), groups=2, bias=False),
        IMAGES,
        {"weight": (6, 2, 3, 3)},
        grouped_convolution,
    ),
    "dilated convolution": (
        lambda: layers.Conv2D(2, (2, 2), dilations=(2, 2), bias=False),
        IMAGES,
        {"weight": (2, 4, 2, 2)},
        dilated,
    ),
}
TOLERANCES = {np.float32: 1e-4, np.float16: 2e-2}


def computed(layer, x, weights, slope):
    """Returns a layer's results and gradients, by name."""
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.constant(x) + popxl.constant(np.zeros((), x.dtype))
        factories, graph = layer.create_graph(t)
        floats = [tensor for tensor in graph.graph.inputs if tensor.dtype.is_floating_point]
        backward = addons.autodiff(graph, grads_required=floats)
        variables = factories.init()
        info = graph.bind(variables).call_with_info(t)
        passed = backward.grad_graph_info.inputs_dict(info)
        start = popxl.constant(slope.astype(info.outputs[0].dtype.as_numpy()))
        back = backward.call_with_info(start, args=passed)
        by = backward.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, back)
        results = {"y": info.outputs[0], **{n: by[v] for n, v in variables.to_dict().items()}}
        if t in by:
            results["x"] = by[t]
        streams = {name: addons.ops.host_store(tensor) for name, tensor in results.items()}
    session = popxl.Session(ir, "ipu_hw")
    given = {
        name: array.astype(variables[name].dtype.as_numpy()) for name, array in weights.items()
    }
    assert sorted(variables.to_dict()) == sorted(given)
    mapping = {variables[name]: array for name, array in given.items()}
    session.write_variables_data(addons.WeightsDict(mapping))
    with session:
        found = session.run()
    return {name: found[stream] for name, stream in streams.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", CASES)
def test_layers_and_their_gradients_follow_their_formula(name, dtype):
    make, x, shapes, formula = CASES[name]
    is_float = x.dtype == np.float64
    x = x.astype(dtype) if is_float else x
    weights = {key: RNG.normal(size=shape).astype(dtype) for key, shape in shapes.items()}
    layer = make()
    if not is_float:
        layer.dtype = popxl.dtype.as_dtype(dtype)
    wide = {key: tf.constant(value, tf.float64) for key, value in weights.items()}
    with tf.GradientTape() as tape:
        start = tf.constant(x, tf.float64) if is_float else tf.constant(x)
        inputs = {**wide, "x": start} if is_float else wide
        tape.watch(inputs)
        y = formula(start, wide)
    slope = RNG.normal(size=y.shape).astype(dtype)
    expected = {"y": y, **tape.gradient(y, inputs, tf.constant(slope, tf.float64))}
    found = computed(layer, x, weights, slope)
    assert found.keys() == expected.keys()
    for key, wanted in expected.items():
        assert found[key].dtype == dtype
        wanted = tf.convert_to_tensor(wanted).numpy()
        allowed = TOLERANCES[dtype] * max(1, np.abs(wanted).max())
        np.testing.assert_allclose(found[key], wanted, rtol=0, atol=allowed, err_msg=key)


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


def test_shards_of_table_have_multiple_of_16_rows():
    size = layers.Embedding.get_vocab_shard_size
    assert (size(10, 1), size(100, 3), size(96, 3)) == (16, 48, 32)
    assert layers.Embedding.get_offsets(100, 3).tolist() == [0, 48, 96]


def test_layer_norm_takes_matrices():
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="shape N x C"):
        layers.LayerNorm().create_graph(popxl.TensorSpec((2, 3, 4), popxl.float32))


class Parameter:
    """A parameter of PyTorch."""

    def __init__(self, *shape):
        self.array = RNG.normal(size=shape).astype(np.float32)

    def detach(self):
        return self

    def numpy(self):
        return self.array


class TorchLayer:
    """A layer of PyTorch with a weight, and a bias."""

    def __init__(self, weight, bias=None):
        self.weight, self.bias = Parameter(*weight), None if bias is None else Parameter(*bias)


MAPPINGS = {
    # The layer, an input, its layer of PyTorch, and what its results are without rounding.
    "linear": (layers.Linear(3), X, TorchLayer((3, 6), (3,)), lambda x, w, b: x @ w.T + b),
    "no bias": (layers.Linear(3, False), X, TorchLayer((3, 6)), lambda x, w, b: x @ w.T),
    "linear fp8": (
        layers.linear_fp8.LinearFP8(3),
        X,
        TorchLayer((3, 6), (3,)),
        lambda x, w, b: x @ w.T + b,
    ),
    "linear gq": (
        layers.linear_gq.LinearGQ(64, group_size=64),
        X,
        TorchLayer((64, 6), (64,)),
        lambda x, w, b: x @ w.T + b,
    ),
    "convolution": (
        layers.Conv2D(3, (2, 2)),
        IMAGES,
        TorchLayer((3, 4, 2, 2), (3,)),
        lambda x, w, b: convolved(x, {"weight": w}, 1, "VALID") + b[:, None, None],
    ),
    "embedding": (
        layers.Embedding(popxl.float32, 20, 3),
        np.array([0, 19, 7], np.int32),
        TorchLayer((20, 3)),
        lambda x, w, b: w[x],
    ),
    "distributed layer norm": (
        LayerNormDistributed(),
        X,
        TorchLayer((2, 3), (2, 3)),
        lambda x, w, b: normalized(x, [1]) * w.flatten() + b.flatten(),
    ),
    "layer norm": (
        layers.LayerNorm(),
        X,
        TorchLayer((2, 3), (2, 3)),
        lambda x, w, b: normalized(x, [1]) * w.flatten() + b.flatten(),
    ),
    "group norm": (
        layers.GroupNorm(2),
        IMAGES,
        TorchLayer((4,), (4,)),
        lambda x, w, b: grouped(x, {"weight": w}, 0.0) + b[:, None, None],
    ),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_layers_take_the_values_of_torch_layers(name):
    layer, x, torch_layer, formula = MAPPINGS[name]
    weights = partial(type(layer).torch_mapping, nn_layer=torch_layer, dtype=popxl.float32)
    data = TensorInput(x if x.dtype == np.int32 else x.astype(np.float32))
    (found,) = run_module(layer, data, weights=weights)
    weight = torch_layer.weight.array.astype(np.float64)
    bias = None if torch_layer.bias is None else torch_layer.bias.array
    expected = tf.convert_to_tensor(formula(x, weight, bias)).numpy()
    # 8-bit floats have 3 bits of mantissa, and numbers of 4 bits are a 15th of their range apart.
    part = {"linear fp8": 0.1, "linear gq": 0.15}.get(name, 1e-5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.abs(expected).max())


def test_torch_layer_values_match_variables():
    with popxl.Ir().main_graph:
        factories, _ = layers.Linear(2).create_graph(popxl.TensorSpec((4, 3), popxl.float16))
        variables = factories.init()
    torch_layer = TorchLayer((2, 3), (2,))
    mapped = layers.Linear.torch_mapping(variables, torch_layer, popxl.float16)
    assert mapped[variables.bias].dtype == np.float16
    with pytest.raises(ValueError, match="must have the shape"):
        layers.Linear.torch_mapping(variables, torch_layer)
    with pytest.raises(ValueError, match="the layer of PyTorch has no bias"):
        layers.Linear.torch_mapping(variables, TorchLayer((2, 3)), popxl.float16)
    for wrong in (np.zeros(3, np.float16), np.zeros(2, np.float32)):
        with pytest.raises(ValueError, match="must have the shape"):
            addons.WeightsDict({variables.bias: wrong})


@pytest.mark.parametrize(("replicas", "size"), [(2, 2), (4, 2)])
def test_parts_of_variables_take_parts_of_torch_layers(replicas, size):
    table, norm = TorchLayer((20, 3)), TorchLayer((2 * size,), (2 * size,))
    ir = popxl.Ir(replicas)
    with ir.main_graph:
        each = ir.replica_grouping(group_size=1)
        embedding = layers.Embedding(popxl.float32, 20, 3, replica_grouping=each)
        rows = embedding.create_graph(popxl.TensorSpec((4,), popxl.int32))[0].init()
        mapped = layers.Embedding.torch_mapping(rows, table)[rows.weight]
        distributed = LayerNormDistributed(ir.replica_grouping(group_size=size))
        parts = distributed.create_graph(popxl.TensorSpec((4, 2), popxl.float32))[0].init()
        halves = LayerNormDistributed.torch_mapping(parts, norm)
    assert mapped.shape == (replicas, 16, 3)
    np.testing.assert_array_equal(mapped.reshape(-1, 3)[:20], table.weight.array)
    assert not mapped.reshape(-1, 3)[20:].any()
    np.testing.assert_array_equal(halves[parts.weight], norm.weight.array.reshape(size, 2))
    np.testing.assert_array_equal(halves[parts.bias], norm.bias.array.reshape(size, 2))
    with pytest.raises(ValueError, match="at most .* rows of 3 elements"):
        layers.Embedding.torch_mapping(rows, TorchLayer((20, 4)))
