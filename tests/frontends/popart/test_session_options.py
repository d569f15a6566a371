"""Effects of session options: values, plans, warnings and errors."""

from __future__ import annotations

import logging

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support.checkout.versions import has_tensorflow
from tests.support.popart import popart_models
from tests.support.popart import popart_training as models
from tests.support.popart.popart_training import Trained


def options(**values):
    made = popart.SessionOptions()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def pipelined(**values):
    mode = popart.VirtualGraphMode.Manual
    return options(virtualGraphMode=mode, enablePipelining=True, **values)


def infer(build, arrays, **values):
    """Runs a model of one node, of float16 inputs; returns the session's executable too."""
    builder = popart.Builder()
    names = [builder.addInputTensor(popart.TensorInfo(array)) for array in arrays]
    result = build(builder, names)
    with popart_models.device() as device:
        session = popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, [result]),
            device,
            userOptions=options(**values),
        )
        session.prepareDevice()
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO(dict(zip(names, arrays)), results))
        return results[result], session._program.executable


def test_options_that_are_ignored_are_said_once(caplog):
    with caplog.at_level(logging.WARNING):
        Trained(popart.SGD({}), options=options(enableMergeExchange=False)).close()
    said = [r.getMessage() for r in caplog.records if "SessionOptions." in r.getMessage()]
    assert len(said) == 1 and "enableMergeExchange" in said[0]


def test_former_names_of_options_lead_to_new_ones():
    made = popart.SessionOptions()
    made.defaultPrefetchBufferingDepth = 3
    made.prefetchBufferingDepthMap = {"x": 2}
    assert made.defaultBufferingDepth == 3 and made.bufferingDepthMap == {"x": 2}


def test_loss_scale_can_be_larger_than_float16_holds():
    scale = 2.0**17
    optimizer = popart.SGD({"defaultLearningRate": (0.5, False), "lossScaling": (scale, True)})
    chosen = options(ensureFp32LossScaleTensor=True)
    anchors = {"Gradient___w2": popart.AnchorReturnType("All")}
    arguments = {"options": chosen, "dtype": np.float16, "anchors": anchors}
    with Trained(optimizer, **arguments) as trained:
        weights = {n: w.astype(np.float16).astype(float) for n, w in models.start().items()}
        expected = models.summed(weights, trained.data.astype(float))["w2"]
        trained.run()
        found = trained.results["Gradient___w2"].astype(float) / scale
        np.testing.assert_allclose(found, expected, 5e-3, 5e-3)
        read = trained.read(w2=np.empty((4, 2), np.float16))["w2"]
        np.testing.assert_allclose(read, weights["w2"] - 0.5 * expected, 5e-3, 5e-3)


def test_options_reach_the_plan():
    chosen = options(
        autoRecomputation=popart.RecomputationType.Standard,
        enableOutlining=False,
        enablePrefetchDatastreams=False,
        numIOTiles=32,
    )
    chosen.matmulOptions["availableMemoryProportion"] = "0.25"
    with Trained(popart.SGD({}), options=chosen) as trained:
        settings = trained.session._program.executable.settings
        assert settings.recompute and not settings.outlining and not settings.prefetch
        assert (settings.io_tiles, settings.matmul_proportion) == (32, 0.25)
        found = models.summed(models.start(), trained.data)
        read = trained.run().read()
        np.testing.assert_allclose(read["w1"], models.start()["w1"] - 0.1 * found["w1"], 1e-5, 1e-5)


@pytest.mark.parametrize("by_node", [False, True])
def test_half_partials_are_those_of_the_kernel(by_node):
    """TensorFlow 2.15's loses small products; later ones need not."""
    left = np.full((1, 4096), 1.0, np.float16)
    right = np.concatenate([np.full((1, 1), 2048.0), np.full((4095, 1), 0.5)]).astype(np.float16)

    def build(builder, names):
        result = builder.aiOnnx.matmul(names)
        if by_node:
            builder.setPartialsType(result, "HALF")
        return result

    values = {} if by_node else {"partialsTypeMatMuls": "half"}
    found, executable = infer(build, [left, right], **values)
    wide, _ = infer(lambda builder, names: builder.aiOnnx.matmul(names), [left, right])
    assert wide[0, 0] == np.float16(2048 + 4095 / 2)
    with tf.device("/device:CPU:0"):
        kernel = tf.matmul(left, right).numpy()
    assert found[0, 0] == kernel[0, 0]
    if has_tensorflow("<2.16"):
        assert found[0, 0] != wide[0, 0]
    assert by_node or executable.settings.matmul_partials == "float16"


@pytest.mark.parametrize("mode", ["Zeros", "RandomNormal", "RandomUniform"])
def test_synthetic_data_take_the_place_of_all_transfers(mode):
    chosen = options(syntheticDataMode=popart.SyntheticDataMode.__members__[mode])
    with Trained(popart.SGD({}), 2, options=chosen) as trained:
        trained.results["L1:0"][:] = 7
        before = trained.read()
        trained.session.run(popart.PyStepIO({}, trained.results))
        np.testing.assert_array_equal(trained.results["L1:0"], 7)
        for name, value in trained.read().items():
            np.testing.assert_array_equal(value, before[name])
        ops = {op.type for op in trained.workload.ops}
        assert "MatMul" in ops and "IpuInfeedDequeue" not in ops


def test_synthetic_integers_are_of_all_their_range(capfd):
    """Prints of them have no limits where these are 0, and come in the order of the nodes."""
    builder = popart.Builder()
    for dtype in ("UINT8", "INT8", "BOOL"):
        x = builder.addInputTensor(dtype, [4000])
        layout = {"summariseThreshold": 0, "maxLineWidth": 0}
        y = builder.aiGraphcore.printtensor([x], title=dtype, **layout)
    chosen = options(syntheticDataMode=popart.SyntheticDataMode.RandomUniform)
    popart_models.infer(builder.getModelProto(), {}, [y], chosen)
    lines = [line for line in capfd.readouterr().err.splitlines() if ": [" in line]
    found = {}
    for line in lines:
        name, _, text = line.partition(": [")
        found[name] = np.array([int(number) for number in text.rstrip("]").split()])
    assert list(found) == ["UINT8", "INT8", "BOOL"]
    for name, least, most in (("UINT8", 0, 255), ("INT8", -127, 127), ("BOOL", 0, 1)):
        assert len(found[name]) == 4000
        assert (found[name].min(), found[name].max()) == (least, most)
    assert 0.45 < found["BOOL"].mean() < 0.55


@pytest.mark.parametrize("value, is_stopped", [(0.0, True), (np.inf, True), (1.0, False)])
def test_floating_point_events_stop_a_run(value, is_stopped):
    arrays = [np.array([1.0, 2.0], np.float32), np.array([1.0, value], np.float32)]

    def run():
        build = (lambda b, n: b.aiOnnx.div(n)) if value == 0 else (lambda b, n: b.aiOnnx.sub(n))
        arrays[0][1] = value if np.isinf(value) else 2.0
        return infer(build, arrays, enableFloatingPointChecks=True)[0]

    if is_stopped:
        with pytest.raises(popart.poplar_application_runtime_error, match="excepted state"):
            run()
    else:
        np.testing.assert_array_equal(run(), [0, 1])


def test_forward_passes_of_pipeline_are_own_program():
    chosen = pipelined(createImplicitPipeliningFwdOnlyProgram=True)
    anchors = {name: popart.AnchorReturnType("All") for name in ("L1:0", "Gradient___w2")}
    with Trained(popart.SGD({}), 2, 3, options=chosen, stages=[0, 1], anchors=anchors) as trained:
        stepio = popart.PyStepIO({"x": trained.data}, trained.results)
        before = trained.read()
        trained.session.run("implicitPipeliningFwdOnly", stepio)
        for name, value in trained.read().items():
            np.testing.assert_array_equal(value, before[name])
        hidden = np.tanh(trained.data @ before["w1"])
        losses = 0.1 * np.abs(hidden @ before["w2"]).sum((2, 3, 4))
        np.testing.assert_allclose(trained.results["L1:0"], losses, 1e-5)
        trained.run()
        trained.session.run("implicitPipeliningFwdOnly", stepio)
        after = trained.read()
        losses = 0.1 * np.abs(np.tanh(trained.data @ after["w1"]) @ after["w2"]).sum((2, 3, 4))
        np.testing.assert_allclose(trained.results["L1:0"], losses, 1e-5)
        with pytest.raises(popart.popart_exception, match="Program other not found"):
            trained.session.run("other", stepio)


LOOP = popart.BatchSerializationSettings(2, True, True, True)
LOOP.method = popart.BatchSerializationMethod.Loop


@pytest.mark.parametrize(
    "values, message",
    [
        ({"enableExplicitMainLoops": True}, "enableExplicitMainLoops requires useHostCopyOps"),
        ({"aliasZeroCopy": True}, "requires explicitRecomputation"),
        ({"defaultBufferingDepth": 0}, "minimum buffering depth is 1"),
        ({"bufferingDepthMap": {"x": 2}, "rearrangeStreamsOnHost": True}, "rearranged on the host"),
        ({"batchSerializationSettings": LOOP}, "transformContext"),
        ({"createImplicitPipeliningFwdOnlyProgram": True}, "implicit pipelining"),
        ({"partialsTypeMatMuls": "double"}, "Bad MatMulPartialsType"),
        ({"accumulationFactor": 2}, "enableGradientAccumulation is false, but accumulationFactor"),
        (
            {"matmulOptions": {"availableMemoryProportion": "2"}},
            "availableMemoryProportion in SessionOptions.matmulOptions",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(values, message):
    with pytest.raises(popart.popart_exception, match=message):
        Trained(popart.SGD({}), options=options(**values))


@pytest.mark.parametrize(
    "strategy, message",
    [("OverlapStep", "not yet supported"), ("OverlapLoops", "require SessionOptions::useHostCopy")],
)
def test_transfers_beside_computation_need_their_options(strategy, message):
    kind = popart.ExchangeStrategy.__members__[strategy]
    art = popart.AnchorReturnType("All", popart.TileSet.IO, kind)
    with pytest.raises(popart.popart_exception, match=message):
        Trained(popart.SGD({}), anchors={"L1:0": art})


def test_options_of_the_engine_have_known_names():
    chosen = options()
    chosen.engineOptions["colour"] = "red"
    with pytest.raises(popart.poplar_exception, match=r"Unrecognised option 'colour'$"):
        Trained(popart.SGD({}), options=chosen)
