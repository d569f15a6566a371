"""Dropout and random tensors."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

X = np.arange(1, 4001, dtype=np.float32).reshape(4, 1000)


def trained(build):
    """Runs a training step; returns the tensors of the function and the gradient of `w`."""
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X, "w")
    outputs = build(builder, w)
    loss = builder.aiGraphcore.identityloss([outputs[0]], popart.ReductionType.Sum)
    flow = popart.DataFlow(1, [*outputs, "Gradient___w"])
    with popart_models.device() as device:
        session = popart.TrainingSession(
            builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device
        )
        session.prepareDevice()
        session.weightsFromHost()
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO({}, results))
    return [results[name] for name in (*outputs, "Gradient___w")]


def test_dropout_drops_and_scales_in_training():
    y, mask, gradient = trained(lambda b, w: b.aiOnnx.dropout([w], 2, 0.25))
    assert 0.7 < mask.mean() < 0.8
    np.testing.assert_allclose(y, np.where(mask, X / 0.75, 0), 1e-6)
    np.testing.assert_allclose(gradient, np.where(mask, 1 / 0.75, 0), 1e-6)


def test_a_mask_of_another_shape_is_broadcast():
    y, gradient = trained(lambda b, w: [b.aiGraphcore.shapeddropout([w], [1, 1000], 0.5)])
    kept = y != 0
    assert (kept == kept[:1]).all() and 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(gradient, np.where(kept, 2.0, 0.0))


def test_dropout_passes_everything_on_in_inference():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 1000])
    y, mask = builder.aiOnnx.dropout([x], 2)
    found = popart_models.infer(builder.getModelProto(), {x: X}, [y, mask])
    np.testing.assert_array_equal(found[y], X)
    assert found[mask].all()


def test_masks_differ_by_call_site_but_equal_gradients():
    """Of a subgraph that a subgraph calls twice, which is called twice itself, in two batches."""
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(X[0], "w")
    outer = builder.createSubgraphBuilder()
    inner = outer.createSubgraphBuilder()
    x, z = outer.addInputTensor("FLOAT", [1000]), inner.addInputTensor("FLOAT", [1000])
    inner.addOutputTensor(inner.aiOnnx.dropout([z], 1, 0.5)[0])
    for _ in range(2):
        outer.addOutputTensor(outer.aiGraphcore.call([x], 1, inner)[0])
    outputs = [o for _ in range(2) for o in builder.aiGraphcore.call([w], 2, outer)]
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.sum(outputs)], popart.ReductionType.Sum)
    rate = popart.ConstSGD(1e-6)
    with popart_models.device() as device:
        anchors = {n: popart.AnchorReturnType("All") for n in (*outputs, "Gradient___w")}
        session = popart_models.trainer(
            builder.getModelProto(), loss, device, rate, anchors, batches=2
        )
        found = popart_models.run(session, {})
    masks = np.stack([found[name] != 0 for name in outputs])
    assert len(np.unique(masks.reshape(8, 1000), axis=0)) == 8
    np.testing.assert_array_equal(found["Gradient___w"], 2.0 * masks.sum(0))


def test_random_tensors_have_their_distributions():
    builder = popart.Builder()
    normal = builder.aiOnnx.randomnormal([10000], mean=3.0, scale=2.0)
    uniform = builder.aiOnnx.randomuniform([10000], dtype=10, low=-1.0, high=1.0)
    like = builder.aiOnnx.randomnormallike([normal])
    found = popart_models.infer(builder.getModelProto(), {}, [normal, uniform, like])
    assert abs(found[normal].mean() - 3) < 0.1 and abs(found[normal].std() - 2) < 0.1
    assert found[uniform].dtype == np.float16 and -1 <= found[uniform].min() < -0.9
    assert found[like].shape == (10000,) and abs(found[like].std() - 1) < 0.1


@pytest.mark.parametrize(
    "add, message",
    [
        (lambda b, x: b.aiOnnx.dropout([x], 1, 1.5)[0], "ratio value 1.5 is not valid"),
        (lambda b, x: b.aiGraphcore.shapeddropout([x], [3]), "incompatible input tensor and"),
        (lambda b, x: b.aiOnnx.randomnormal([2], seed=1.0), "Optional seed attribute is not"),
    ],
)
def test_what_does_not_fit_is_refused(add, message):
    builder = popart.Builder()
    y = add(builder, builder.addInputTensor("FLOAT", [2, 2]))
    with pytest.raises(popart.popart_exception, match=message):
        popart_models.infer(builder.getModelProto(), {}, [y])
