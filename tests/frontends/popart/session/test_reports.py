"""Lines of the log about plans, builders and former options."""

from __future__ import annotations

import json

import numpy as np
import popart
import pytest

CONV = "Planning convolution with a per-tile memory limit of "
TILE = 638976  # bytes of a tile of the Mk2


def prepared(make, trains=False, **options):
    """Prepares a model of one op."""
    builder = popart.Builder()
    out = make(builder)
    chosen = popart.SessionOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    info = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    flow = popart.DataFlow(1, [out])
    if trains:
        loss = builder.aiGraphcore.l1loss([out], 1.0)
        arguments = (builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), info)
        popart.TrainingSession(*arguments, userOptions=chosen).prepareDevice()
    else:
        arguments = (builder.getModelProto(), flow, info)
        popart.InferenceSession(*arguments, userOptions=chosen).prepareDevice()


def conv(builder):
    x = builder.addInputTensor("FLOAT", [1, 2, 4, 4])
    weight = builder.addInitializedInputTensor(np.ones((2, 2, 1, 1), np.float32))
    out = builder.aiOnnx.conv([x, weight])
    builder.setAvailableMemoryProportion(out, 0.3)
    builder.setEnableConvDithering(out, 1)
    return out


def matmul(builder):
    x = builder.addInputTensor("FLOAT", [2, 4])
    weight = builder.addInitializedInputTensor(np.ones((4, 2), np.float32))
    return builder.aiOnnx.matmul([x, weight])


def gather(builder):
    x = builder.addInitializedInputTensor(np.ones((4, 2), np.float32))
    out = builder.aiOnnx.gather([x, builder.addInputTensor("INT32", [2])])
    builder.setAvailableMemoryProportion(out, 0.5)
    return out


@pytest.mark.parametrize(
    ("make", "trains", "options", "counts"),
    [
        (conv, False, {}, {f"{CONV}{int(0.3 * TILE)}": 1, " enableConvDithering 1": 1}),
        (conv, True, {}, {f"{CONV}{int(0.3 * TILE)}": 3, " enableConvDithering 0": 0}),
        (matmul, False, {}, {f"{CONV}{int(0.6 * TILE)}": 1}),
        (
            matmul,
            False,
            {"matmulOptions": {"availableMemoryProportion": "0.1"}},
            {f"{CONV}{int(0.1 * TILE)}": 1},
        ),
        (gather, False, {}, {"availableMemoryProportion=0.5": 1}),
    ],
)
def test_plans_are_logged_with_their_memory(make, trains, options, counts, popart_log, monkeypatch):
    monkeypatch.setenv("POPLIBS_LOG_LEVEL", "DEBUG")
    popart.getLogger().setLevel("OFF")
    prepared(make, trains, **options)
    lines = popart_log()
    assert {phrase: lines.count(phrase) for phrase in counts} == counts
    monkeypatch.setenv("POPLIBS_LOG_LEVEL", "INFO")
    prepared(make, trains, **options)
    assert popart_log() == ""


def test_order_of_nodes_goes_to_a_file(tmp_path):
    prepared(matmul, trains=True, serializedPoprithmsShiftGraphsDir=str(tmp_path / "shift"))
    (path,) = (tmp_path / "shift").iterdir()
    product, loss = json.loads(path.read_text())["ops"]
    assert (product["address"], loss["ins"]) == (0, [0]) and product["ins"] == []


def test_builders_and_former_options_are_logged(popart_log):
    def sigmoid(builder):
        return builder.aiOnnx.sigmoid([builder.aiOnnx.constant(np.ones(2, np.float32))])

    prepared(sigmoid, defaultPrefetchBufferingDepth=3)
    assert popart_log().count(
        "Adding ai.onnx.Sigmoid",
        "No ConstExpr implementation of ai.onnx.Sigmoid",
        "defaultPrefetchBufferingDepth has been deprecated",
    ) == (1, 2, 1)
