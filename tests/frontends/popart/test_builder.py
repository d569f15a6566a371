"""The builder: names, shapes, annotations, opsets and refusals."""

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


def test_ids_combine_scopes_and_ops_uniquely(builder):
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


def test_shapes_and_types_are_known_while_building(builder):
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


def test_shapes_are_those_of_the_original_builder(builder):
    own, ops = builder.aiGraphcore, builder.aiOnnx
    x = builder.addInputTensor("FLOAT", [10, 9, 8, 7])
    c, r = builder.addInputTensor("FLOAT", [9]), builder.addInputTensor("FLOAT", [1, 7])
    offset = builder.addInputTensor("UINT32", [1])
    part = builder.addInputTensor("FLOAT", [9, 8, 7])
    for tensor, shape, dtype in (
        (own.subsample([x], [2, 3, 4, 5]), [5, 3, 2, 1], "float32"),
        (ops.logical_and([x, r]), [10, 9, 8, 7], "bool"),
        (ops.logical_not([c]), [9], "bool"),
        (ops.equal([c, c]), [9], "bool"),
        *((name, [9], "float32") for name in ops.batchnormalization([x, c, c, c, c], 5)[1:]),
        (own.dynamicupdate([x, offset, part], [0], [1]), [10, 9, 8, 7], "float32"),
    ):
        assert builder.getTensorShape(tensor) == shape
        assert builder.getTensorDtypeString(tensor) == dtype


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
        (lambda: builder.setAvailableMemoryProportion(y, 2.0), r"in \(0,1\]"),
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


def _attribute(builder, tensor, name):
    node = next(n for n in model_of(builder).graph.node if tensor in n.output)
    return next((a for a in node.attribute if a.name == name), None)


def test_arguments_become_attributes_of_the_schemas_types(builder):
    x = builder.addInputTensor("FLOAT", [2, 2])
    ops, own, types = builder.aiOnnx, builder.aiGraphcore, onnx.AttributeProto
    shape = ops.constant(np.array([2]), "name")
    rnn = [builder.addInputTensor("FLOAT", size) for size in ([1, 1, 2], [1, 2, 2], [1, 2, 2])]
    for tensor, name, type_, value in (
        (ops.gemm([x, x, x], alpha=1, beta=True), "alpha", types.FLOAT, 1.0),
        (ops.pad([x], (0, 0, 1, 1), value=0), "pads", types.INTS, [0, 0, 1, 1]),
        (ops.randomnormallike([x], mean=np.array(2)), "mean", types.FLOAT, 2.0),
        (ops.reducesum([x], axes=range(0)), "axes", types.INTS, []),
        (ops.reducesum([x], axes=np.array([1])), "axes", types.INTS, [1]),
        (ops.rnn(rnn, 2, activations=[])[0], "activations", types.STRINGS, []),
        (own.scale([x], np.float32(3)), "scale", types.FLOAT, 3.0),
        (own.subsample([x], (1, np.int64(2))), "strides", types.INTS, [1, 2]),
    ):
        found = _attribute(builder, tensor, name)
        assert found.type == type_ and onnx.helper.get_attribute_value(found) == value
    for given, field, value in (
        (np.array([3.0], np.float16), "int32_data", [0x4200]),
        ([2.5], "float_data", [2.5]),
        ([7], "int64_data", [7]),
    ):
        made = _attribute(builder, ops.constantofshape([shape], given), "value").t
        assert not made.raw_data and list(getattr(made, field)) == value
    assert _attribute(builder, ops.reducesum([x]), "axes") is None
    assert _attribute(builder, ops.rnn(rnn, 2)[0], "direction") is None
    assert [n.name for n in model_of(builder).graph.node][0] == "name"


def test_methods_refuse_arguments_of_other_types(builder):
    x = builder.addInputTensor("FLOAT", [2])
    older = popart.Builder(opsets={"ai.onnx": 6, "ai.graphcore": 1})
    y = older.addInputTensor("FLOAT", [2])
    assert older.aiOnnx.add([y, y], 1, 0, "named") == "Add:0"
    for method, call in (
        ("add", lambda: older.aiOnnx.add([y, y], "named")),
        ("add", lambda: builder.aiOnnx.add([x, x], 1, 0, "named")),
        ("relu", lambda: builder.aiOnnx.relu(x)),
        ("concat", lambda: builder.aiOnnx.concat([x])),
        ("cast", lambda: builder.aiOnnx.cast([x])),
        ("softmax", lambda: builder.aiOnnx.softmax([x], 1.5)),
        ("scale", lambda: builder.aiGraphcore.scale([x], "2")),
        ("reshape", lambda: builder.aiGraphcore.reshape([x], [2])),
        ("nllloss", lambda: builder.aiGraphcore.nllloss([x, x], "Mean")),
        ("ctcloss", lambda: builder.aiGraphcore.ctcloss([x], "Mean")),
        ("init", lambda: builder.aiGraphcore.init([2])),
        ("constant", lambda: builder.aiOnnx.constant()),
        ("getTensorShape", lambda: builder.getTensorShape(1)),
        ("addInputTensor", lambda: builder.addInputTensor("FLOAT", [2], "x", "y")),
        ("setPartialsType", lambda: builder.setPartialsType(x)),
        (
            "acquireAvailableDevice",
            lambda: popart.DeviceManager().acquireAvailableDevice(1, pattern="full"),
        ),
    ):
        begin = f"{method}(): incompatible function arguments. The following argument types are"
        with pytest.raises(TypeError) as error:
            call()
        assert str(error.value).startswith(begin)


@pytest.mark.parametrize(
    "dtype, field",
    [
        *(("float32", "float_data"), ("int64", "int64_data"), ("uint32", "uint64_data")),
        *((name, "int32_data") for name in ("int32", "int8", "uint16", "bool", "float16")),
    ],
)
def test_models_keep_values_in_typed_fields(builder, dtype, field):
    array = np.arange(300).reshape(3, 100).astype(dtype)
    builder.addInitializedInputTensor(array)
    (tensor,) = model_of(builder).graph.initializer
    assert not tensor.raw_data and len(getattr(tensor, field)) == 300
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), array)


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
