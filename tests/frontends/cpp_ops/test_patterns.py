"""Patterns and transforms of C++ libraries in models of PopART; values as of NumPy."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

pytestmark = pytest.mark.usefixtures("operations")

X = np.array([[1.5, -2.0, 0.25], [-0.5, 4.0, -1.0]], np.float32)


def only(*names):
    """Returns the default patterns with some of the library."""
    patterns = popart.Patterns()
    for name in names:
        patterns.enablePattern(name, True)
    return patterns


def outputs(build, *names, options=None):
    """Returns outputs of a model that a function builds of an input."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    y = build(builder, x)
    found = popart_models.infer(
        builder.getModelProto(), {x: X}, [y], options, patterns=only(*names)
    )
    return found[y]


def leaky(builder, x, **attributes):
    """Adds an op of the library."""
    return builder.customOp("Leaky", 1, "test.cpp", [x], attributes)[0]


def test_names_are_known_after_loading():
    assert "ReluToLeaky" in popart.Patterns.getAllPreAliasPatternNames()
    assert not popart.Patterns().isPatternEnabled("ReluToLeaky")
    assert popart.Patterns(popart.PatternsLevel.All).isPatternEnabled("ReluToLeaky")
    assert only("ReluToLeaky").isPatternEnabled("ReluToLeaky")


@pytest.mark.parametrize(
    "names, expected",
    [
        ((), np.maximum(X, 0)),
        (("ReluToLeaky",), np.where(X < 0, 0.5 * X, X)),
        (("ReluToLeaky", "LeakyToNegate"), -X),
    ],
)
def test_patterns_run_until_nothing_changes(names, expected):
    np.testing.assert_allclose(outputs(lambda b, x: b.aiOnnx.relu([x]), *names), expected)


def test_consumers_are_rewired():
    def build(builder, x):
        return builder.aiOnnx.relu([builder.aiOnnx.neg([builder.aiOnnx.neg([x])])])

    np.testing.assert_array_equal(outputs(build, "DropNegations"), np.maximum(X, 0))


def test_changed_attributes_reach_the_lowering():
    def build(builder, x):
        return builder.aiOnnx.add([leaky(builder, x, alpha=0.125), leaky(builder, x, alpha=0.5)])

    expected = np.where(X < 0, 0.75 * X, 2 * X)
    np.testing.assert_allclose(outputs(build, "DoubleAlpha"), expected)


def test_constants_are_added():
    found = outputs(lambda b, x: b.aiOnnx.identity([x]), "IdentityToAdd")
    np.testing.assert_allclose(found, X + 10)


def test_nodes_exclude_patterns():
    def build(builder, x):
        y = builder.aiOnnx.relu([x])
        builder.excludePatterns(y, ["ReluToLeaky"])
        return y

    np.testing.assert_array_equal(outputs(build, "ReluToLeaky"), np.maximum(X, 0))


def test_anchored_tensors_stay():
    def build(builder, x):
        return builder.aiOnnx.relu([builder.aiOnnx.identity([x])])

    found = outputs(build, "ReluToLeaky")
    np.testing.assert_allclose(found, np.where(X < 0, 0.5 * X, X))
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(X))
    y = builder.aiOnnx.identity([x])
    z = builder.aiOnnx.relu([y])
    model = builder.getModelProto()
    kept = popart_models.infer(model, {x: X}, [y, z], patterns=only("ReluToLeaky"))
    np.testing.assert_array_equal(kept[z], np.maximum(X, 0))


def test_replaced_ops_have_gradients():
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X)
    y = builder.aiOnnx.relu([w])
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    with popart_models.device() as info:
        session = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [loss]),
            loss,
            popart.ConstSGD(1.0),
            info,
            patterns=only("ReluToLeaky"),
        )
        session.prepareDevice()
        session.weightsFromHost()
        popart_models.run(session, {})
        (found,) = popart_models.weights(session, w)
    np.testing.assert_allclose(found, X - np.where(X < 0, 0.5, 1))


def test_transforms_run_at_their_checkpoint():
    options = popart.SessionOptions()
    options.experimentalSettings.customTransformApplierSettings = {
        "Fwd0": ["ReluToNegate", "Unknown"],
        "Nowhere": ["ReluToNegate"],
    }
    found = outputs(lambda b, x: b.aiOnnx.relu([x]), options=options)
    np.testing.assert_array_equal(found, -X)


@pytest.mark.parametrize(
    "name, text",
    [
        ("Endless", "Patterns still change the main graph after 100 rounds; the last was Endless"),
        ("Throws", "no pattern for Relu"),
    ],
)
def test_faults_of_patterns_are_errors(name, text):
    with pytest.raises(popart.popart_exception, match=text):
        outputs(lambda b, x: b.aiOnnx.relu([x]), name)


def test_patterns_replace_ops_without_lowering():
    with pytest.raises(popart.popart_exception, match="Could not create opx for"):
        outputs(lambda b, x: b.customOp("NoLowering", 1, "test.cpp", [x], {})[0])
