"""`GraphTransformer`, `NumericsReport` and models with data in files beside them."""

from __future__ import annotations

import numpy as np
import onnx
import popart
import pytest
from onnx import numpy_helper

from tests.support import popart_models

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


def test_external_data_is_read_moved_and_written_in_place(tmp_path):
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
