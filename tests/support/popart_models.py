"""Runs models of PopART, for tests that compare them with NumPy and ONNX."""

from __future__ import annotations

import numpy as np
import popart
import tensorflow as tf


def device(ipus=1):
    """A device, which the test gives back with `detach`."""
    return popart.DeviceManager().acquireAvailableDevice(ipus)


def infer(model, inputs, anchors, options=None, shapes=None, patterns=None):
    """Runs a model once.

    Args:
        model: bytes of the model.
        inputs: arrays by id.
        anchors: ids of the tensors to return.
        options: options of the session.
        shapes: shapes that the model leaves open.
        patterns: patterns that are on.

    Returns:
        The arrays by id.
    """
    with device() as info:
        session = popart.InferenceSession(
            model,
            popart.DataFlow(1, list(anchors)),
            info,
            shapes or popart.InputShapeInfo(),
            patterns,
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


def differentiate(model, loss, inputs, tensors, anchors=(), options=None, replicas=1):
    """Runs one training step of a model.

    Args:
        model: bytes of the model.
        loss: id of the loss.
        inputs: arrays by id.
        tensors: ids of the tensors whose gradients to return.
        anchors: ids of further tensors to return.
        options: options of the session.
        replicas: how many replicas there are.

    Returns:
        The gradients by tensor, and the other arrays by id.
    """
    names = {f"Gradient___{tensor}": tensor for tensor in tensors}
    with device(replicas) as info:
        session = trainer(model, loss, info, anchors=[*names, *anchors], options=options)
        results = run(session, {k: np.ascontiguousarray(array) for k, array in inputs.items()})
    return {names.get(key, key): value for key, value in results.items()}


def check_op(add, arrays, reference, opset=11, differentiable=None, rtol=1e-4, atol=1e-5):
    """Compares values and gradients of an op with those of TensorFlow in float32.

    Args:
        add: takes the ops of ONNX, those of ai.graphcore, and ids of inputs; returns those of
            outputs.
        arrays: the inputs; integers and booleans are constants.
        reference: takes the inputs as eager tensors, and returns the outputs.
        opset: version of ONNX.
        differentiable: positions of the inputs whose gradients are compared; those of all floats by
            default.
        rtol: allowed relative difference.
        atol: allowed absolute difference.
    """
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    is_float = [array.dtype.kind == "f" for array in arrays]
    ids = [
        builder.addInitializedInputTensor(array) if own else builder.aiOnnx.constant(array)
        for array, own in zip(arrays, is_float)
    ]
    outputs = add(builder.aiOnnx, builder.aiGraphcore, ids)
    outputs = [outputs] if isinstance(outputs, str) else outputs
    wide = [a.astype(np.float32) if own else a for a, own in zip(arrays, is_float)]
    tensors = [tf.constant(array) for array in wide]
    with tf.GradientTape() as tape:
        tape.watch([t for t, own in zip(tensors, is_float) if own])
        expected = reference(*tensors)
        expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
        random = np.random.RandomState(0)
        scales = [np.asarray(random.rand(*value.shape) - 0.5) for value in expected]
        total = tf.add_n(
            [
                tf.reduce_sum(value * scale)
                for value, scale in zip(expected, scales)
                if value.dtype.is_floating
            ]
        )
    chosen = [i for i, own in enumerate(is_float) if own]
    chosen = chosen if differentiable is None else list(differentiable)
    parts = [
        builder.aiGraphcore.identityloss(
            [builder.aiOnnx.mul([name, _constant(builder, scale, arrays)])],
            popart.ReductionType.Sum,
        )
        for name, value, scale in zip(outputs, expected, scales)
        if value.dtype.is_floating
    ]
    loss = builder.aiOnnx.sum(parts)
    found = differentiate(
        builder.getModelProto(), loss, {}, [ids[i] for i in chosen], outputs[: len(expected)]
    )
    for name, value in zip(outputs, expected):
        np.testing.assert_allclose(found[name].astype(value.numpy().dtype), value, rtol, atol)
    for position, gradient in zip(chosen, tape.gradient(total, [tensors[i] for i in chosen])):
        np.testing.assert_allclose(
            found[ids[position]].astype(np.float32),
            tf.convert_to_tensor(gradient),
            rtol,
            atol,
            err_msg=f"gradient of input {position}",
        )


def _constant(builder, scale, arrays):
    dtype = next(array.dtype for array in arrays if array.dtype.kind == "f")
    return builder.aiOnnx.constant(scale.astype(dtype))
