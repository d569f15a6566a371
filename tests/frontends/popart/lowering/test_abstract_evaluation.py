"""Gradients through ops without one, or with one of their own."""

from __future__ import annotations

import logging

import numpy as np
import popart
import pytest

from tensorflow_ipu.frontends.popart import patterns
from tests.support.popart import popart_models

W = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]], np.float32)
SUM, MEAN, NONE = (popart.ReductionType[name] for name in ("Sum", "Mean", "NoReduction"))


def built(add, reduction=SUM):
    """A builder, a weight, a function of it, and its sum as the loss."""
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    w = builder.addInitializedInputTensor(W, "w")
    y = add(builder, w)
    return builder, w, y, builder.aiGraphcore.identityloss([y], reduction)


def masked(builder, w, name):
    onnx, zero = builder.aiOnnx, builder.aiOnnx.constant(np.float32(0))
    bits = onnx.cast([w], "INT32")
    made = {
        "Greater": lambda: onnx.greater([w, zero]),
        "Not": lambda: onnx.logical_not([onnx.cast([w], "BOOL")]),
        "BitwiseAnd": lambda: builder.aiGraphcore.bitwiseand([bits, bits]),
    }[name]()
    return onnx.mul([onnx.cast([made], "FLOAT"), w])


def padded(builder, w):
    pads = builder.aiOnnx.constant(np.array([0, 1, 0, 1], np.int64))
    return builder.aiOnnx.pad([w, pads], "reflect")


def resized(builder, w):
    empty = builder.aiOnnx.constant(np.array([1], np.float32))
    scales = builder.aiOnnx.constant(np.array([1, 2], np.float32))
    return builder.aiOnnx.resize([w, empty, scales], mode="linear")


def normalized(builder, w):
    x = builder.aiOnnx.unsqueeze([w], [0, 3])
    numbers = [builder.aiOnnx.constant(np.ones(2, np.float32)) for _ in range(4)]
    return builder.aiOnnx.batchnormalization([x, *numbers], 1)[0]


def branching(builder, w):
    """The mask is inside of a graph that is called."""
    callee = builder.createSubgraphBuilder()
    callee.addOutputTensor(masked(callee, callee.addInputTensor("FLOAT", [2, 3]), "Greater"))
    return builder.aiGraphcore.call([w], 1, callee)[0]


@pytest.mark.parametrize(
    "add, message",
    [
        (lambda b, w: masked(b, w, "Greater"), "Greater does not have a valid grad op"),
        (lambda b, w: masked(b, w, "Not"), "Not does not have a valid grad op"),
        (lambda b, w: masked(b, w, "BitwiseAnd"), "BitwiseAnd does not have a valid grad op"),
        (branching, "Greater does not have a valid grad op"),
        (padded, "does not support PadGradOp when mode is not"),
        (resized, "not supported when training"),
        (normalized, "which means it is in inference mode"),
    ],
)
def test_gradients_that_do_not_exist_are_refused(add, message):
    builder, w, _, loss = built(add)
    with pytest.raises(popart.popart_exception, match=message):
        popart_models.differentiate(builder.getModelProto(), loss, {}, [w])


def test_masks_chosen_by_or_detached_need_no_gradient():
    def chosen(builder, w):
        onnx, zero = builder.aiOnnx, builder.aiOnnx.constant(np.float32(0))
        fixed = builder.aiGraphcore.detach([w])
        kept = onnx.cast([onnx.greater([fixed, zero])], "FLOAT")
        return onnx.where([onnx.less([w, zero]), onnx.mul([w, w]), onnx.mul([w, kept])])

    builder, w, _, loss = built(chosen)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [w])
    np.testing.assert_allclose(found[w], np.where(W < 0, 2 * W, 1))


def test_ops_without_gradient_stop_it_with_one_warning(caplog):
    def stopped(builder, w):
        slope = builder.aiOnnx.constant(np.array([2], np.float32))
        return builder.aiOnnx.add([builder.aiOnnx.prelu([w, slope], debugContext="total"), w])

    builder, w, _, loss = built(stopped)
    with caplog.at_level(logging.WARNING):
        found = popart_models.differentiate(builder.getModelProto(), loss, {}, [w])
    np.testing.assert_allclose(found[w], np.ones_like(W))
    told = [r.getMessage() for r in caplog.records if "No gradient flows" in r.getMessage()]
    assert len(told) == 1 and "PRelu total" in told[0]


@pytest.mark.parametrize("pattern", ["ExpGradOp", "SubtractArg1GradOp", "Atan2Arg1GradOp"])
def test_gradients_need_their_patterns(pattern):
    """An op that is not on the way, or whose other input is trained, does not."""
    off = popart.Patterns([n for n in patterns.MANDATORY if n != pattern])
    off.enableRuntimeAsserts(False)
    one = np.ones_like(W)

    def check(add):
        builder, w, _, loss = built(add)
        with popart_models.device() as device:
            flow = popart.DataFlow(1, [loss])
            rest = (loss, popart.ConstSGD(0.1), device, popart.InputShapeInfo(), off)
            popart.TrainingSession(builder.getModelProto(), flow, *rest)

    needing = {
        "ExpGradOp": lambda b, w: b.aiOnnx.exp([w]),
        "SubtractArg1GradOp": lambda b, w: b.aiOnnx.sub([b.aiOnnx.constant(one), w]),
        "Atan2Arg1GradOp": lambda b, w: b.aiGraphcore.atan2([b.aiOnnx.constant(one), w]),
    }[pattern]
    with pytest.raises(popart.popart_exception, match=f"been removed by pattern {pattern}$"):
        check(needing)
    check(lambda b, w: b.aiOnnx.sub([w, b.aiOnnx.exp([b.aiOnnx.constant(one)])]))


@pytest.mark.parametrize("reduction", [SUM, MEAN, NONE])
@pytest.mark.parametrize("is_fused", [True, False])
def test_softmax_and_likelihood_have_one_gradient(reduction, is_fused):
    """With a probability below the smallest that has a logarithm, only it is not zero."""
    logits = np.array([[40.0, 0.0], [0.5, 1.0]], np.float32)
    labels = np.array([1, 0], np.int32)
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(logits)
    p = builder.aiOnnx.softmax([w])
    y = builder.aiGraphcore.nllloss([p, builder.aiOnnx.constant(labels)], reduction)
    loss = builder.aiGraphcore.identityloss([y], SUM)
    powers = np.exp(logits)
    probabilities = powers / powers.sum(1, keepdims=True)
    expected = probabilities - np.eye(2)[labels]
    if not is_fused:
        expected[0] = 0
    anchors = () if is_fused else (f"Gradient___{p}",)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [w], anchors)
    np.testing.assert_allclose(found[w], expected / (2 if reduction is MEAN else 1), 1e-5, 1e-6)
    if not is_fused:
        of_p = [0, -1 / probabilities[1, 0] / (2 if reduction is MEAN else 1)]
        np.testing.assert_allclose(found[anchors[0]][[0, 1], labels], of_p, 1e-5)


def test_steps_of_slices_need_their_pattern():
    builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [6])
    starts, ends, axes, steps = (
        builder.aiOnnx.constant(np.array([number], np.int64)) for number in (0, 6, 0, 2)
    )
    y = builder.aiOnnx.slice([x, starts, ends, axes, steps])
    data = {x: np.arange(6, dtype=np.float32)}
    with pytest.raises(popart.popart_exception, match="Slice2SliceSubsample"):
        popart_models.infer(builder.getModelProto(), data, [y])
    patterns = popart.Patterns().enablePattern("Slice2SliceSubsample", True)
    found = popart_models.infer(builder.getModelProto(), data, [y], patterns=patterns)
    assert found[y].tolist() == [0, 2, 4]
