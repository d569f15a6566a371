"""Optimizers of PopART against PyTorch's, where that is installed."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

torch = pytest.importorskip("torch")

RATE, MOMENTUM, DECAY, BETA1, BETA2, EPS = 0.1, 0.9, 0.01, 0.8, 0.95, 1e-7
STEPS = 4
W = np.random.RandomState(0).randn(3, 4).astype(np.float32)
DATA = np.random.RandomState(1).randn(STEPS, 2, 3).astype(np.float32)


def sgd(**values):
    kind = popart.SGDAccumulatorAndMomentum.Combined
    rate = {"defaultLearningRate": (RATE, False)}
    return popart.SGD(
        rate | {name: (value, True) for name, value in values.items()},
        accumulatorAndMomentum=kind,
    )


def adam(mode, decay=0.0, decays=popart.WeightDecayMode.Decay):
    values = {
        "defaultLearningRate": RATE,
        "defaultWeightDecay": decay,
        "defaultBeta1": BETA1,
        "defaultBeta2": BETA2,
        "defaultEps": EPS,
        "lossScaling": 1.0,
    }
    return popart.Adam(
        {name: (value, False) for name, value in values.items()},
        mode=mode,
        weight_decay_mode=decays,
    )


OURS_AND_THEIRS = {
    "SGD": (lambda: sgd(), lambda w: torch.optim.SGD(w, RATE)),
    "momentum and decay": (
        lambda: sgd(defaultMomentum=MOMENTUM, defaultWeightDecay=DECAY),
        lambda w: torch.optim.SGD(w, RATE, MOMENTUM, weight_decay=DECAY),
    ),
    "Nesterov": (
        lambda: sgd(defaultMomentum=MOMENTUM, nesterov=1.0),
        lambda w: torch.optim.SGD(w, RATE, MOMENTUM, nesterov=True),
    ),
    "Adam": (
        lambda: adam(popart.AdamMode.Adam),
        lambda w: torch.optim.Adam(w, RATE, (BETA1, BETA2), EPS),
    ),
    "Adam with L2": (
        lambda: adam(popart.AdamMode.Adam, DECAY, popart.WeightDecayMode.L2Regularization),
        lambda w: torch.optim.Adam(w, RATE, (BETA1, BETA2), EPS, weight_decay=DECAY),
    ),
    "AdamW": (
        lambda: adam(popart.AdamMode.Adam, DECAY),
        lambda w: torch.optim.AdamW(w, RATE, (BETA1, BETA2), EPS, weight_decay=DECAY),
    ),
    "AdaMax": (
        lambda: adam(popart.AdamMode.AdaMax),
        lambda w: torch.optim.Adamax(w, RATE, (BETA1, BETA2), EPS),
    ),
}


@pytest.mark.parametrize("name", OURS_AND_THEIRS)
def test_weights_are_those_of_torch(name):
    ours, theirs = OURS_AND_THEIRS[name]
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(W, "w")
    loss = builder.aiGraphcore.l1loss(
        [builder.aiOnnx.matmul([x, w])], 0.1, popart.ReductionType.Sum
    )
    with popart_models.device() as device:
        model = builder.getModelProto()
        session = popart_models.trainer(model, loss, device, ours(), batches=STEPS)
        popart_models.run(session, {x: DATA})
        (found,) = popart_models.weights(session, w)
    weight = torch.nn.Parameter(torch.tensor(W))
    optimizer = theirs([weight])
    for batch in DATA:
        optimizer.zero_grad()
        (0.1 * (torch.tensor(batch) @ weight).abs().sum()).backward()
        optimizer.step()
    np.testing.assert_allclose(found, weight.detach().numpy(), 1e-4, 1e-5)
