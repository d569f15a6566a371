"""The builder: names, shapes, annotations, opsets, and what it refuses."""

from __future__ import annotations

import numpy as np
import onnx
import popart
import pytest


@pytest.fixture
def builder():
    return popart.Builder()


def model_of(builder):
    model = onnx.ModelProto()
    model.ParseFromString(builder.getModelProto())
    return model


def test_ids_are_made_of_scopes_and_ops_and_are_unique(builder):
    x, y = (builder.addInputTensor("FLOAT", [2]) for _ in range(2))
    w = builder.addInitializedInputTensor(np.ones(2, np.float32))
    assert (x, y, w) == ("input", "input/1", "init_input")
    with builder.nameScope("a"), builder.nameScope("b"):
        total = builder.aiOnnx.add([x, w], "sum")
        assert builder.getNameScope("c") == "a/b/c"
    assert total == "a/b/Add:0"
    assert builder.aiOnnx.add([x, y]) == "Add:0"
    assert builder.aiOnnx.add([x, y]) == "Add:0/1"
    names = [node.name for node in model_of(builder).graph.node]
    assert names == ["a/b/sum", "", ""]
    assert builder.getInputTensorIds() == [x, y, w]
    assert builder.getTrainableTensorIds() == [w] and builder.isInitializer(w)


def test_shapes_and_types_are_known_as_ops_are_added(builder):
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [2, 3, 8, 8]))
    w = builder.addInitializedInputTensor(np.zeros([4, 3, 3, 3], np.float16))
    y = builder.aiOnnx.conv([x, w], pads=[1, 1, 1, 1], strides=[2, 2])
    z = builder.aiGraphcore.gelu([y])
    assert builder.getTensorShape(z) == [2, 4, 4, 4]
    assert builder.getTensorDtypeString(z) == "float16"
    r = builder.reshape_const(builder.aiOnnx, [z], [2, -1])
    assert builder.getTensorShape(r) == [2, 64]
    custom = builder.customOp("Mine", 1, "my.domain", [r], {"a": 1, "b": [1.0]})
    assert builder.getTensorShape(custom[0]) == []
    assert builder.getTensorDtypeString(custom[0]) == "undefined"
    with pytest.raises(popart.popart_exception, match="is not an known tensor"):
        builder.getTensorShape("nothing")


def test_annotations_are_attributes_of_nodes(builder):
    x = builder.addInputTensor("FLOAT", [2, 2])
    with builder.virtualGraph(1), builder.pipelineStage(2):
        assert builder.getVirtualGraph() == 1 and builder.hasPipelineStage()
        y = builder.aiOnnx.matmul([x, x])
    assert not builder.hasVirtualGraph()
    assert builder.getVirtualGraph([y]) == 1
    assert builder.getInt64NodeAttribute("__pipeline_stage", {y}) == 2
    builder.setPartialsType(y, "HALF")
    builder.setAvailableMemoryProportion(y, 0.5)
    builder.addNodeAttribute("mine", ["a", "b"], {y})
    assert builder.getPartialsType(y) == "HALF"
    assert builder.getStringVectorNodeAttribute("mine", {y}) == ["a", "b"]
    assert builder.getFloatNodeAttribute("__available_memory", {y}) == 0.5
    builder.removeNodeAttribute("mine", {y})
    assert not builder.nodeHasAttribute("mine", {y})
    z = builder.aiOnnx.relu([y])
    for wrong, message in (
        (lambda: builder.virtualGraph(y, 0), "already has attribute"),
        (lambda: builder.getVirtualGraph(), "not set in current scope"),
        (lambda: builder.setPartialsType(z, "HALF"), "should only be called on operators"),
        (lambda: builder.getInt64NodeAttribute("mine", {y}), "does not have an attribute"),
        (lambda: builder.getFloatNodeAttribute("__ipu_number", {y}), "is not a float."),
        (lambda: builder.getVirtualGraph(["x"]), "Could not find a node with outputs"),
        (lambda: builder.setAvailableMemoryProportion(y, 2.0), r"in \(0, 1\]"),
    ):
        with pytest.raises(popart.popart_exception, match=message):
            wrong()


def test_one_opset_of_onnx_for_each_builder(builder):
    assert str(builder.aiOnnx) == "AiOnnx10" and hasattr(builder.aiOnnx, "mod")
    with pytest.raises(RuntimeError, match="Invalid opset 'aiOnnxOpset9' selected"):
        _ = builder.aiOnnxOpset9
    older = popart.Builder(opsets={"ai.onnx": 7, "ai.graphcore": 1})
    assert str(older.aiOnnx) == "AiOnnx7" and not hasattr(older.aiOnnx, "mod")
    with pytest.raises(KeyError):
        popart.Builder(opsets={"ai.onnx": 7})
    with pytest.raises(ValueError, match="Unsupported or unrecognized ai.graphcore version"):
        popart.Builder(opsets={"ai.onnx": 7, "ai.graphcore": 2})


@pytest.mark.parametrize(
    "add, message",
    [
        (lambda o, x: o.add([x]), r"Add has invalid number of inputs 1. Must be between 2..2"),
        (lambda o, x: o.split([x], 0), "has an invalid number of outputs 0"),
        (lambda o, x: o.relu(["y"]), r"Unknown tensor 'y' \(valid tensors are input\)"),
        (lambda o, x: o.maxpool([x], 1, [2]), "Input tensor has no spatial dimensions"),
        (lambda o, x: o.constant(np.zeros(2, np.float64)), "No numpy type float64 registered"),
    ],
)
def test_nodes_that_fit_no_op_are_refused(builder, add, message):
    x = builder.addInputTensor("FLOAT", [2, 2])
    with pytest.raises(popart.popart_exception, match=message):
        add(builder.aiOnnx, x)
    assert len(model_of(builder).graph.node) == 0


def test_a_builder_goes_on_with_a_model(builder, tmp_path):
    x = builder.addInputTensor("FLOAT", [2])
    w = builder.addInitializedInputTensor(np.arange(2, dtype=np.float32))
    builder.addOutputTensor(builder.aiOnnx.add([x, w]))
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    for source in (builder.getModelProto(), str(tmp_path / "model.onnx")):
        other = popart.Builder(source)
        other.addOutputTensor(other.aiOnnx.relu(other.getOutputTensorIds()))
        assert other.getOutputTensorIds() == ["Add:0", "Relu:0"]
    builder.saveInitializersExternally([w], str(tmp_path / "weights"))
    (tensor,) = model_of(builder).graph.initializer
    assert tensor.data_location == onnx.TensorProto.EXTERNAL and not tensor.raw_data
    data = np.fromfile(tmp_path / "weights", np.float32)
    np.testing.assert_array_equal(data, [0, 1])
    with pytest.raises(popart.popart_exception, match="already has an external data_location"):
        builder.saveInitializersExternally([w], str(tmp_path / "weights"))


@pytest.mark.parametrize("model", [b"", b"no model", "no/such/file.onnx"])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(popart.popart_exception, match="Failed to load a ModelProto"):
        popart.Builder(model)


@pytest.mark.parametrize(
    "version, count", [(6, 95), (7, 102), (8, 104), (9, 123), (10, 137), (11, 156)]
)
def test_all_ops_of_an_opset_have_methods(version, count):
    opset = getattr(popart, f"AiOnnxOpset{version}")
    assert len([name for name in dir(opset) if name.islower() and name[0] != "_"]) == count + 2
    assert {"domain", "version"} < set(dir(opset))
