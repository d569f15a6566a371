"""`GraphTransformer`, `NumericsReport` and models with data in files beside them."""

from __future__ import annotations

import numpy as np
import onnx
import popart
import pytest
from onnx import numpy_helper

from tests.support.popart import popart_models

W = np.arange(6, dtype=np.float32).reshape(3, 2)


def model(weight=W):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    builder.addInputTensor("FLOAT", [1], "unused")
    w = builder.addInitializedInputTensor(weight, "w")
    builder.addInitializedInputTensor(np.array([1, 2**40]), "n")
    y = builder.aiOnnx.matmul([x, w])
    y = builder.aiOnnx.add([y, builder.aiOnnx.constant(np.ones(2, np.float32))])
    builder.addOutputTensor(y)
    return builder.getModelProto(), y


def test_types_of_models_are_converted():
    transformer = popart.GraphTransformer(model()[0])
    transformer.removeUnusedInputs()
    transformer.convertFloatsToHalfs()
    proto = transformer.getModelProto()
    graph = onnx.ModelProto.FromString(proto).graph
    assert [value.name for value in graph.input] == ["x", "w"]
    assert {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)} == {10}
    data = np.ones([2, 3], np.float16)
    found = popart_models.infer(proto, {"x": data}, [graph.output[0].name])
    np.testing.assert_array_equal(found[graph.output[0].name], data @ W.astype(np.float16) + 1)


def test_integers_are_narrowed_and_become_constants():
    transformer = popart.GraphTransformer(model()[0])
    with pytest.raises(popart.popart_exception, match="number is too large"):
        transformer.convertINT64ToINT32()
    transformer.convertINT64ToINT32(True)
    transformer.convertAllFixedPointInitializersToConstants()
    graph = onnx.ModelProto.FromString(transformer.getModelProto()).graph
    assert [tensor.name for tensor in graph.initializer] == ["w"]
    value = numpy_helper.to_array(graph.node[0].attribute[0].t)
    np.testing.assert_array_equal(value, [1, 2**31 - 1])
    with pytest.raises(popart.popart_exception, match="not in the model initalizers"):
        transformer.convertInitializersToConstants(["nothing"])


@pytest.mark.parametrize(
    "method, source, field, target",
    [
        *((f"convert{t.upper()}ToINT32", t, "int32_data", np.int32) for t in ("int8", "uint16")),
        ("convertINT64ToINT32", "int64", "int32_data", np.int32),
        ("convertDoublesToFloats", "float64", "float_data", np.float32),
        ("convertFloatsToHalfs", "float32", "int32_data", np.float16),
    ],
)
def test_converted_values_are_in_typed_fields(method, source, field, target):
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(source))
    value, one = (onnx.helper.make_tensor("", number, [n], np.array([3, 5])[:n]) for n in (2, 1))
    nodes = [
        onnx.helper.make_node("Constant", [], ["c"], value=value),
        onnx.helper.make_node("Constant", [], ["n"], value=numpy_helper.from_array(np.array([2]))),
        onnx.helper.make_node("ConstantOfShape", ["n"], ["y"], value=one),
    ]
    outputs = [onnx.helper.make_tensor_value_info("y", number, [2])]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", [], outputs),
        opset_imports=[onnx.helper.make_opsetid("", 11)],
        ir_version=4,
    )
    transformer = popart.GraphTransformer(proto.SerializeToString())
    getattr(transformer, method)()
    graph = onnx.ModelProto.FromString(transformer.getModelProto()).graph
    changed = graph.node[0].attribute[0].t
    assert len(getattr(changed, field)) == 2 and not changed.raw_data
    np.testing.assert_array_equal(numpy_helper.to_array(changed), np.array([3, 5], target))
    assert graph.node[2].attribute[0].t.data_type == changed.data_type
    assert graph.output[0].type.tensor_type.elem_type == changed.data_type


def test_bfloat16_values_become_floats():
    kind = onnx.TensorProto.BFLOAT16
    values = [onnx.helper.make_tensor("w", kind, [2], [1.5, -3.0])]
    values.append(onnx.TensorProto(name="v", data_type=kind, dims=[1], raw_data=b"\x80\x3f"))
    outputs = [onnx.helper.make_tensor_value_info("w", kind, [2])]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph([], "g", [], outputs, values),
        opset_imports=[onnx.helper.make_opsetid("", 11)],
        ir_version=4,
    )
    transformer = popart.GraphTransformer(proto.SerializeToString())
    transformer.convertBFloats16ToFloat32()
    w, v = onnx.ModelProto.FromString(transformer.getModelProto()).graph.initializer
    assert (list(w.float_data), list(v.float_data)) == ([1.5, -3.0], [1.0])


def test_changes_of_two_trainings_are_compared():
    start, same = model()[0], model(W + 1)[0]
    report = popart.NumericsReport(start, same, start, model(W + 2)[0])
    norms = np.sqrt(6) * np.sqrt(24)
    assert report.getRelativeErrors() == {"w": pytest.approx(6 / (norms + 1e-8))}
    assert report.report("w") in report.fullReport()
    with pytest.raises(popart.popart_exception, match="No report available for"):
        report.report("n")
    transformer = popart.GraphTransformer(start)
    transformer.convertInitializersToConstants(["n"])
    other = transformer.getModelProto()
    with pytest.raises(popart.popart_exception, match="different number of initializers"):
        popart.NumericsReport(start, same, other, other)


def test_files_of_models_are_bytes_of_builder(tmp_path):
    saved, written = str(tmp_path / "saved.onnx"), tmp_path / "written.onnx"
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiOnnx.add([x, builder.aiOnnx.constant(np.ones(2, np.float32))])
    builder.addOutputTensor(y)
    builder.saveModelProto(saved)
    assert popart.Builder(saved).getModelProto() == builder.getModelProto()
    with popart_models.device() as device:
        session = popart.InferenceSession(saved, popart.DataFlow(1, [y]), device)
        session.prepareDevice()
        session.modelToHost(str(written))
    assert written.read_bytes() == builder.getModelProto()


def test_paths_of_external_data_may_be_absolute(tmp_path):
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.array([1, 2], np.float32), "w")
    y = builder.aiOnnx.neg([w])
    builder.addOutputTensor(y)
    builder.saveInitializersExternally([w], str(tmp_path / "weights"))
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    model = popart.Builder(str(tmp_path / "model.onnx")).getModelProto()
    np.testing.assert_array_equal(popart_models.infer(model, {}, [y])[y], [-1, -2])


def test_external_data_is_found_from_the_current_folder(tmp_path, monkeypatch):
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(tmp_path)
    builder = popart.Builder()
    ids = [builder.addInitializedInputTensor(np.full(2, i, "f"), n) for i, n in enumerate("ab")]
    y = builder.aiOnnx.mul([builder.addInputTensor("FLOAT", [2], "x"), *ids[:1]])
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.add([y, ids[1]])])
    builder.addOutputTensor(loss)
    builder.saveInitializersExternally(ids, "weights")
    builder.saveModelProto("model.onnx")
    model = popart.Builder("model.onnx").getModelProto()
    data = {"x": np.ones(2, np.float32)}
    with popart_models.device() as device:
        adam = popart.Adam({"defaultLearningRate": (1.0, True)})
        session = popart_models.trainer(model, loss, device, adam)
        assert popart_models.run(session, data)[loss] == 1
        expected = popart_models.weights(session, *"ab", "Accl1___a", "Accl1___b")
        session.modelToHost("after.onnx")
        with pytest.raises(popart.popart_exception, match="Unrecognised file name 'inner"):
            session.modelToHost("inner/after.onnx")
        found = np.fromfile("weights", np.float32)
        # The weights in the order of the model, then those of each kind of their state.
        np.testing.assert_array_equal(found[:4], np.concatenate(expected[:2]))
        first = next(i for i in range(4, 9) if np.array_equal(found[i : i + 2], expected[2]))
        np.testing.assert_array_equal(found[first + 2 : first + 4], expected[3])
        monkeypatch.chdir(inner)
        with pytest.raises(RuntimeError, match="it doesn't exist or is not accessible"):
            popart.Builder("../model.onnx")
        with pytest.raises(popart.popart_exception, match="but file 'weights' does not exist"):
            popart_models.trainer(model, loss, device)


def test_external_data_is_read_moved_and_written(tmp_path):
    path, moved, saved = (str(tmp_path / name) for name in ("w.bin", "moved.bin", "saved.onnx"))
    transformer = popart.GraphTransformer(model()[0])
    transformer.saveInitializersExternally(["w"], path)
    with popart_models.device() as device:
        proto = transformer.getModelProto()
        flow = popart.DataFlow(1, [model()[1]])
        session = popart.InferenceSession(proto, flow, device)
        session.prepareDevice()
        data = {"x": np.ones([2, 3], np.float32)}
        found = popart_models.run(session, data)[model()[1]]
        np.testing.assert_array_equal(found, data["x"] @ W + 1)
        with pytest.raises(popart.popart_runtime_error, match="exists already"):
            session.updateExternallySavedTensorLocations(path, path)
        session.updateExternallySavedTensorLocations(path, moved)
        session.modelToHost(saved)
    tensor = next(t for t in onnx.load(saved, load_external_data=False).graph.initializer)
    assert tensor.data_location == onnx.TensorProto.EXTERNAL
    assert {entry.key: entry.value for entry in tensor.external_data}["location"] == moved
    np.testing.assert_array_equal(np.fromfile(moved, np.float32).reshape(W.shape), W)
