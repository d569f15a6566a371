"""Operations of C++ libraries in models of PopART; values and gradients as of NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

pytestmark = pytest.mark.usefixtures("operations")

X = np.array([[1.5, -2.0, 0.25], [-0.5, 4.0, -1.0]], np.float32)
Y = np.array([[2.0, 1.0, -3.0], [0.5, 1.5, 8.0]], np.float32)


def add(builder, type_, inputs, attributes=None, outputs=1):
    """Adds a node of the library to a model."""
    return builder.customOp(type_, 1, "test.cpp", inputs, attributes or {}, outputs)


def infer(type_, x, attributes=None, outputs=1, replicas=1, data=None):
    """Runs a model of one op of the library; returns its outputs."""
    builder = popart.Builder()
    name = builder.addInputTensor(popart.TensorInfo(x))
    ids = add(builder, type_, [name], attributes, outputs)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    if data is None:
        data = np.stack([x] * replicas) if replicas > 1 else x
    found = popart_models.infer(
        builder.getModelProto(), {name: data}, ids, options=options, ipus=replicas
    )
    return [found[name] for name in ids]


def gradients(type_, arrays, attributes=None, outputs=1, replicas=1):
    """Returns outputs, and gradients of the sum of their squares, by NumPy's arrays."""
    builder = popart.Builder()
    names = [builder.addInitializedInputTensor(array) for array in arrays]
    ids = add(builder, type_, names, attributes, outputs)
    squares = [builder.aiOnnx.mul([name, name]) for name in ids]
    total = builder.aiOnnx.sum(squares)
    loss = builder.aiGraphcore.identityloss([total], popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    found = popart_models.differentiate(
        builder.getModelProto(), loss, {}, names, ids, options=options, replicas=replicas
    )
    return [found[name] for name in (*ids, *names)]


@pytest.mark.parametrize("replicas", [1, 2])
def test_attributes_and_gradients_reach_the_program(replicas):
    y, dx = gradients("Leaky", [X], {"alpha": 0.25}, replicas=replicas)
    expected = np.where(X < 0, 0.25 * X, X)
    slope = np.where(X < 0, np.float32(0.25), np.float32(1))
    for found, wanted in ((y, expected), (dx, 2 * expected * slope)):
        np.testing.assert_allclose(np.broadcast_to(wanted, found.shape), found, 1e-6)


def test_halves_are_computed():
    (y,) = infer("Leaky", X.astype(np.float16), {"alpha": 0.5})
    np.testing.assert_allclose(y, np.where(X < 0, 0.5 * X, X))


def test_eight_bit_integers_are_signed_chars():
    codes = np.array([[-128, -1, 0], [1, 2, 127]], np.int8)
    (y,) = infer("NegateCodes", codes)
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y, -codes)


def test_each_gradient_op_has_its_input():
    y, dx, dy = gradients("Product", [X, Y])
    np.testing.assert_allclose(y, X * Y, 1e-6)
    np.testing.assert_allclose(dx, 2 * X * Y * Y, 1e-6)
    np.testing.assert_allclose(dy, 2 * X * Y * X, 1e-6)


def test_views_of_inputs_are_outputs():
    first, second, dx = gradients("Halves", [X], outputs=2)
    np.testing.assert_array_equal(np.concatenate([first, second]), X)
    np.testing.assert_allclose(dx, 2 * X)


def test_other_readers_keep_an_input_that_changes():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    (y,) = add(builder, "NegateInPlace", [x])
    z = builder.aiOnnx.add([x, y])
    found = popart_models.infer(builder.getModelProto(), {x: X}, [y, z])
    np.testing.assert_array_equal(found[y], -X)
    np.testing.assert_array_equal(found[z], 0 * X)


def test_modified_weights_stay_modified():
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X)
    (y,) = add(builder, "NegateWeight", [w])
    with popart_models.device() as info:
        anchors = popart.DataFlow(1, [y])
        session = popart.InferenceSession(builder.getModelProto(), anchors, info)
        session.prepareDevice()
        found = [popart_models.run(session, {})[y].copy() for _ in range(3)]
    np.testing.assert_array_equal(found, [-X, X, -X])


@pytest.mark.parametrize("replicas", [1, 2])
def test_lowerings_know_the_replicas(replicas):
    (y,) = infer("Replicas", X, replicas=replicas)
    np.testing.assert_array_equal(y, np.full(y.shape, replicas))


def test_seeds_differ_by_op_replica_and_step():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    ids = [add(builder, "Draw", [x])[0] for _ in range(2)]
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    found = []
    with popart_models.device(2) as info:
        anchors = popart.DataFlow(2, ids)
        model = builder.getModelProto()
        session = popart.InferenceSession(model, anchors, info, userOptions=options)
        session.prepareDevice()
        for _ in range(2):
            session.setRandomSeed(42)
            results = popart_models.run(session, {x: np.stack([[X] * 2] * 2)})
            found.append(np.stack([results[name] for name in ids]))
    np.testing.assert_array_equal(found[0], found[1])
    drawn = found[0].reshape(2, 4, -1)[:, :, :2]
    assert len(np.unique(drawn.reshape(8, 2), axis=0)) == 8


def test_maps_keep_their_operands():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    (y,) = add(builder, "Twice", [x])
    z = builder.aiOnnx.sub([y, x])
    found = popart_models.infer(builder.getModelProto(), {x: X}, [z])
    np.testing.assert_array_equal(found[z], X)


def test_ops_place_their_inputs():
    (y,) = infer("Placed", X)
    np.testing.assert_array_equal(y, np.full_like(X, 7))


@pytest.mark.parametrize("replicas", [1, 2])
def test_lowerings_exchange_data_between_replicas(replicas):
    data = np.stack([r + X for r in range(replicas)])
    (y,) = infer("Rotate", X, replicas=replicas, data=data)
    np.testing.assert_array_equal(np.reshape(y, data.shape), np.roll(data, 1, axis=0))


def test_training_changes_weights():
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X)
    (y,) = add(builder, "Leaky", [w], {"alpha": 0.5})
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    with popart_models.device() as info:
        session = popart_models.trainer(builder.getModelProto(), loss, info)
        popart_models.run(session, {})
        (found,) = popart_models.weights(session, w)
    np.testing.assert_allclose(found, X - 0.1 * np.where(X < 0, 0.5, 1), 1e-6)


def test_models_in_files_have_such_nodes(tmp_path):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    (y,) = add(builder, "Leaky", [x], {"alpha": 0.5})
    builder.addOutputTensor(y)
    file = tmp_path / "model.onnx"
    builder.saveModelProto(str(file))
    found = popart_models.infer(file.read_bytes(), {x: X}, [y])
    np.testing.assert_allclose(found[y], np.where(X < 0, 0.5 * X, X))


@pytest.mark.parametrize("type_", ["Leaky", "Described"])
def test_builder_infers_registered_shapes(type_):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, 2]))
    (y,) = add(builder, type_, [x])
    assert builder.getTensorShape(y) == [4, 2]
    assert builder.getTensorDtypeString(y) == "float16"


def test_libraries_that_do_not_load_are_errors(tmp_path):
    file = tmp_path / "broken.so"
    file.write_bytes(b"text")
    with pytest.raises(OSError, match="broken.so"):
        ctypes.cdll.LoadLibrary(str(file))


@pytest.mark.parametrize(
    "type_, attributes, error, text",
    [
        ("NoLowering", {}, popart.popart_exception, "Could not create opx for"),
        ("Unknown", {}, popart.popart_exception, r"No class for test\.cpp\.Unknown:1"),
        ("Fails", {"how": "setup"}, popart.popart_exception, "setup of test.cpp.Fails:1 refuses"),
        ("Fails", {"how": "missing"}, popart.popart_exception, "did not set the output 0"),
        ("Fails", {"how": "negative"}, popart.popart_exception, r"\[-1\]"),
        ("Fails", {}, popart.popart_exception, "no attribute key how"),
        ("Fails", {"how": "error"}, popart.popart_exception, "grow gave up after 6 elements"),
        ("Fails", {"how": "shape"}, popart.popart_exception, "of unexpected shape"),
        ("Fails", {"how": "type"}, popart.popart_exception, "of unexpected Type"),
        ("Fails", {"how": "twice"}, popart.popart_internal_exception, "already in map"),
        ("Fails", {"how": "nothing"}, popart.popart_exception, "no poplar::Tensor"),
        ("Fails", {"how": "unmapped"}, popart.poplar_exception, "not mapped to a tile"),
        ("Fails", {"how": "poplar"}, popart.poplar_exception, "poplar gave up"),
        (
            "Fails",
            {"how": "abort"},
            popart.poplar_application_runtime_error,
            "the operation stopped",
        ),
        ("Fails", {"how": "std"}, RuntimeError, "the library gave up"),
    ],
)
def test_mistakes_are_named(type_, attributes, error, text):
    with pytest.raises(error, match=text):
        infer(type_, X, attributes)


@pytest.mark.parametrize(
    "option, text",
    [
        ("opxAliasChecking", "do not contain aliases, but the Poplar tensors disagree"),
        ("opxModifyChecking", "input 0 is not modified, but its program writes into it"),
    ],
)
def test_undeclared_changes_are_errors_if_checked(option, text):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    (y,) = add(builder, "NegateInPlace", [x])
    options = popart.SessionOptions()
    setattr(options, option, True)
    with pytest.raises(popart.popart_exception, match=text):
        popart_models.infer(builder.getModelProto(), {x: X}, [y], options)


def test_missing_gradients_are_not_trained():
    builder = popart.Builder()
    w, v = (builder.addInitializedInputTensor(array) for array in (X, Y))
    (y,) = add(builder, "NoGradient", [w])
    product = builder.aiOnnx.mul([y, v])
    loss = builder.aiGraphcore.identityloss([product], popart.ReductionType.Sum)
    with popart_models.device() as info:
        session = popart_models.trainer(builder.getModelProto(), loss, info)
        popart_models.run(session, {})
        kept, trained = popart_models.weights(session, w, v)
    np.testing.assert_array_equal(kept, X)
    np.testing.assert_allclose(trained, Y - 0.1 * X, 1e-6)
