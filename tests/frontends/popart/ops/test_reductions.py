"""Exchanges between replicas against NumPy."""

from __future__ import annotations

import numpy as np
import popart
import pytest
from popart._internal.ir import CollectiveOperator

from tests.support.popart import popart_models

O = CollectiveOperator  # noqa: E741
DATA = np.array([[1, -2, 3], [2, 2, 2], [-1, 0.5, 4], [3, 1, -1]], np.float32)
RESULTS = {
    O.Add: lambda rows: rows.sum(0),
    O.Mean: lambda rows: rows.mean(0),
    O.Mul: lambda rows: rows.prod(0),
    O.Min: lambda rows: rows.min(0),
    O.Max: lambda rows: rows.max(0),
    O.SquareAdd: lambda rows: (rows**2).sum(0),
}


def options(replicas):
    made = popart.SessionOptions()
    made.enableReplicatedGraphs, made.replicatedGraphCount = replicas > 1, replicas
    return made


def run(builder, data, outputs, replicas):
    with popart_models.device(replicas) as info:
        session = popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, outputs),
            info,
            userOptions=options(replicas),
        )
        session.prepareDevice()
        return popart_models.run(session, data)


@pytest.mark.parametrize("replicas", [1, 4])
def test_reductions_over_replicas(replicas):
    builder, data = popart.Builder(), DATA[:replicas]
    x = builder.addInputTensor("FLOAT", [3])
    own = builder.aiGraphcore
    whole = {kind: own.replicatedallreduce([x], kind) for kind in (*RESULTS, O.Local)}
    parts = {kind: own.replicatedreducescatter([x], kind) for kind in (O.Add, O.Local)}
    outputs = {**whole, **{f"part {kind.name}": name for kind, name in parts.items()}}
    found = run(builder, {x: data}, list(outputs.values()), replicas)
    for kind, name in whole.items():
        expected = data if kind is O.Local else np.tile(RESULTS[kind](data), (replicas, 1))
        np.testing.assert_allclose(found[name].reshape(replicas, 3), expected, 1e-6)
    size = -(-3 // replicas)
    padded = np.pad(data, [(0, 0), (0, size * replicas - 3)]).reshape(replicas, replicas, size)
    np.testing.assert_allclose(found[parts[O.Add]].reshape(replicas, size), padded.sum(0))
    own_parts = padded[np.arange(replicas), np.arange(replicas)]
    np.testing.assert_allclose(found[parts[O.Local]].reshape(replicas, size), own_parts)


def test_groups_of_replicas():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3])
    kinds = popart.CommGroupType
    pairs = builder.aiGraphcore.replicatedallreduce(
        [x], None, popart.CommGroup(kinds.Consecutive, 2)
    )
    across = builder.aiGraphcore.replicatedallreduce(
        [x], O.Max, popart.CommGroup(kinds.Orthogonal, 2)
    )
    with builder.commGroup(int(kinds.Consecutive), 2):
        scoped = builder.aiGraphcore.replicatedallreduce([x])
    found = run(builder, {x: DATA}, [pairs, across, scoped], 4)
    sums = DATA[0::2] + DATA[1::2]
    np.testing.assert_allclose(found[pairs], np.repeat(sums, 2, 0))
    np.testing.assert_allclose(found[scoped], np.repeat(sums, 2, 0))
    np.testing.assert_allclose(found[across], np.tile(np.maximum(DATA[:2], DATA[2:]), (2, 1)))


def test_only_a_local_scatter_has_a_gradient():
    for kind in (O.Local, O.Add):
        builder = popart.Builder()
        w = builder.addInitializedInputTensor(DATA[0])
        part = builder.aiGraphcore.replicatedreducescatter([w], kind)
        squares = builder.aiOnnx.mul([part, part])
        loss = builder.aiGraphcore.identityloss([squares], popart.ReductionType.Sum)
        arguments = (builder.getModelProto(), loss, {}, [w], (), options(2), 2)
        if kind is O.Local:
            found = popart_models.differentiate(*arguments)[w]
            np.testing.assert_allclose(found, [2 * DATA[0]] * 2)
        else:
            with pytest.raises(popart.popart_exception, match="grad op is only implemented when"):
                popart_models.differentiate(*arguments)
