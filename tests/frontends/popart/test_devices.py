"""Devices: numbers, IPUs, chips and tiles, beside devices of PopXL's sessions."""

from __future__ import annotations

import numpy as np
import popart
import popxl
import pytest
from popxl import ops

from tests.support.popart import popart_models


def test_device_has_its_ipus_and_is_busy_elsewhere():
    manager = popart.DeviceManager()
    listed = manager.enumerateDevices(numIpus=2)
    assert [device.id for device in listed] == list(range(16, 24))
    with manager.acquireDeviceById(17) as pair:
        assert pair.numIpus == 2 and len(set(pair.driverIds)) == 2
        assert manager.tryAcquireDeviceById(pair.driverIds[0]) is None
        with pytest.raises(popart.popart_exception, match="device with id '17'"):
            manager.acquireDeviceById(17)
        with manager.acquireAvailableDevice(16 // 2) as eight:
            assert not set(eight.driverIds) & set(pair.driverIds)
            assert manager.tryAcquireAvailableDevice(16) is None
            with pytest.raises(popart.popart_exception, match="Failed to acquire device with 16"):
                manager.acquireAvailableDevice(16)
    with manager.acquireDeviceById(pair.driverIds[0]) as single:
        assert single.isAttached and f"Id:{single.id} " in repr(single)


def test_reports_and_memory_follow_device_chips():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [256, 4096], "x")
    w = builder.addInitializedInputTensor(np.zeros([4096, 256], np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    manager = popart.DeviceManager()
    cycles = {}
    for tiles in (1472, 64):
        device = manager.createOfflineIPUDevice({"tilesPerIPU": tiles})
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
        session.prepareDevice(False)
        report = session.getReport()
        assert report.settings.chip.tiles == tiles
        cycles[tiles] = report.plan.timeline.by_kind["compute"]
    assert cycles[64] > cycles[1472]
    device = manager.createOfflineIPUDevice({"tilesPerIPU": 4})
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    with pytest.raises(popart.OutOfMemoryException, match="memory") as caught:
        session.prepareDevice(False)
    assert "test_devices.py" in caught.value.getSummaryReport()


@pytest.mark.parametrize(
    "ipus, placed, replicas", [(3, (0, 1, 2), 1), (6, (2, 0, 1), 2), (4, (0, 1), 1), (3, (0,), 1)]
)
def test_models_of_any_number_of_ipus_run(ipus, placed, replicas):
    builder = popart.Builder()
    y = x = builder.addInputTensor("FLOAT", [2])
    for number in placed:
        with builder.virtualGraph(number):
            y = builder.aiOnnx.add([y, y])
            # A node without outputs.
            builder.aiGraphcore.abort([builder.aiOnnx.constant(np.zeros(1, bool))])
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    data = np.arange(2 * replicas, dtype=np.float32).reshape(replicas, 2)
    with popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus}) as device:
        assert (device.numIpus, device.version) == (ipus, "ipu2")
        flow, model = popart.DataFlow(1, [y]), builder.getModelProto()
        session = popart.InferenceSession(model, flow, device, userOptions=options)
        session.prepareDevice()
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: data}, results))
    np.testing.assert_array_equal(results[y].reshape(data.shape), data * 2 ** len(placed))


def test_lacking_ipus_are_refused_at_preparation():
    builder = popart.Builder()
    with builder.virtualGraph(2):
        y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    with popart.DeviceManager().createIpuModelDevice({"numIPUs": 2}) as device:
        flow, model = popart.DataFlow(1, [y]), builder.getModelProto()
        session = popart.InferenceSession(model, flow, device, userOptions=options)
        with pytest.raises(popart.popart_exception, match="where numIPUs = 2"):
            session.prepareDevice()


def test_popxl_sessions_and_popart_devices_coexist():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(2, np.float32))
        ops.var_updates.accumulate_(v, popxl.constant(np.ones(2, np.float32)))
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    loss = builder.aiGraphcore.identityloss([w], popart.ReductionType.Sum)
    with popart_models.device() as device:
        trainer = popart_models.trainer(builder.getModelProto(), loss, device)
        popart_models.run(trainer, {})
        with popxl.Session(ir, "ipu_hw") as session:
            session.run()
            popart_models.run(trainer, {})
            assert popart.DeviceManager().tryAcquireAvailableDevice(4) is None
            session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), [3, 3])
        np.testing.assert_allclose(popart_models.weights(trainer, "w")[0], [0.8, 0.8], 1e-6)


def test_devices_that_there_are_not_are_refused():
    manager = popart.DeviceManager()
    for options in ({"ipuVersion": "ipu9"}, {"tilesPerIPU": 5000}):
        with pytest.raises(popart.popart_exception, match="no such device"):
            manager.createIpuModelDevice(options)
    with manager.createIpuModelDevice({"ipuVersion": "ipu1", "numIPUs": "2"}) as device:
        assert (device.numIpus, device.tilesPerIPU, device.ipuVersion) == (2, 4, "ipu1")
        assert device.chip.name == "mk1" and device.driverIds == [0, 1]
