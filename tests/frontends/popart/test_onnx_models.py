"""Models of today's opsets, as exporters write them, against ONNX's reference evaluator."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import popart
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.popart import popart_models

RANDOM = np.random.RandomState(0)


class Graph:
    """A graph that is built node by node, with weights that are not among its inputs."""

    def __init__(self, opset):
        self.opset = opset
        self.nodes, self.weights, self.inputs = [], [], []

    def __call__(self, type_, *inputs, outputs=1, **attributes):
        names = [f"{type_}_{len(self.nodes)}_{i}" for i in range(outputs)]
        given = [
            name if isinstance(name, str) else self.weight(np.asarray(name)) for name in inputs
        ]
        self.nodes.append(
            helper.make_node(type_, given, names, f"n{len(self.nodes)}", **attributes)
        )
        return names[0] if outputs == 1 else names

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape):
        return self.weight((RANDOM.randn(*shape) * 0.3).astype(np.float32))

    def input(self, name, shape, type_=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, type_, shape))
        return name

    def model(self, *outputs):
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "exported", self.inputs, made, self.weights)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    def linear(self, x, size, units):
        return self("Add", self("MatMul", x, self.random(size, units)), self.random(units))

    def normal(self, x, size):
        scale, bias = self.weight(np.ones(size, np.float32)), self.random(size)
        if self.opset >= 17:
            return self("LayerNormalization", x, scale, bias, axis=-1)
        axes = {} if self.opset >= 18 else {"axes": [-1]}
        moved = self("Sub", x, self("ReduceMean", x, **axes))
        power = self("ReduceMean", self("Pow", moved, np.float32(2)), **axes)
        root = self("Sqrt", self("Add", power, np.float32(1e-5)))
        return self("Add", self("Mul", self("Div", moved, root), scale), bias)

    def gelu(self, x):
        if self.opset >= 20:
            return self("Gelu", x)
        inner = self("Erf", self("Div", x, np.float32(2**0.5)))
        return self("Mul", self("Mul", x, self("Add", inner, np.float32(1))), np.float32(0.5))


def cnn(opset):
    """Convolutions, batch normalization in inference, pools, a shape that is computed."""
    g = Graph(opset)
    x = g.input("x", [2, 3, 8, 8])
    y = g("Conv", x, g.random(4, 3, 3, 3), g.random(4), pads=[1] * 4, kernel_shape=[3, 3])
    ones = [np.ones(4, np.float32), np.zeros(4, np.float32)] * 2
    if opset >= 14:  # the reference has statistics of the batch before
        y = g("BatchNormalization", y, *ones[:2], ones[1], ones[0])
    y = g("Clip", y, np.float32(0), np.float32(6))
    y = g("HardSwish", y) if opset >= 14 else g("HardSigmoid", y, alpha=1 / 6)
    y = g("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1)
    y = g("Resize", y, "", np.float32([1, 1, 2, 2]), mode="linear")
    y = g("Pad", y, np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    y = g("GlobalAveragePool", g("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    batch = g("Gather", g("Shape", y), np.array(0), axis=0)
    shape = g("Concat", g("Unsqueeze", batch, np.array([0])), np.array([-1]), axis=0)
    y = g("Gemm", g("Reshape", y, shape), g.random(5, 4), g.random(5), transB=1)
    return g.model(g("Softmax", y)), {"x": RANDOM.randn(2, 3, 8, 8).astype(np.float32)}


def lstm(opset):
    """A recurrent layer over a sequence whose batch was first."""
    g = Graph(opset)
    x = g("Transpose", g.input("x", [2, 5, 3]), perm=[1, 0, 2])
    state = g("Expand", np.zeros(1, np.float32), np.array([1, 2, 4]))
    y, last = g(
        *("LSTM", x, g.random(1, 16, 3), g.random(1, 16, 4), g.random(1, 32), "", state, state),
        outputs=2,
        hidden_size=4,
    )
    first, rest = g("Split", g("Squeeze", y, np.array([1])), np.array([3, 2]), outputs=2, axis=0)
    y = g("ReduceSum", rest, np.array([0]), keepdims=0)
    y = g("Add", y, g("ReduceMax", g("Squeeze", last, np.array([0]))))
    return g.model(y, first), {"x": RANDOM.randn(2, 5, 3).astype(np.float32)}


def block(g, x, size, heads, mask):
    """A block of a transformer, with heads from one product."""
    q, k, v = g("Split", g.linear(x, size, 3 * size), np.array([size] * 3), outputs=3, axis=-1)
    batch, time = (g("Slice", g("Shape", x), np.array([i]), np.array([i + 1])) for i in (0, 1))
    split = g("Concat", batch, time, np.array([heads, size // heads]), axis=0)
    q, k, v = (g("Transpose", g("Reshape", t, split), perm=[0, 2, 1, 3]) for t in (q, k, v))
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g("Div", scores, g("Sqrt", g("Cast", np.array(size // heads), to=1)))
    mixed = g("MatMul", g("Softmax", g("Add", scores, mask), axis=-1), v)
    joined = g("Concat", batch, time, np.array([size]), axis=0)
    mixed = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    x = g.normal(g("Add", x, g.linear(mixed, size, size)), size)
    inner = g.gelu(g.linear(x, size, 2 * size))
    return g.normal(g("Add", x, g.linear(inner, 2 * size, size)), size)


def bert(opset):
    """Tokens, positions from a range, a mask of tokens that are none, two blocks."""
    g, size = Graph(opset), 8
    tokens = g.input("tokens", [2, 6], TensorProto.INT64)
    mask = g.input("mask", [2, 6], TensorProto.INT64)
    time = g("Gather", g("Shape", tokens), np.array(1))
    positions = g("Unsqueeze", g("Range", np.array(0), time, np.array(1)), np.array([0]))
    x = g("Gather", g.random(11, size), tokens)
    x = g("Add", x, g("Gather", g.random(9, size), positions))
    x = g.normal(x, size)
    outside = g("Sub", np.float32(1), g("Cast", g("Unsqueeze", mask, np.array([1, 2])), to=1))
    bias = g("Mul", outside, np.float32(-1e9))
    for _ in range(2):
        x = block(g, x, size, 2, bias)
    pooled = g("Tanh", g.linear(g("Gather", x, np.array(-6), axis=1), size, size))
    data = {
        "tokens": RANDOM.randint(0, 11, (2, 6)),
        "mask": np.array([[1] * 6, [1, 1, 1, 0, 0, 0]]),
    }
    return g.model(x, pooled), data


def gpt(opset):
    """Tokens, a causal mask from a range, a block, logits by the transposed embedding."""
    g, size = Graph(opset), 8
    tokens = g.input("tokens", [1, 5], TensorProto.INT64)
    table = g.random(11, size)
    x = g("Gather", table, tokens)
    time = g("Squeeze", g("Slice", g("Shape", tokens), np.array([1]), np.array([2])), np.array([0]))
    steps = g("Range", np.array(0), time, np.array(1))
    later = g("Greater", g("Unsqueeze", steps, np.array([0])), g("Unsqueeze", steps, np.array([1])))
    bias = g("Where", later, np.float32(-1e9), np.float32(0))
    for _ in range(2):
        x = block(g, x, size, 4, bias)
    logits = g("MatMul", x, g("Transpose", table, perm=[1, 0]))
    return g.model(g("LogSoftmax", logits, axis=-1)), {"tokens": RANDOM.randint(0, 11, (1, 5))}


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("build", [cnn, lstm, bert, gpt])
def test_models_compute_what_the_reference_does(build, opset):
    model, data = build(opset)
    expected = ReferenceEvaluator(model).run(None, data)
    names = [value.name for value in model.graph.output]
    found = popart_models.infer(model.SerializeToString(), data, names)
    for name, array in zip(names, expected):
        np.testing.assert_allclose(found[name], array, 1e-4, 1e-5, err_msg=name)


def test_models_train_from_files():
    """The gradient of a weight against finite differences of the reference."""
    g = Graph(17)
    x = g.linear(g.normal(g.input("x", [3, 4]), 4), 4, 4)
    labels = g.weight(np.array([1, 0, 3], np.int64))
    loss = g("SoftmaxCrossEntropyLoss", g.gelu(x), labels)
    model = g.model(loss)
    data = {"x": RANDOM.randn(3, 4).astype(np.float32)}
    weights = model.graph.initializer
    (index,) = (i for i, tensor in enumerate(weights) if list(tensor.dims) == [4, 4])
    start = numpy_helper.to_array(weights[index]).copy()
    name = weights[index].name
    found = popart_models.differentiate(model.SerializeToString(), loss, data, [name])[name]
    expected, step = np.zeros_like(start), 1e-2
    for place in np.ndindex(*start.shape):
        values = []
        for sign in (1, -1):
            moved = start.copy()
            moved[place] += sign * step
            weights[index].CopyFrom(numpy_helper.from_array(moved, name))
            values.append(ReferenceEvaluator(model).run(None, data)[0])
        expected[place] = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose(found, expected, 1e-2, 1e-3)


def layers_of_torch(torch):
    """Small modules of PyTorch, and their inputs."""
    nn = torch.nn
    normal = nn.BatchNorm2d(4)
    images = nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1), normal, nn.GELU(), nn.AvgPool2d(3, 2, 1)),
        *(nn.Flatten(), nn.Linear(64, 5), nn.Softmax(-1)),
    )
    encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True)

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(11, 8)
            self.mix = nn.Linear(8, 24)
            self.normal = nn.LayerNorm(8)

        def forward(self, tokens):
            x = self.table(tokens)
            q, k, v = self.mix(self.normal(x)).chunk(3, -1)
            scores = q @ k.transpose(-1, -2) / 8**0.5
            later = torch.ones(5, 5).triu(1).bool()
            weights = scores.masked_fill(later, float("-inf")).softmax(-1)
            return (x + weights @ v) @ self.table.weight.T

    return {
        "cnn": (images, torch.randn(2, 3, 8, 8)),
        "lstm": (nn.LSTM(3, 4, batch_first=True), torch.randn(2, 5, 3)),
        "bert": (nn.TransformerEncoder(encoder, 2), torch.randn(2, 6, 8)),
        "gpt": (Causal(), torch.randint(0, 11, (1, 5))),
    }


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("name", ["cnn", "lstm", "bert", "gpt"])
def test_exports_of_pytorch_compute_the_same(name, dynamo, tmp_path):
    torch = pytest.importorskip("torch")
    if dynamo:
        pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module, data = layers_of_torch(torch)[name]
    module.eval()
    path = str(tmp_path / "exported.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, about its exporters
        torch.onnx.export(
            *(module, (data,), path),
            opset_version=18 if dynamo else 17,
            input_names=["x"],
            dynamo=dynamo,
        )
    with torch.no_grad():
        made = module(data)
    expected = made[0] if isinstance(made, tuple) else made
    output = onnx.load(path).graph.output[0].name
    found = popart_models.infer(path, {"x": data.numpy()}, [output])
    np.testing.assert_allclose(found[output], expected.numpy(), 1e-4, 1e-5)


def test_nodes_that_do_not_run_are_named():
    g = Graph(17)
    y = g("NonZero", g.input("x", [2, 2]))
    message = r"No op ai.onnx.NonZero of opset 17 .*the node n0 \(NonZero_0_0\)"
    with pytest.raises(popart.popart_exception, match=message):
        popart_models.infer(g.model(y).SerializeToString(), {}, [y])


def test_slices_that_skip_elements_are_named():
    g = Graph(11)
    y = g("Slice", g.input("x", [4]), [0], [4], [0], [2])
    with pytest.raises(popart.popart_exception, match=r"steps of 1 and -1.* at Op\(n0, "):
        popart_models.infer(g.model(y).SerializeToString(), {}, [y])


def test_calls_of_local_functions_are_inlined():
    own, opsets = "modules", [helper.make_opsetid("", 18), helper.make_opsetid("modules", 1)]
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    slope = onnx.AttributeProto.FLOAT
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=slope)
    one = helper.make_function(own, "One", ["a"], ["b"], [leaky], opsets[:1], ["slope"])
    calls = [
        helper.make_node("One", ["a"], ["b"], domain=own, slope=0.5),
        helper.make_node("One", ["b"], ["c"], domain=own, slope=0.25),
    ]
    two = helper.make_function(own, "Two", ["a"], ["c"], calls, opsets)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xz"]
    nodes = [helper.make_node("Two", [x], [y], domain=own) for x, y in ("xy", "yz")]
    graph = helper.make_graph(nodes, "calls", ends[:1], ends[1:])
    model = helper.make_model(graph, functions=[one, two], opset_imports=opsets, ir_version=8)
    data = {"x": np.array([-64, 3], np.float32)}
    found = popart_models.infer(model.SerializeToString(), data, ["y", "z"])
    assert found["y"].tolist() == [-8, 3] and found["z"].tolist() == [-1, 3]
