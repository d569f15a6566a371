"""Training: optimizers, reductions and anchors against NumPy."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

RATE = 0.1
W = np.random.RandomState(0).randn(3, 4).astype(np.float32)


def art(*args):
    return popart.AnchorReturnType(*args)


def train(optimizer, batches=1, micro=1, replicas=1, steps=2, options=None, anchors=None):
    """Trains a weight by the sum of absolute values of a product; returns it, and all anchors."""
    data = np.random.RandomState(1).randn(batches, micro, replicas, 2, 3).astype(np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(W, "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.l1loss([y], 0.1, popart.ReductionType.Sum)
    options = options or popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = micro > 1, micro
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    flow = popart.DataFlow(batches, anchors or {loss: art("All"), y: art("Sum")})
    with popart_models.device(replicas) as device:
        session = popart.TrainingSession(
            builder.getModelProto(), flow, loss, optimizer, device, userOptions=options
        )
        session.prepareDevice()
        session.weightsFromHost()
        results = session.initAnchorArrays()
        for _ in range(steps):
            session.run(popart.PyStepIO({x: data}, results))
        session.weightsToHost()
        trained = np.empty_like(W)
        session.readWeights(popart.PyWeightsIO({w: trained}))
    return trained, results, data


def reference(update, data, steps=2, mean=False):
    """The weight after training by a function of weight, gradient and state."""
    w, kept = W.astype(np.float64), {}
    for batch in np.tile(data, (steps, 1, 1, 1, 1)):
        samples = batch.reshape(-1, 2, 3)
        gradient = sum(0.1 * x.T @ np.sign(x @ w) for x in samples)
        w = update(w, gradient / (len(samples) if mean else 1), kept)
    return w


def sgd(momentum=0.0, decay=0.0, separate=False, nesterov=False):
    def update(w, g, kept):
        if not momentum:
            return w * (1 - RATE * decay) - RATE * g
        v = kept["v"] = momentum * kept.get("v", 0) + g + decay * w
        return w - RATE * (g + decay * w + momentum * v if nesterov else v)

    kind = popart.SGDAccumulatorAndMomentum
    values = {
        "defaultLearningRate": (RATE, False),
        "defaultMomentum": (momentum, True),
        "defaultWeightDecay": (decay, True),
        "nesterov": (float(nesterov), True),
        "lossScaling": (4.0, True),
    }
    mode = kind.Separate if separate else kind.Combined
    return popart.SGD(values, accumulatorAndMomentum=mode), update


OPTIMIZERS = {
    "SGD": sgd(),
    "SGD with decay": sgd(decay=0.01),
    "momentum in one tensor": sgd(0.9, 0.01),
    "momentum in two": sgd(0.9, 0.01, separate=True),
    "Nesterov": sgd(0.9, 0.01, nesterov=True),
    "Nesterov in two": sgd(0.9, 0.01, separate=True, nesterov=True),
}


def adam(mode, weight_decay_mode):
    def update(w, g, kept):
        decay, eps, b1, b2 = 0.01, 1e-3, 0.8, 0.9
        if weight_decay_mode is popart.WeightDecayMode.L2Regularization:
            g = g + decay * w
        t = kept["t"] = kept.get("t", 0) + 1
        m = kept["m"] = b1 * kept.get("m", 0) + (1 - b1) * g
        if mode is popart.AdamMode.AdaMax:
            v = kept["v"] = np.maximum(b2 * kept.get("v", 0), abs(g))
            root = v
        else:
            v = kept["v"] = b2 * kept.get("v", 0) + (1 - b2) * g * g
            root = np.sqrt(v if "NoBias" in mode.name else v / (1 - b2**t))
        m = m if "NoBias" in mode.name else m / (1 - b1**t)
        x = m / (root + eps)
        if weight_decay_mode is popart.WeightDecayMode.Decay:
            x = x + decay * w
        if "Lamb" in mode.name:
            x = x * min(np.linalg.norm(w), 10) / np.linalg.norm(x)
        return w - RATE * x

    values = {
        "defaultLearningRate": (RATE, True),
        "defaultWeightDecay": (0.01, False),
        "defaultBeta1": (0.8, True),
        "defaultBeta2": (0.9, True),
        "defaultEps": (1e-3, True),
        "lossScaling": (8.0, False),
    }
    return popart.Adam(values, mode, weight_decay_mode), update


for mode in popart.AdamMode:
    OPTIMIZERS[f"{mode.name}"] = adam(mode, popart.WeightDecayMode.Decay)
OPTIMIZERS["Adam, L2"] = adam(popart.AdamMode.Adam, popart.WeightDecayMode.L2Regularization)


def adaptive(mode, momentum=0.0, tf_variant=False):
    def update(w, g, kept):
        a, eps, decay = 0.9, 1e-3, 0.01
        kinds = popart.AdaptiveMode
        v1 = kept.get("v1", 1.0 if tf_variant else 0.0)
        v2 = kept.get("v2", 0.0)
        v1 = v1 + g * g if mode is kinds.AdaGrad else a * v1 + (1 - a) * g * g
        kept["v1"] = v1
        if mode is kinds.AdaDelta:
            x = g * np.sqrt(v2 + eps) / np.sqrt(v1 + eps)
            kept["v2"] = a * v2 + (1 - a) * x * x
        else:
            spread = v1
            if mode is kinds.CenteredRMSProp:
                v2 = kept["v2"] = a * v2 + (1 - a) * g
                spread = v1 - v2 * v2
            x = g / np.sqrt(spread + eps) if tf_variant else g / (np.sqrt(spread) + eps)
        if momentum:
            pushed = RATE * x if tf_variant else x
            x = kept["v3"] = momentum * kept.get("v3", 0) + pushed
        if momentum and tf_variant:
            return w * (1 - decay) - x
        return w * (1 - RATE * decay) - RATE * x

    values = {
        "defaultLearningRate": (RATE, True),
        "defaultWeightDecay": (0.01, True),
        "defaultAlpha": (0.9, False),
        "defaultEps": (1e-3, True),
        "defaultMomentum": (momentum, True),
    }
    return popart.Adaptive(values, mode, rmsprop_tf_variant=tf_variant), update


for mode in popart.AdaptiveMode:
    OPTIMIZERS[mode.name] = adaptive(mode)
OPTIMIZERS["RMSProp with momentum"] = adaptive(popart.AdaptiveMode.RMSProp, 0.9)
OPTIMIZERS["RMSProp of TensorFlow"] = adaptive(popart.AdaptiveMode.RMSProp, 0.9, True)
OPTIMIZERS["centered RMSProp of TensorFlow"] = adaptive(
    popart.AdaptiveMode.CenteredRMSProp, tf_variant=True
)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_follow_their_formulas(name):
    optimizer, update = OPTIMIZERS[name]
    trained, _, data = train(optimizer)
    np.testing.assert_allclose(trained, reference(update, data), 1e-5, 1e-5)


@pytest.mark.parametrize("batches, micro, replicas", [(2, 1, 1), (1, 3, 1), (2, 2, 2), (1, 1, 4)])
@pytest.mark.parametrize("mean", [False, True])
def test_accumulation_and_replicas_are_one_large_batch(batches, micro, replicas, mean):
    optimizer, update = sgd(0.9, 0.01)
    options = popart.SessionOptions()
    if mean:
        options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    trained, results, data = train(optimizer, batches, micro, replicas, options=options)
    np.testing.assert_allclose(trained, reference(update, data, mean=mean), 1e-5, 1e-5)
    shape = tuple(size for size in (batches, micro, replicas) if size > 1)
    assert results["L1:0"].shape == shape
    assert results["MatMul:0"].shape == (*((replicas,) if replicas > 1 else ()), 2, 4)


def test_a_running_mean_is_the_mean():
    optimizer, update = sgd()
    options = popart.SessionOptions()
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    strategy = popart.MeanReductionStrategy.Running
    options.meanAccumulationAndReplicationReductionStrategy = strategy
    trained, _, data = train(optimizer, micro=3, replicas=2, options=options)
    np.testing.assert_allclose(trained, reference(update, data, mean=True), 1e-5, 1e-5)


def test_anchors_of_inputs_weights_and_gradients():
    anchors = {
        "x": art("EveryN", 2),
        "w": art("Final"),
        "Gradient___w": art("All"),
        "MatMul:0": art("Sum"),
        "L1:0": art("Final"),
    }
    optimizer, update = sgd()
    trained, results, data = train(optimizer, batches=2, steps=1, anchors=anchors)
    samples = data.reshape(2, 2, 3)
    np.testing.assert_array_equal(results["x"], samples[1])
    np.testing.assert_array_equal(results["w"], trained)
    between = reference(update, data[:1], steps=1)
    gradients = [0.4 * x.T @ np.sign(x @ w) for x, w in zip(samples, (W, between))]
    np.testing.assert_allclose(results["Gradient___w"], gradients, 1e-5, 1e-5)
    products = [samples[0] @ W, samples[1] @ between]
    np.testing.assert_allclose(results["MatMul:0"], sum(products), 1e-5, 1e-5)
    np.testing.assert_allclose(results["L1:0"], 0.1 * np.abs(products[1]).sum(), 1e-5)


@pytest.mark.parametrize("micro, replicas", [(0, 2), (1, 1), (2, 2)])
def test_anchors_are_of_before_and_after_updates(micro, replicas):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    start = np.array([1, 2], np.float32)
    w = builder.addInitializedInputTensor(start, "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = micro > 0, max(1, micro)
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    accumulated = ["Accum___w"] if micro else []
    anchors = ["UpdatedVar___w", "Gradient___x", *accumulated]
    optimizer = popart.SGD({"defaultLearningRate": (1.0, True)})
    shape = (2, max(1, micro), replicas, 2)
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with popart_models.device(replicas) as device:
        model = builder.getModelProto()
        session = popart_models.trainer(model, loss, device, optimizer, anchors, options, 2)
        found = popart_models.run(session, {"x": data})
    updated, gradient, *totals = (found[name].reshape(shape) for name in anchors)
    second = start - data[0].sum((0, 1))
    before = np.broadcast_to(np.stack([start, second])[:, np.newaxis, np.newaxis], shape)
    np.testing.assert_array_equal(gradient, before)
    # With several micro-batches an anchor is of before the update that follows the last one.
    after = before if micro > 1 else np.stack([second, second - data[1].sum((0, 1))])
    if micro <= 1:
        after = np.broadcast_to(after[:, np.newaxis, np.newaxis], shape)
    np.testing.assert_array_equal(updated, after)
    for total in totals:
        np.testing.assert_array_equal(total[0, -1], data[0].sum(0))


def test_states_of_weights_with_several_values_are_anchored():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    group = popart.CommGroup(popart.CommGroupType.Ungrouped, 1)
    start = np.array([[1, 2], [3, 4]], np.float32)
    w = builder.addInitializedInputTensor(start, popart.VariableSettings(group), "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])])
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    with popart_models.device(2) as device:
        anchors = ["Step___w", "UpdatedVar___w"]
        session = popart_models.trainer(
            builder.getModelProto(), loss, device, popart.Adam({}), anchors, options
        )
        found = popart_models.run(session, {"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(found["Step___w"], [1, 1])
    np.testing.assert_allclose(found["UpdatedVar___w"], start - 0.1, 1e-5)
