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


def trainer(model, loss, info, optimizer=None, anchors=None, options=None, batches=1):
    """A training session that is ready to run.

    Args:
        model: bytes of the model, or its file.
        loss: id of the loss.
        info: the device.
        optimizer: plain SGD by default.
        anchors: the loss by default.
        options: options of the session.
        batches: batches of a run.
    """
    session = popart.TrainingSession(
        model,
        popart.DataFlow(batches, anchors or [loss]),
        loss,
        optimizer or popart.ConstSGD(0.1),
        info,
        userOptions=options or popart.SessionOptions(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def run(session, inputs):
    """Runs a session once; returns its anchors by id."""
    results = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(inputs), results))
    return results


def weights(session, *names):
    """Returns the device's values of weights or state, in order."""
    arrays = {name: np.empty(*_shape(session, name)) for name in names}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(arrays))
    return [arrays[name] for name in names]


def _shape(session, name):
    info = session.getInfo(name)
    return info.shape(), info.data_type_lcase()
