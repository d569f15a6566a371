"""Models of files: reading and refusals."""

from __future__ import annotations

import numpy as np
import popart
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.popart import popart_models

X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)
W = np.array([[0.5, 1.0], [-1.0, 2.0]], np.float32)


def model(nodes, opset=11, weights=(), inputs=("x",), outputs=("y",), ir_version=4):
    """A model whose weights are no inputs, as most exporters write them."""
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in inputs]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in outputs]
    values = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "g", tensors, results, values)
    opsets = [helper.make_opsetid("", opset)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return made.SerializeToString()


def node(type_, *inputs, output="y", **attributes):
    return helper.make_node(type_, list(inputs), [output], **attributes)


@pytest.mark.parametrize("opset", range(6, 12))
def test_models_of_each_opset_run(opset, tmp_path):
    path = tmp_path / "model.onnx"
    nodes = [node("MatMul", "x", "w", output="a"), node("Relu", "a", output="b")]
    nodes += [node("Shape", "x", output="s"), node("Gather", "s", "i", output="n")]
    nodes += [node("Concat", "n", "m", output="r", axis=0), node("Reshape", "b", "r")]
    indices = ("i", np.array([0], np.int64)), ("m", np.array([-1, 1], np.int64))
    path.write_bytes(model(nodes, opset, [("w", W), *indices]))
    found = popart_models.infer(str(path), {"x": X}, ["y"])["y"]
    np.testing.assert_allclose(found, np.maximum(X @ W, 0).reshape(2, 2, 1))


def test_constants_may_count_from_the_end_as_indices():
    indices = numpy_helper.from_array(np.array([-1, 0], np.int64))
    made = model([node("Constant", output="i", value=indices), node("Gather", "x", "i", axis=1)])
    np.testing.assert_array_equal(popart_models.infer(made, {"x": X}, ["y"])["y"], X[:, [-1, 0]])


def test_models_of_the_builder_are_started_from():
    first = popart.Builder()
    x = first.addInputTensor("FLOAT", [2, 2])
    y = first.aiOnnx.relu([x])
    second = popart.Builder(first.getModelProto())
    z = second.aiOnnx.add([y, y])
    found = popart_models.infer(second.getModelProto(), {x: X}, [z])
    np.testing.assert_allclose(found[z], 2 * np.maximum(X, 0))


RELU = [node("Relu", "x")]


@pytest.mark.parametrize(
    "broken, message",
    [
        (b"no model", "Failed to load a ModelProto"),
        (model(RELU)[:-9], "Failed to load a ModelProto|not valid"),
        (model(RELU, opset=5), "Encountered ONNX opset version 5"),
        (model(RELU, opset=99), "Encountered ONNX opset version 99"),
        (model([node("Relu", "z")]), "Unknown tensor 'z'"),
        (model([node("Rely", "x")]), "No op ai.onnx.Rely of opset 11 is supported"),
        (model([node("Det", "x")]), "No op ai.onnx.Det of opset 11 is supported"),
        (model(RELU, inputs=("x", "x")), "repeated name|not valid"),
        (model(RELU, inputs=("x", "Accl1___x")), "clash with reserved prefix"),
        (model([node("Identity", "x", output="z")], outputs=("z",)), "y"),
    ],
)
def test_models_that_cannot_run_are_refused(broken, message):
    with pytest.raises(popart.popart_exception, match=message):
        popart_models.infer(broken, {"x": X}, ["y"])


def test_sessions_take_models_that_the_checker_refuses():
    # Attributes that no schema has, "" for an input that has to be there, outputs without shapes.
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [1, 1, 2, 2])
    ops = builder.aiOnnxOpset11
    nothing, sizes = (
        ops.constant(np.array(v, t)) for v, t in (([], "float32"), ([1, 1, 4, 2], "int64"))
    )
    y = ops.resize([x, nothing, "", sizes])
    builder.addNodeAttribute("mine", 3, {y})
    builder.addOutputTensor(builder.aiGraphcore.scaledadd([y, y]))
    found = popart_models.infer(builder.getModelProto(), {x: X.reshape(1, 1, 2, 2)}, [y])
    np.testing.assert_array_equal(found[y][0, 0], X.repeat(2, 0))
    older = popart.Builder()
    x = older.addInputTensor("FLOAT", [4])
    names = [older.aiOnnx.resize([x, older.aiOnnx.constant(np.full(1, 1.25, "f"))]) for _ in "ab"]
    older.addNodeAttribute("nearest_mode", "ceil", {names[0]})
    found = popart_models.infer(older.getModelProto(), {x: np.arange(4, dtype="f")}, names)
    np.testing.assert_array_equal(found[names[0]], [0, 1, 2, 3, 3])
    np.testing.assert_array_equal(found[names[1]], [0, 0, 1, 2, 3])
    for use in (popart.Builder, popart.GraphTransformer):
        with pytest.raises(popart.popart_exception, match="The model is not valid"):
            use(model([node("Relu", "x", alpha=1.0)]))


def test_ops_of_unknown_domains_are_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 2])
    (y,) = builder.customOp("Mystery", 1, "my.ops", [x], {"scale": 2.0})
    with pytest.raises(popart.popart_exception, match=r"No op my.ops.Mystery of opset 1"):
        popart_models.infer(builder.getModelProto(), {}, [y])


def test_models_of_which_nothing_is_needed_are_refused():
    with pytest.raises(popart.popart_exception, match="nothing to compute"):
        popart_models.infer(model(RELU), {"x": X}, ["x"])


def test_supported_ops_say_what_they_take():
    definitions = popart.getSupportedOperationsDefinition(False)
    names = {(key.domain, key.type, key.version): value for key, value in definitions.items()}
    reshape = names["ai.onnx", "Reshape", 5]
    assert [(part.name, part.constant) for part in reshape.inputs] == [
        ("data", False),
        ("shape", True),
    ]
    assert popart.DataType.FLOAT16 in reshape.inputs[0].supportedTensors
    assert "axis" in names["ai.onnx", "Softmax", 11].attributes
    assert [part.name for part in names["ai.onnx", "Relu", 6].outputs] == ["Y"]
    with pytest.raises(TypeError, match="No constructor"):
        popart.OpDefinition()
    unsupported = {key.type for key in popart.getUnsupportedOperations(11)}
    assert "Det" in unsupported and "Conv" not in unsupported
