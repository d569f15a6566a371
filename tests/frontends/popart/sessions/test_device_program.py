"""Types and sizes that the device lacks: a program with them is refused when prepared."""

from __future__ import annotations

import numpy as np
import popart
import pytest


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
