"""Sequences that are packed one after the other."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

SUM = popart.ReductionType.Sum


def test_packed_sequences_are_computed_and_differentiated():
    builder = popart.Builder()
    data = np.arange(14, dtype=np.float32).reshape(7, 2)
    x = builder.addInitializedInputTensor(data)
    offsets, lengths, places = (
        builder.aiOnnx.constant(np.array(values, np.uint32))
        for values in ([0, 3, 4, 5], [3, 1, 1, 2], [0, 4, 6, 7])
    )
    callback = builder.createSubgraphBuilder()
    rows = callback.addInputTensor("FLOAT", [2, 3, 2])
    callback.addOutputTensor(callback.aiOnnx.mul([rows, rows]))
    y = builder.aiGraphcore.packedDataBlock(
        [x, offsets, lengths, places, lengths], [3], 9, 2, callback
    )
    loss = builder.aiGraphcore.identityloss([y], SUM)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [x], [y])
    expected = np.zeros((9, 2))
    expected[[0, 1, 2, 4, 6, 7, 8]] = data**2
    np.testing.assert_allclose(found[y], expected)
    np.testing.assert_allclose(found[x], 2 * data)


def test_sequences_that_fill_no_batch_are_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    numbers = [builder.addInputTensor("UINT32", [3]) for _ in range(4)]
    callback = builder.createSubgraphBuilder()
    callback.addOutputTensor(callback.aiOnnx.exp([callback.addInputTensor("FLOAT", [2, 2])]))
    y = builder.aiGraphcore.packedDataBlock([x, *numbers], [2], 4, 2, callback)
    with pytest.raises(popart.popart_exception, match="must be a multiple of callbackBatchSize"):
        popart_models.infer(builder.getModelProto(), {}, [y])
