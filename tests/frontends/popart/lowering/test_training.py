"""Updates of weights against their formulas: numbers that change, clip norms, loss scales."""

from __future__ import annotations

import numpy as np
import onnx
import popart
import pytest
from onnx import numpy_helper

from tests.support.popart import popart_models
from tests.support.popart import popart_training as models
from tests.support.popart.popart_training import Trained

SEPARATE = popart.SGDAccumulatorAndMomentum.Separate
CHANGES = [(0.1, 0.9, 0.01, 1.0), (0.05, 0.8, 0.02, 8.0)]


def sgd(rate=0.1, momentum=0.0, decay=0.0, scaling=1.0, const=False, **arguments):
    values = {
        "defaultLearningRate": (rate, const),
        "defaultMomentum": (momentum, const),
        "defaultWeightDecay": (decay, const),
        "defaultDampening": (0.1, const),
        "defaultVelocityScaling": (2.0, const),
        "lossScaling": (scaling, const),
    }
    return popart.SGD(values, **arguments)


def wide(dtype=np.float64):
    return {name: value.astype(dtype) for name, value in models.start().items()}


@pytest.mark.parametrize("separate", [False, True])
def test_momentum_follows_numbers_that_change(separate):
    mode = {"accumulatorAndMomentum": SEPARATE} if separate else {}
    weights = wide()
    rate, momentum, decay, _ = CHANGES[0]
    kept = {n: 0.0 if separate else 0.9 * decay * 2 * w for n, w in weights.items()}
    with Trained(sgd(*CHANGES[0], **mode), micro=2) as trained:
        for number, change in enumerate([CHANGES[0], CHANGES[1], CHANGES[1]]):
            rate, momentum, decay, _ = change
            if number:
                trained.session.updateOptimizerFromHost(sgd(*change, **mode))
            trained.run()
            found = models.summed(weights, trained.data)
            for name in weights:
                if separate:
                    kept[name] = momentum * kept[name] + 0.9 * 2 * (
                        decay * weights[name] + found[name]
                    )
                else:
                    kept[name] = kept[name] + 0.9 * 2 * found[name]
                weights[name] = weights[name] - rate / 2 * kept[name]
                if not separate:  # the last line of the update has the numbers of this batch
                    kept[name] = momentum * kept[name] + 0.9 * decay * 2 * weights[name]
        for name, value in trained.read().items():
            np.testing.assert_allclose(value, weights[name], 1e-5, 1e-5)
        state = "Accl1___w1" if separate else "Accl___w1"
        velocity = trained.read(**{state: np.empty((3, 4), np.float32)})[state]
        np.testing.assert_allclose(velocity, kept["w1"], 1e-5, 1e-5)


def test_weights_have_numbers_of_their_own():
    optimizer = sgd(const=True)
    optimizer.insertSpecific("w1", {"learningRate": (0.5, False), "dampening": (0.0, True)})
    with Trained(optimizer) as trained:
        assert "scaledLearningRate0___specific___w1" in trained.session.getTensorIds()
        weights = wide()
        for rate in (0.5, 0.25):
            new = sgd(const=True)
            new.insertSpecific("w1", {"learningRate": (rate, False), "dampening": (0.0, True)})
            trained.session.updateOptimizerFromHost(new)
            trained.run()
            found = models.summed(weights, trained.data)
            weights["w1"] = weights["w1"] - rate * found["w1"]
            weights["w2"] = weights["w2"] - 0.1 * 0.9 * found["w2"]
        for name, value in trained.read().items():
            np.testing.assert_allclose(value, weights[name], 1e-5, 1e-5)


def clipped(found, most, groups):
    """Tensors by name, multiplied so that the norm of no group is above `most`."""
    factors = {}
    for group in groups:
        norm = np.sqrt(sum((found[name] ** 2).sum() for name in group))
        factors.update(dict.fromkeys(group, most / max(norm, most)))
    return {name: value * factors.get(name, 1.0) for name, value in found.items()}


@pytest.mark.parametrize("groups", [None, (("w1",), ("w2",)), (("w2",),)])
def test_gradients_are_clipped_by_norm_of_their_group(groups):
    settings = popart.ClipNormSettings
    if groups is None:
        chosen, groups = [settings.clipAllWeights(0.4)], (("w1", "w2"),)
    else:
        chosen = [settings.clipWeights(list(group), 0.4) for group in groups]
    optimizer = popart.SGD({"defaultLearningRate": (0.1, True), "lossScaling": (4.0, True)}, chosen)
    with Trained(optimizer, replicas=2, micro=2) as trained:
        trained.run(2)
        weights = wide()
        for _ in range(2):
            found = models.summed(weights, trained.data)
            # The norm is that of the gradient of the scaled loss.
            moved = clipped({n: 4 * g for n, g in found.items()}, 0.4, groups)
            weights = {name: w - 0.1 / 4 * moved[name] for name, w in weights.items()}
        for name, value in trained.read().items():
            np.testing.assert_allclose(value, weights[name], 1e-5, 1e-5)


@pytest.mark.parametrize("kind", ["velocity", "Adam"])
def test_velocities_and_unscaled_gradients_are_clipped(kind):
    chosen = [popart.ClipNormSettings.clipAllWeights(0.3)]
    if kind == "Adam":
        numbers = {"defaultWeightDecay": (0.01, True), "lossScaling": (8.0, False)}
        mode = popart.WeightDecayMode.L2Regularization
        optimizer = popart.Adam(
            numbers, popart.AdamMode.AdamNoBias, mode, clip_norm_settings=chosen
        )
    else:
        numbers = {"defaultMomentum": (0.9, True), "lossScaling": (8.0, True)}
        optimizer = popart.SGD(numbers, chosen, SEPARATE)
    with Trained(optimizer) as trained:
        trained.run(2)
        weights = wide()
        first, second = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
        for _ in range(2):
            found = models.summed(weights, trained.data)
            if kind == "velocity":
                first = {n: 0.9 * first[n] + found[n] for n in weights}
                moved = clipped(first, 0.3, [("w1", "w2")])
            else:
                decayed = {n: found[n] + 0.01 * weights[n] for n in weights}
                found = clipped(decayed, 0.3, [("w1", "w2")])
                first = {n: 0.9 * first[n] + 0.1 * found[n] for n in weights}
                second = {n: 0.999 * second[n] + 0.001 * found[n] ** 2 for n in weights}
                moved = {n: first[n] / (np.sqrt(second[n]) + 1e-6) for n in weights}
            weights = {n: w - 0.1 * moved[n] for n, w in weights.items()}
        for name, value in trained.read().items():
            np.testing.assert_allclose(value, weights[name], 1e-4, 1e-4)


def test_clip_groups_have_disjoint_trained_weights():
    every = popart.ClipNormSettings.clipAllWeights(1.0)
    some = popart.ClipNormSettings.clipWeights(["w1"], 1.0)
    for settings, message in (
        ([every, some], "Multiple clip groups specified"),
        ([popart.ClipNormSettings.clipWeights(["x"], 1.0)], "Could not find a varupdate op"),
    ):
        with pytest.raises(popart.popart_exception, match=message):
            Trained(popart.SGD({}, settings))


@pytest.mark.parametrize("mode", [popart.AdamMode.Adam, popart.AdamMode.AdaMax])
@pytest.mark.parametrize("decay", list(popart.WeightDecayMode.__members__.values()))
def test_a_scaled_state_changes_no_weights(mode, decay):
    def adam(scaling, is_scaled):
        numbers = {"defaultWeightDecay": (0.1, True), "lossScaling": (scaling, False)}
        return popart.Adam(numbers, mode, decay, scaled_optimizer_state=is_scaled)

    found = []
    for is_scaled in (False, True):
        with Trained(adam(4.0, is_scaled)) as trained:
            trained.run()
            trained.session.updateOptimizerFromHost(adam(16.0, is_scaled))
            found.append(trained.run(2).read())
            moment = trained.read(Accl1___w1=np.empty((3, 4), np.float32))["Accl1___w1"]
            found[-1]["moment"] = moment / (16 if is_scaled else 1)
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], 1e-5, 1e-6)


def test_small_scaled_gradients_survive_in_float16():
    optimizer = popart.SGD(
        {"defaultLearningRate": (0.5, False), "lossScaling": (4096.0, True)},
        accumType=popart.DataType.FLOAT,
    )
    with Trained(optimizer, micro=2, dtype=np.float16) as trained:
        info = trained.session.getInfo("Accum___w1")
        assert info.dataType() is popart.DataType.FLOAT
        trained.run()
        weights = {n: w.astype(np.float16).astype(np.float64) for n, w in models.start().items()}
        found = models.summed(weights, trained.data.astype(np.float64))
        arrays = {name: np.empty(w.shape, np.float16) for name, w in weights.items()}
        for name, value in trained.read(**arrays).items():
            np.testing.assert_allclose(value, weights[name] - 0.5 * found[name], 5e-3, 5e-3)


def scaled_options(**arguments):
    options = popart.SessionOptions()
    options.automaticLossScalingSettings = popart.AutomaticLossScalingSettings(True, **arguments)
    return options


def test_a_loss_scale_follows_the_gradients():
    optimizer = popart.SGD({"defaultLearningRate": (1e-3, True), "lossScaling": (2.0, False)})
    names = ("L1:0", "Gradient___w2", "finalLossScale", "Accum___autoLossScaleStats")
    anchors = {name: popart.AnchorReturnType("All") for name in names}
    # The edge is at 6.55: the gradients pass it when the scale has grown.
    options = scaled_options(binEdgeLocation=1e-4, thresholdUpperCountProportion=0.0)
    arguments = {"options": options, "anchors": anchors, "dtype": np.float16}
    with Trained(optimizer, 8, 2, 2, **arguments) as trained:
        trained.run()
        sent = trained.results["Gradient___w2"].astype(np.float64)
        weights = {n: w.astype(np.float64) for n, w in models.start().items()}
        scales = []
        for batch, of_batch in zip(trained.data.astype(np.float64), sent):
            one = models.gradients(weights, batch[0, 0])["w2"]
            scales.append(round(float((of_batch[0, 0] * one).sum() / (one**2).sum())))
        # Each batch doubles the scale, or halves it after one with large gradients.
        powers = [int(2 ** round(np.log2(scale))) for scale in scales]
        assert powers[:3] == [2, 4, 8]
        steps = [b / a for a, b in zip(powers, powers[1:])]
        assert set(steps) <= {0.5, 2.0} and 0.5 in steps
        sent = trained.results["finalLossScale"]
        assert sent.shape == (8, 2, 2) and sent.dtype == np.float32
        assert (sent == np.array(powers)[:, None, None]).all()
        counts = trained.results["Accum___autoLossScaleStats"]
        assert counts.shape == (8, 2, 2, 2)
        np.testing.assert_array_equal(counts.sum(-1)[:, 1], 2 * counts.sum(-1)[:, 0])
        assert (np.diff(counts, axis=1) >= 0).all() and (counts[0, 0].sum(-1) > 0).all()
        factor = trained.session._program.loaded.variables["lossScaleUpdateFactor"].numpy()
        assert factor * 2 in (powers[-1] / 2, powers[-1] * 2)


def test_saved_model_continues_loss_scale_period(tmp_path):
    optimizer = popart.SGD({"lossScaling": (2.0, False)})
    anchors = {"finalLossScale": popart.AnchorReturnType("All")}
    arguments = {"options": scaled_options(updatePeriod=3), "dtype": np.float16}
    path = str(tmp_path / "model.onnx")
    with Trained(optimizer, 4, anchors=anchors, **arguments) as trained:
        trained.run()
        assert trained.results["finalLossScale"].tolist() == [2, 2, 2, 4]
        trained.session.modelToHost(path)
        (counter,) = (t for t in onnx.load(path).graph.initializer if t.name.endswith("_counter"))
        assert "Histogram" in counter.name and numpy_helper.to_array(counter) == 1
        assert counter.data_type == onnx.TensorProto.INT32
        session = popart.TrainingSession(
            path,
            popart.DataFlow(4, anchors),
            "L1:0",
            optimizer,
            trained.device,
            userOptions=arguments["options"],
        )
        session.prepareDevice()
        session.weightsFromHost()
        found = popart_models.run(session, {"x": trained.data})
        assert found["finalLossScale"].tolist() == [4, 4, 8, 8]


@pytest.mark.parametrize(
    "arguments, dtype, message",
    [
        ({}, np.float16, "The optimizer must have non-const loss scaling$"),
        ({}, np.float32, "No tracked gradient tensors of type fp16 were found"),
        ({"binEdgeLocation": 2.0}, np.float16, "binEdgeLocation"),
        ({"toTrackTensors": ["x"]}, np.float16, "GradientsOfUserSpecifiedTensors"),
        ({"toTrackTensors": []}, np.float16, "empty"),
        (
            {
                "toTrackTensors": ["no"],
                "gradientTensorTrackingMethod": (
                    popart.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
                ),
            },
            np.float16,
            "do not exist in the model",
        ),
    ],
)
def test_loss_scales_need_gradients_that_can_be_tracked(arguments, dtype, message):
    with pytest.raises(popart.popart_exception, match=message):
        Trained(popart.SGD({}), options=scaled_options(**arguments), dtype=dtype)


def test_optimizers_with_other_tensors_stay_apart():
    error = popart.popart_runtime_error
    with Trained(sgd(momentum=0.9, const=False)) as trained:
        for new, message in (
            (popart.Adam({}), "Can not replace optimizer of type"),
            (popart.SGD({}), "does not require a velocity tensor"),
            (sgd(momentum=0.9, accumulatorAndMomentum=SEPARATE), "accumulatorAndMomentum"),
            (
                sgd(momentum=0.9, const=True),
                "Problem with learning rates. Default value is not a valid replacement",
            ),
            (
                sgd(momentum=0.9, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(1.0)]),
                "Clip norm settings do not match",
            ),
        ):
            with pytest.raises(error, match=message):
                trained.session.updateOptimizerFromHost(new)
