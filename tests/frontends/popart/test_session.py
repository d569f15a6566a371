"""Sessions: running, weights, checkpoints, options and refusals."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import popart
import pytest
from onnx import reference

from tests.support.popart import popart_models

X = np.random.RandomState(0).randn(4, 3).astype(np.float32)
W = np.random.RandomState(1).randn(3, 2).astype(np.float32)


def network(**kwargs):
    """A builder with a product of an input and a weight, softmax and a loss."""
    builder = popart.Builder(**kwargs)
    x = builder.addInputTensor("FLOAT", [4, 3], "x")
    w = builder.addInitializedInputTensor(W, "w")
    labels = builder.addInputTensor("INT32", [4], "labels")
    p = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, w])])
    loss = builder.aiGraphcore.nllloss([p, labels])
    builder.addOutputTensor(p)
    return builder, p, loss


def training_session(model, device, loss="Nll:0", momentum=0.9, **kwargs):
    optimizer = popart.SGD(
        {"defaultLearningRate": (0.1, False), "defaultMomentum": (momentum, True)}
    )
    flow = popart.DataFlow(1, [loss])
    session = popart.TrainingSession(model, flow, loss, optimizer, device, **kwargs)
    session.prepareDevice()
    session.weightsFromHost()
    return session


def step(session):
    results = session.initAnchorArrays()
    labels = np.array([0, 1, 1, 0], np.int32)
    session.run(popart.PyStepIO({"x": X, "labels": labels}, results))
    return results["Nll:0"]


@pytest.fixture
def device():
    with popart_models.device() as device:
        yield device


def test_inference_computes_what_onnx_says():
    builder, p, _ = network()
    model = onnx.ModelProto.FromString(builder.getModelProto())
    kept = [node for node in model.graph.node if node.op_type != "Nll"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    del model.opset_import[:]
    model.opset_import.add(domain="", version=10)
    labels = np.zeros(4, np.int32)
    evaluator = reference.ReferenceEvaluator(model)
    (expected,) = evaluator.run([p], {"x": X, "w": W, "labels": labels})
    found = popart_models.infer(builder.getModelProto(), {"x": X}, [p])
    np.testing.assert_allclose(found[p], expected, 1e-5)


def test_training_goes_on_from_checkpoint_bit_for_bit(device, tmp_path):
    model, path = network()[0].getModelProto(), str(tmp_path / "model.onnx")
    session = training_session(model, device)
    first = [step(session) for _ in range(2)]
    session.modelToHost(path)
    second = [step(session) for _ in range(2)]
    assert first[1] < first[0] and second[1] < second[0]
    again = training_session(path, device)
    np.testing.assert_array_equal([step(again) for _ in range(2)], second)
    session.resetHostWeights(path)
    with pytest.raises(popart.popart_runtime_error, match="Must call weightsFromHost"):
        step(session)
    session.weightsFromHost()
    np.testing.assert_array_equal([step(session) for _ in range(2)], second)
    names = {tensor.name for tensor in onnx.load(path).graph.initializer}
    assert names == {"w", "Accl___w"}
    assert session.getInfo("Gradient___w") == popart.TensorInfo(W)
    assert {"w", "Accl___w", "Gradient___w", "Nll:0"} <= session.getTensorIds()


def test_numbers_of_an_optimizer_change_if_they_may(device):
    session = training_session(network()[0].getModelProto(), device, momentum=0.0)
    before, after = np.empty_like(W), np.empty_like(W)
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.0, False)}))
    step(session)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"w": after}))
    np.testing.assert_array_equal(after, W)
    session.writeWeights(popart.PyWeightsIO({"w": 2 * W}))
    session.readWeights(popart.PyWeightsIO({"w": before}))
    np.testing.assert_array_equal(before, 2 * W)
    for new, message in (
        (popart.SGD({"defaultLearningRate": (0.1, True)}), "non constant value with a constant"),
        (
            popart.SGD({"defaultLearningRate": (0.1, False), "defaultDampening": (0.5, True)}),
            "Values are constant but do not match",
        ),
        (popart.Adam({}), "Can not replace optimizer of type"),
    ):
        with pytest.raises(popart.popart_runtime_error, match=message):
            session.updateOptimizerFromHost(new)


def test_callbacks_give_and_take_samples_in_order(device):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiOnnx.add([x, x])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(3, [y]), device, popart.InputShapeInfo()
    )
    session.prepareDevice()
    given, taken, done = [], [], []

    def read(name, is_prefetch):
        if is_prefetch and len(given) == 1:
            return None
        given.append(np.full(2, len(given), np.float32))
        return given[-1]

    def write(name):
        taken.append(np.empty(2, np.float32))
        return taken[-1]

    session.run(popart.PyStepIOCallback(read, done.append, write, done.append))
    np.testing.assert_array_equal(taken, 2 * np.array(given))
    assert done == [x] * 3 + [y] * 3


def test_int64_wraps_at_entry_and_exit():
    builder = popart.Builder()
    x = builder.addInputTensor("INT64", [2])
    u = builder.addInputTensor("UINT32", [2])
    y = builder.aiOnnx.add([x, x])
    data = {x: np.array([1, 2**32 + 5]), u: np.array([1, 2**32 - 1], np.uint32)}
    found = popart_models.infer(builder.getModelProto(), data, [y, u])
    assert found[y].dtype == np.int64
    np.testing.assert_array_equal(found[y], [2, 10])
    np.testing.assert_array_equal(found[u], data[u])


def test_shapes_that_model_leaves_open_come_from_session():
    builder = popart.Builder()
    builder.addOutputTensor(builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")]))
    model = onnx.ModelProto.FromString(builder.getModelProto())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(popart.popart_exception, match="must be specified in InputShapeInfo"):
        popart_models.infer(model.SerializeToString(), {}, ["Relu:0"])
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [3]))
    data = np.array([-1, 0, 1], np.float32)
    found = popart_models.infer(model.SerializeToString(), {"x": data}, ["Relu:0"], shapes=shapes)
    np.testing.assert_array_equal(found["Relu:0"], [0, 0, 1])


class TestErrors:
    def test_of_construction(self, device):
        builder, p, loss = network()
        model, flow = builder.getModelProto(), popart.DataFlow(1, [p])
        optimizer = popart.ConstSGD(0.1)
        anchored = popart.DataFlow(1, ["nothing"])
        for make, message in (
            (lambda: popart.InferenceSession(model, flow, None), "Must pass a valid deviceInfo"),
            (lambda: popart.InferenceSession(model, anchored, device), "Anchor tensor `nothing'"),
            (
                lambda: popart.InferenceSession(model, popart.DataFlow(1, []), device),
                "User must specify an anchor tensor",
            ),
            (
                lambda: popart.InferenceSession(model, popart.DataFlow(1, ["x"]), device),
                "nothing to compute",
            ),
            (
                lambda: popart.TrainingSession(model, flow, "nothing", optimizer, device),
                "Could not find loss tensor 'nothing'",
            ),
            (
                lambda: popart.TrainingSession(model, flow, p, optimizer, device),
                "must be a scalar tensor",
            ),
            (
                lambda: popart.InferenceSession(
                    model, flow, device, patterns=popart.Patterns(popart.PatternsLevel.NoPatterns)
                ),
                "must be enabled",
            ),
        ):
            with pytest.raises(popart.popart_exception, match=message):
                make()

    def test_of_data(self, device):
        builder, p, _ = network()
        flow = popart.DataFlow(2, [p])
        session = popart.InferenceSession(builder.getModelProto(), flow, device)
        results = session.initAnchorArrays()
        data = np.stack([X, X])
        with pytest.raises(popart.popart_runtime_error, match="prepare.. must be called before"):
            session.run(popart.PyStepIO({"x": data}, results))
        session.prepareDevice()
        for inputs, message in (
            ({"x": X}, "Unexpected number of input elements for Tensor x. Expected 24, but"),
            ({"x": data.astype(np.float16)}, "Type discrepancy for tensor x"),
            ({}, "No tensor x provided in PyStepIO's inputs"),
        ):
            session._checked_sizes = False
            with pytest.raises(popart.popart_runtime_error, match=message):
                session.run(popart.PyStepIO(inputs, results))
        with pytest.raises(popart.popart_exception, match="is not c-contiguous"):
            popart.PyStepIO({"x": data.T}, results)
        # Arrays for weights and for no tensor do not count.
        session._checked_sizes = False
        session.run(popart.PyStepIO({"x": data, "w": W, "y": X}, results))

    def test_of_arrays_of_callbacks(self, device):
        builder = popart.Builder()
        y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2, 2])])
        flow = popart.DataFlow(1, [y])
        session = popart.InferenceSession(builder.getModelProto(), flow, device)
        session.prepareDevice()
        plain = np.ones([2, 2], np.float32)
        turned = np.ones([2, 4], np.float32)[:, ::2]
        for given, taken in ((turned, plain), (plain, turned)):
            done = []
            stepio = popart.PyStepIOCallback(
                lambda *_, given=given: given, done.append, lambda _, to=taken: to, done.append
            )
            with pytest.raises(popart.popart_exception, match="contiguous"):
                session.run(stepio)

    def test_of_shapes_that_do_not_fit(self):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [2])
        y = builder.aiOnnx.add([x, builder.addInputTensor("FLOAT", [3])])
        with pytest.raises(popart.popart_exception, match="np broadcasting failed"):
            popart_models.infer(builder.getModelProto(), {}, [y])

    def test_of_options(self, device):
        options = popart.SessionOptions()
        with pytest.raises(TypeError, match="incompatible function arguments"):
            options.accumulationFactor = "2"
        with pytest.raises(AttributeError):
            options.noSuchOption = 1


def test_devices_are_attached_and_given_back():
    manager = popart.DeviceManager()
    with manager.createIpuModelDevice({"numIPUs": 2}) as device:
        assert device.isAttached and device.numIpus == 2 and str(device.type) == "ipu-model"
        with manager.acquireAvailableDevice(1) as other:
            assert other.ordinal != device.ordinal
    assert not device.isAttached
    assert manager.createOfflineIPUDevice({}).attach() is False
    with pytest.raises(popart.popart_exception, match="Invalid option `x' passed to"):
        manager.createIpuModelDevice({"x": 1})
    with pytest.raises(popart.popart_exception, match="must be a power of two"):
        manager.acquireAvailableDevice(3)
    with pytest.raises(popart.poplar_exception, match="No such device set id: '999'"):
        manager.acquireDeviceById(999)


def test_nodes_run_on_the_ipus_that_they_name():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3])
    w = builder.addInitializedInputTensor(W)
    with builder.virtualGraph(0):
        y = builder.aiOnnx.matmul([x, w])
    with builder.virtualGraph(1):
        z = builder.aiOnnx.relu([y])
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    with popart_models.device(2) as device:
        session = popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [z]), device, userOptions=options
        )
        session.prepareDevice()
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: X}, results))
        np.testing.assert_allclose(results[z], np.maximum(X @ W, 0), 1e-5)
        whole = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [z]), device)
        with pytest.raises(popart.popart_exception, match="needs to be equal to the number of"):
            whole.prepareDevice()


def test_run_that_fails_leaves_nothing_for_the_next(device):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 2])
    i = builder.addInputTensor("INT32", [2])
    y = builder.aiOnnx.gather([x, i])
    z = builder.aiOnnx.relu([x])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(2, [y, z]), device, popart.InputShapeInfo()
    )
    session.prepareDevice()
    results = session.initAnchorArrays()
    data = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    with pytest.raises(Exception, match="not in"):
        session.run(popart.PyStepIO({x: data, i: np.array([[0, 1], [0, 7]], np.int32)}, results))
    session.run(popart.PyStepIO({x: data, i: np.array([[0, 1], [0, 2]], np.int32)}, results))
    np.testing.assert_array_equal(results[y], [data[0, :2], data[1, [0, 2]]])
    np.testing.assert_array_equal(results[z], data)


def line_here():
    return inspect.currentframe().f_back.f_lineno


def test_errors_and_reports_name_line_that_made_node(device):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3], "x")
    w = builder.addInitializedInputTensor(W, "w")
    made, y = line_here(), builder.aiOnnx.matmul([x, w], "product")
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    lines = {op.type: op.source for op in session.getReport().ops()}
    assert f"test_session.py:{made} " in lines["MatMul"]
    wrong, z = line_here(), builder.aiOnnx.add([y, builder.addInputTensor("FLOAT", [5], "b")])
    with pytest.raises(popart.popart_exception, match="not aligned") as error:
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [z]), device)
    assert f"test_session.py:{wrong}" in error.value.__notes__[0]
