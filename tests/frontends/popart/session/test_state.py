"""Seeds and generators of sessions."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

X = np.ones([64], np.float32)


def dropping():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [64], "x")
    w = builder.addInitializedInputTensor(X, "w")
    y = builder.aiOnnx.dropout([builder.aiOnnx.mul([x, w])], 1, 0.5)[0]
    z = builder.aiOnnx.randomuniformlike([x])
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.add([y, z])])
    return builder.getModelProto(), loss, y, z


@pytest.mark.parametrize("replicas", [1, 2])
def test_seed_decides_on_all_random_numbers_and_advances(replicas):
    model, loss, y, z = dropping()
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    anchors = {name: popart.AnchorReturnType("All") for name in (y, z)}
    with popart_models.device(replicas) as device:
        session = popart_models.trainer(model, loss, device, anchors=anchors, options=options)
        data = {"x": np.ones([replicas, 64], np.float32)}
        session.setRandomSeed(2**40 + 7)
        assert session.getRandomSeed() == 2**40 + 7
        first = popart_models.run(session, data)[y]
        continued = session.getRandomSeed()
        second = popart_models.run(session, data)[y]
        session.setRandomSeed(continued)
        session.weightsFromHost()
        np.testing.assert_array_equal(popart_models.run(session, data)[y] != 0, second != 0)
        session.setRandomSeed(2**40 + 7)
        session.weightsFromHost()
        found = popart_models.run(session, data)
    np.testing.assert_array_equal(found[y], first)
    assert not np.array_equal(first != 0, second != 0)
    kept = first != 0
    assert 0.3 < kept.mean() < 0.7 and set(np.unique(first)) == {0, 2}
    for values in (kept, found[z]):
        parts = [values.reshape(-1, 64)[i] for i in range(replicas)]
        assert replicas == 1 or not np.array_equal(*parts)
    assert not np.array_equal(found[z] < 0.5, ~kept)


def test_stochastic_rounding_follows_the_state_of_the_generators():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", [512], "x")
    y = builder.aiOnnx.add([x, builder.aiOnnx.constant(np.full(512, 2.0**-12, np.float16))])
    options = popart.SessionOptions()
    options.enableStochasticRounding = options.enableLoadAndOffloadRNGState = True
    with popart_models.device() as device:
        session = popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options
        )
        session.prepareDevice()
        data = {"x": np.ones(512, np.float16)}
        session.setRandomSeed(5)
        state = session.getRNGState()
        assert len(state) == 1 * 2 * device.tilesPerIPU * 6 * 4
        first = popart_models.run(session, data)[y]
        second = popart_models.run(session, data)[y]
        assert session.getRNGState() != state
        session.setRNGState(state)
        np.testing.assert_array_equal(popart_models.run(session, data)[y], first)
        with pytest.raises(popart.popart_runtime_error, match="received rngState of size 3"):
            session.setRNGState([1, 2, 3])
    assert set(np.unique(first)) == {1, 1 + 2.0**-10}
    assert 0.1 < (first != 1).mean() < 0.4 and not np.array_equal(first, second)


def test_synthetic_data_has_no_generators():
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")])
    options = popart.SessionOptions()
    options.enableLoadAndOffloadRNGState = True
    options.syntheticDataMode = popart.SyntheticDataMode.Zeros
    with popart_models.device() as device:
        flow, model = popart.DataFlow(1, [y]), builder.getModelProto()
        session = popart.InferenceSession(model, flow, device, userOptions=options)
        session.prepareDevice()
        assert session.getRNGState() == []
        session.setRNGState([1, 2, 3])


def test_what_needs_option_or_program_says_so(capsys):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    y = builder.aiOnnx.relu([x])
    with popart_models.device() as device:
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
        session.setRandomSeed(1)
        assert session.getRandomSeed() == 0
        assert "this session has no random behaviour. Doing nothing." in capsys.readouterr().err
        for call in (session.getRNGState, session.weightsFromHost):
            with pytest.raises(popart.popart_runtime_error, match="no compiled engine"):
                call()
        session.prepareDevice()
        with pytest.raises(popart.popart_runtime_error, match="enableLoadAndOffloadRNGState"):
            session.getRNGState()
