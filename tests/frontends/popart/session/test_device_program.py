"""Types and sizes that the device lacks: a program with them is refused when prepared."""

from __future__ import annotations

import json

import numpy as np
import popart
import pytest
from popart._internal import ir as internal_ir

from tests.support.popart import popart_models


def session(add, device, shape, dtype="INT8", options=None):
    builder = popart.Builder()
    y = add(builder.aiOnnx, builder.addInputTensor(dtype, shape))
    return popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [y]),
        device,
        userOptions=options or popart.SessionOptions(),
    )


def test_arithmetic_with_int8_is_refused():
    device = popart.DeviceManager().createOfflineIPUDevice({})
    refused = session(lambda ops, x: ops.add([x, x]), device, [2])
    with pytest.raises(popart.poplar_exception, match="INT8") as error:
        refused.prepareDevice(False)
    assert "In the node Add (Add:0)" in error.value.__notes__[0]
    for add in (
        lambda ops, x: ops.add([ops.cast([x], "INT32")] * 2),
        lambda ops, x: ops.concat([x, x], 0),
    ):
        session(add, device, [2]).prepareDevice(False)


def test_tensors_larger_than_an_ipu_do_not_fit():
    with popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 4}) as device:
        with pytest.raises(popart.OutOfMemoryException, match="Out of memory: the tensor input"):
            session(lambda ops, x: ops.relu([x]), device, [2**20], "FLOAT").prepareDevice()
        session(lambda ops, x: ops.relu([x]), device, [2**10], "FLOAT").prepareDevice()
    device = popart.DeviceManager().createOfflineIPUDevice({})
    with pytest.raises(popart.OutOfMemoryException):
        session(lambda ops, x: ops.relu([x]), device, [2**28], "FLOAT").prepareDevice(False)
    assert popart.session.OutOfMemoryException is popart.OutOfMemoryException
    assert np.dtype("f").itemsize * 2**20 > 4 * 638976


# --- Compiled programs in files, the cache, and reports of programs ---

X = np.random.RandomState(0).randn(4, 3).astype(np.float32)


W = np.random.RandomState(1).randn(3, 2).astype(np.float32)


COMPILES, LOADS = "Starting compilation", "Loading serialized PopART executable from "


IGNORED = (
    *("PopEF file inferred to have hash ", "Performing preload of popef file"),
    *("Completed preload of popef file", "Cache file hash did not match the IR hash"),
    "Ignoring cache file because it does not contain",
)


def model(weight=W, scale=1.0):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3], "x")
    w = builder.addInitializedInputTensor(weight, "w")
    builder.aiGraphcore.scale([builder.aiOnnx.matmul([x, w])], scale)
    return builder.getModelProto()


def session_executable_files(proto, device, **changed):
    options = popart.SessionOptions()
    for name, value in changed.items():
        setattr(options, name, value)
    flow = popart.DataFlow(1, ["Scale:0"])
    return popart.InferenceSession(proto, flow, device, userOptions=options)


def test_program_compiled_offline_is_loaded_with_its_weights(tmp_path):
    path = str(tmp_path / "made" / "program.popef")
    offline = popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 1})
    session_executable_files(model(), offline).compileAndExport(path)
    with popart_models.device() as device:
        loaded = session_executable_files(model(0 * W), device)
        loaded.loadExecutable(path)
        loaded.prepareDevice()
        found = popart_models.run(loaded, {"x": X})["Scale:0"]
        np.testing.assert_allclose(found, X @ W, 1e-5)
        assert loaded._serializeIr(popart.IrSerializationFormat.JSON) == ""
        with pytest.raises(popart.popart_runtime_error, match="using a cached executable"):
            loaded.getSummaryReport()
        for file, message in ((path, "another program"), ("missing", "Could not open file")):
            with pytest.raises(popart.popart_exception, match=message):
                session_executable_files(model(scale=2.0), device).loadExecutable(file)
        (tmp_path / "broken").write_bytes(b"PK broken")
        with pytest.raises(popart.popart_exception, match="Could not load the executable"):
            session_executable_files(model(), device).loadExecutable(str(tmp_path / "broken"))
    for call in ("run", "loadEngineAndConnectStreams"):
        with pytest.raises(popart.popart_runtime_error, match="ffline"):
            made = session_executable_files(model(), offline)
            made.prepareDevice(False)
            getattr(made, call)(*([popart.PyStepIO({}, {})] if call == "run" else []))
    ipu_model = popart.DeviceManager().createIpuModelDevice({})
    with ipu_model, pytest.raises(popart.popart_exception, match="device type ipu-model cannot be"):
        session_executable_files(model(), ipu_model).saveExecutable(path)


def test_cache_keeps_programs_by_all_they_depend_on(tmp_path, monkeypatch, popart_log):
    monkeypatch.setenv("POPART_CACHE_DIR", str(tmp_path / "cache"))
    kept = {}
    with popart_models.device() as device:
        for proto in (model(), model(2 * W), model(scale=3.0)):
            made = session_executable_files(proto, device, **kept)
            made.prepareDevice()
            popart_models.run(made, {"x": X})
        assert len(list((tmp_path / "cache").iterdir())) == 2
        lines = popart_log()
        assert lines.count(COMPILES, LOADS, "Graph compiled", "Engine loaded") == (2, 1, 3, 3)
        again = session_executable_files(model(2 * W), device, **kept)
        again.prepareDevice(loadEngine=False)
        counts = popart_log().count(COMPILES, LOADS, "Graph compiled", "Engine loaded")
        assert counts == (0, 1, 1, 0)
        again.loadEngineAndConnectStreams()
        found = popart_models.run(again, {"x": X})["Scale:0"]
        np.testing.assert_allclose(found, X @ (2 * W), 1e-5)
        again.weightsFromHost()
        assert popart_log().count("Engine loaded", "Writing weights from host, ") == (1, 1)
        first, second = sorted((tmp_path / "cache").iterdir())
        for path, other in ((first, second.read_bytes()), (second, first.read_bytes())):
            path.write_bytes(other)
        monkeypatch.setenv("POPART_PRELOAD_POPEF", "full-preload")
        session_executable_files(model(), device).prepareDevice()
        assert popart_log().count(COMPILES, LOADS, *IGNORED) == (1, 0, 2, 1, 1, 1, 1)


def test_a_program_tells_its_memory_cycles_and_nodes():
    with popart_models.device() as device:
        made = session_executable_files(model(), device, instrumentWithHardwareCycleCounter=True)
        for call in (made.getReport, made.getSerializedGraph):
            with pytest.raises(popart.popart_runtime_error, match="must have been prepared"):
                call()
        with pytest.raises(popart.popart_runtime_error, match="Must call run before"):
            made.getCycleCount()
        made.prepareDevice()
        popart_models.run(made, {"x": X})
        report = made.getReport()
        assert made.getCycleCount() == round(report.plan.timeline.cycles) > 0
        steps = report.execution.runs[0].steps
        assert sum(step.ipus[0].cycles for step in steps) == made.getCycleCount()
        assert report.compilation.target.numIPUs == 1 and report.executions.launches == 1
        with pytest.raises(popart.popart_runtime_error, match="Invalid id for cycle counter"):
            made.getCycleCount("inner")
        assert "Execution profiling not enabled" in made.getSummaryReport()
        assert len(made.getSerializedGraph()) > 100
        text = made._serializeIr(popart.IrSerializationFormat.JSON)
        types = [node["type"] for node in json.loads(text)["maingraph"]]
        assert types == ["MatMul", "Scale"] and isinstance(made.getIr(), internal_ir.Ir)
        assert made.areHostWeightsInSync()
        made.markHostWeightsOutOfSync()
        assert not made.areHostWeightsInSync()
        made.copyDeviceWeightsToHost()
        assert made.areHostWeightsInSync()
        made.setEngineIsLoaded(False)
        with pytest.raises(popart.popart_runtime_error, match="prepare"):
            popart_models.run(made, {"x": X})
        made.loadEngineAndConnectStreams()
        popart_models.run(made, {"x": X})


def test_a_session_lasts_when_other_devices_are_acquired():
    with popart_models.device() as device:
        builder = popart.Builder()
        w = builder.addInitializedInputTensor(W, "w")
        loss = builder.aiGraphcore.l1loss([w], 1.0)
        made = popart_models.trainer(builder.getModelProto(), loss, device)
        popart_models.run(made, {})
        with popart_models.device(2), popart_models.device(4):
            popart_models.run(made, {})
        (found,) = popart_models.weights(made, "w")
    np.testing.assert_allclose(found, W - 2 * 0.1 * np.sign(W) / W.size, 1e-5)


def test_ir_of_popxl_runs_behind_methods_of_session():
    import popxl
    from popxl import ops

    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream([2], popxl.float32, name="x")
        out = popxl.d2h_stream([2], popxl.float32, name="y")
        ops.host_store(out, ops.add(ops.host_load(stream), popxl.variable([1.0, 2.0])))
    with popart_models.device() as device:
        made = popart.InferenceSession.fromIr(ir, device)
        made.prepareDevice()
        results = made.initAnchorArrays()
        made.run(popart.PyStepIO({stream.tensor_id: np.ones(2, np.float32)}, results))
        made.close()
    np.testing.assert_array_equal(results[out.tensor_id], [2, 3])
