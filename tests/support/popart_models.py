"""Runs models of PopART, for tests that compare them with NumPy and ONNX."""

from __future__ import annotations

import numpy as np
import popart


def device(ipus=1):
    """A device, which the test gives back with `detach`."""
    return popart.DeviceManager().acquireAvailableDevice(ipus)


def infer(model, inputs, anchors, options=None, shapes=None):
    """Runs a model once.

    Args:
        model: bytes of the model.
        inputs: arrays by id.
        anchors: ids of the tensors to return.
        options: options of the session.
        shapes: shapes that the model leaves open.

    Returns:
        The arrays by id.
    """
    with device() as info:
        session = popart.InferenceSession(
            model,
            popart.DataFlow(1, list(anchors)),
            info,
            shapes or popart.InputShapeInfo(),
            userOptions=options or popart.SessionOptions(),
        )
        session.prepareDevice()
        results = session.initAnchorArrays()
        stepio = popart.PyStepIO(
            {name: np.ascontiguousarray(array) for name, array in inputs.items()}, results
        )
        session.run(stepio)
    return results
