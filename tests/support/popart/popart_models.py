"""Runs models of PopART, for tests that compare them with NumPy and ONNX."""

from __future__ import annotations

import numpy as np
import onnx
import popart
import tensorflow as tf


def device(ipus=1):
    """A device, which the test gives back with `detach`."""
    return popart.DeviceManager().acquireAvailableDevice(ipus)


def parsed(model):
    """The model of bytes, to look at or to change."""
    return onnx.ModelProto.FromString(model)


def infer(model, inputs, anchors, options=None, shapes=None, patterns=None, ipus=1):
    """Runs a model once.

    Args:
        model: bytes of the model.
        inputs: arrays by id.
        anchors: ids of the tensors to return.
        options: options of the session.
        shapes: shapes that the model leaves open.
        patterns: patterns that are on.
        ipus: IPUs of the device.

    Returns:
        The arrays by id.
    """
    with device(ipus) as info:
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
    """Compares values and gradients of an op; see `check_ops`."""
    check_ops({"op": (add, arrays, reference, differentiable)}, opset, rtol, atol)


def check_ops(cases, opset=11, rtol=1e-4, atol=1e-5):
    """Compares values and gradients of ops with TensorFlow's in float32, in one session.

    Args:
        cases: by name, for each op:
            a function that takes the ops of ONNX, those of ai.graphcore, and ids of inputs, and
            returns those of outputs;
            the inputs; integers and booleans are constants;
            a function that takes the inputs as eager tensors, and returns the outputs;
            positions of the inputs whose gradients are compared; None for those of all floats.
        opset: version of ONNX.
        rtol: allowed relative difference.
        atol: allowed absolute difference.
    """
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    checks = [_Check(builder, name, *case) for name, case in cases.items()]
    losses = [part for check in checks for part in check.losses]
    loss = losses[0] if len(losses) == 1 else builder.aiOnnx.sum(losses)
    tensors = [name for check in checks for name in check.differentiated]
    anchors = [name for check in checks for name in check.outputs]
    found = differentiate(builder.getModelProto(), loss, {}, tensors, anchors)
    for check in checks:
        check.compare(found, rtol, atol)


class _Check:
    """One op of a model, and its expected results."""

    def __init__(self, builder, name, add, arrays, reference, differentiable=None):
        self.name = name
        floats = [i for i, array in enumerate(arrays) if array.dtype.kind == "f"]
        ids = [
            builder.addInitializedInputTensor(array)
            if i in floats
            else builder.aiOnnx.constant(array)
            for i, array in enumerate(arrays)
        ]
        made = add(builder.aiOnnx, builder.aiGraphcore, ids)
        outputs = [made] if isinstance(made, str) else made
        chosen = floats if differentiable is None else differentiable
        tensors = [
            tf.constant(array.astype(np.float32) if i in floats else array)
            for i, array in enumerate(arrays)
        ]
        with tf.GradientTape() as tape:
            tape.watch([tensors[i] for i in floats])
            expected = reference(*tensors)
            expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
            random = np.random.RandomState(0)
            scales = [np.asarray(random.rand(*value.shape) - 0.5) for value in expected]
            weighed = [i for i, value in enumerate(expected) if value.dtype.is_floating]
            total = tf.add_n([tf.reduce_sum(expected[i] * scales[i]) for i in weighed])
        gradients = tape.gradient(total, [tensors[i] for i in chosen])
        self.differentiated = {ids[i]: gradient for i, gradient in zip(chosen, gradients)}
        self.outputs = dict(zip(outputs, expected))
        dtype = arrays[floats[0]].dtype
        self.losses = [
            builder.aiGraphcore.identityloss(
                [builder.aiOnnx.mul([outputs[i], _constant(builder, scales[i], dtype)])],
                popart.ReductionType.Sum,
            )
            for i in weighed
        ]

    def compare(self, found, rtol, atol):
        """Compares the results of a session."""
        for name, value in self.outputs.items():
            result = found[name].astype(value.numpy().dtype)
            np.testing.assert_allclose(result, value, rtol, atol, err_msg=self.name)
        for name, gradient in self.differentiated.items():
            result = found[name].astype(np.float32)
            np.testing.assert_allclose(
                result,
                tf.convert_to_tensor(gradient),
                rtol,
                atol,
                err_msg=f"{self.name}: gradient of {name}",
            )


def _constant(builder, scale, dtype):
    return builder.aiOnnx.constant(scale.astype(dtype))
