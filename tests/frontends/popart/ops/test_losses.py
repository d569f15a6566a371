"""Connectionist temporal classification against TensorFlow."""

from __future__ import annotations

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support.popart import popart_models

T, N, C, S = 6, 3, 4, 3
LOGITS = np.random.RandomState(0).randn(T, N, C).astype(np.float32)
TARGETS = np.array([[1, 2, 3], [2, 2, 0], [1, 0, 0]], np.int32)
INPUTS, COUNTS = np.array([6, 5, 3], np.uint32), np.array([3, 2, 1], np.uint32)
MEAN, SUM, NONE = (popart.ReductionType[name] for name in ("Mean", "Sum", "NoReduction"))


def losses(logits):
    return tf.nn.ctc_loss(
        TARGETS, logits, COUNTS.astype(np.int32), INPUTS.astype(np.int32), blank_index=0
    )


@pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-4), (np.float16, 2e-2)])
def test_losses_and_their_gradients(dtype, rtol):
    for reduction, reduce in (
        (MEAN, lambda values: tf.reduce_mean(values / COUNTS.astype(np.float32))),
        (NONE, tf.identity),
    ):
        popart_models.check_op(
            lambda onnx, own, ids: own.ctcloss(
                [onnx.logsoftmax([ids[0]], 2), *ids[1:]],
                reduction,  # noqa: B023
            ),
            [LOGITS.astype(dtype), TARGETS, INPUTS, COUNTS],
            lambda logits, *_: reduce(losses(logits)),  # noqa: B023
            rtol=rtol,
            atol=rtol,
        )


def test_infinite_losses_can_be_zero():
    logits = np.log(np.full((2, 1, 3), 1 / 3, np.float32))
    targets, inputs, counts = (np.array(v, np.int32) for v in ([[1, 1]], [2], [2]))
    found = {}
    for zeros in (False, True):
        builder = popart.Builder()
        x = builder.addInitializedInputTensor(logits)
        others = [builder.aiOnnx.constant(array) for array in (targets, inputs, counts)]
        y = builder.aiGraphcore.ctcloss([x, *others], SUM, zeroInfinity=zeros)
        found[zeros] = popart_models.differentiate(builder.getModelProto(), y, {}, [x], [y])
    assert np.isinf(found[False][y])
    assert found[True][y] == 0 and not found[True][x].any()


def test_beam_search_finds_the_most_probable_labels():
    builder = popart.Builder()
    probabilities = tf.nn.log_softmax(LOGITS).numpy()
    x = builder.addInputTensor(popart.TensorInfo(probabilities))
    lengths = builder.aiOnnx.constant(INPUTS)
    outputs = builder.aiGraphcore.ctcbeamsearchdecoder([x, lengths], 0, 20, 2)
    found = popart_models.infer(builder.getModelProto(), {x: probabilities}, outputs)
    # TensorFlow's blank is the last class.
    rolled = np.concatenate([LOGITS[..., 1:], LOGITS[..., :1]], -1)
    decoded, scores = tf.nn.ctc_beam_search_decoder(rolled, INPUTS.astype(np.int32), 20, 2)
    values, counts, labels = (found[name] for name in outputs)
    assert counts.dtype == labels.dtype == np.uint32
    np.testing.assert_allclose(values, scores.numpy(), 1e-3)
    for path, sparse in enumerate(decoded):
        dense = tf.sparse.to_dense(sparse, -1).numpy() + 1
        for row in range(N):
            wanted = dense[row][dense[row] > 0]
            assert labels[row, path][: counts[row, path]].tolist() == wanted.tolist()


def test_other_shapes_and_types_are_refused():
    for arrays, message in (
        ([LOGITS[0], TARGETS, INPUTS, COUNTS], "Unsupported shape for input logProbs"),
        ([LOGITS, TARGETS, INPUTS, COUNTS.astype(np.float32)], "Unsupported data type for input"),
    ):
        builder = popart.Builder()
        ids = [builder.addInputTensor(popart.TensorInfo(array)) for array in arrays]
        y = builder.aiGraphcore.ctcloss(ids)
        with pytest.raises(popart.popart_exception, match=message):
            popart_models.infer(builder.getModelProto(), {}, [y])
