"""Ops of the domain ai.graphcore against NumPy."""

from __future__ import annotations

import math

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

F = np.array([[-2.5, -0.5, 0.3], [1.5, 2.5, 4.0]], np.float32)
G = np.array([[1.5, -2.0, 0.7], [-1.5, 2.0, 3.0]], np.float32)
I = np.array([[1, 6, -3], [7, 0, 12]], np.int32)  # noqa: E741
J = np.array([[3, 5, 2], [1, -1, 9]], np.int32)
OFFSET = np.array([1], np.uint32)
ERF = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def away(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def updated(part):
    result = F.copy()
    result[:, 1:2] = part
    return result


S = {"axes": [1], "sizes": [1]}
# Method, inputs, attributes, result.
CASES = [
    ("atan2", [F, G], {}, np.arctan2(F, G)),
    ("fmod", [F, G], {}, np.fmod(F, G)),
    ("remainder", [F, G], {}, np.mod(F, G)),
    ("expm1", [F], {}, np.expm1(F)),
    ("log1p", [abs(F)], {}, np.log1p(abs(F))),
    ("gelu", [F], {}, gelu(F)),
    ("geluerf", [F], {}, 0.5 * F * (1 + ERF(F / np.sqrt(2)))),
    ("swish", [F], {}, F / (1 + np.exp(-F))),
    ("round", [F], {}, away(F)),
    ("nearbyint", [F], {}, np.rint(F)),
    ("scale", [F], {"scale": 3.0}, 3 * F),
    ("scaledadd", [F, G], {"scale0": 2.0, "scale1": 0.5}, 2 * F + 0.5 * G),
    ("nop", [F], {}, F),
    ("detach", [F], {}, F),
    ("tensorremap", [F], {}, F),
    ("incrementmod", [I], {"increment": 4.0, "modulus": 5.0}, np.fmod(I + 4, 5)),
    ("bitwiseand", [I, J], {}, I & J),
    ("bitwiseor", [I, J], {}, I | J),
    ("bitwisexor", [I, J], {}, I ^ J),
    ("bitwisexnor", [I, J], {}, ~(I ^ J)),
    ("bitwisenot", [I], {}, ~I),
    ("bucketize", [F, np.array([-0.5, 1.5], np.float32)], {}, np.array([[0, 0, 1], [1, 2, 2]])),
    ("bucketize", [F, np.array([-0.5, 1.5], np.float32)], {"right": 1}, [[0, 1, 1], [2, 2, 2]]),
    ("reverse", [F], {"dimensions": [1]}, F[:, ::-1]),
    ("subsample", [F], {"strides": [2, 3]}, F[::2, ::3]),
    ("slice", [F], {"ends": [2], "starts": [1], "axes": [0]}, F[1:2]),
    ("dynamicslice", [F, OFFSET], S, F[:, 1:2]),
    ("dynamicupdate", [F, OFFSET, G[:, :1]], S, updated(G[:, :1])),
    ("dynamiczero", [F, OFFSET], S, updated(0)),
    ("dynamicadd", [F, OFFSET, G[:, :1]], S, updated(F[:, 1:2] + G[:, :1])),
    ("groupedgather", [F, I[:, 1:2] * 0 + 1], {"axis": 1, "group_size": 2}, F[:, 1:2]),
    ("identityloss", [F], {}, F.mean()),
    ("l1loss", [F, 2.0], {}, 2 * abs(F).mean()),
    ("sort", [F], {"descending": 1}, -np.sort(-F)),
    ("reducemedian", [F], {"axes": [1], "keepdims": 0}, np.median(F, 1)),
    (
        "depthtospace",
        [np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)],
        {"blocksize": 2, "mode": "DCR"},
        np.arange(4).reshape(1, 1, 2, 2),
    ),
]


@pytest.mark.parametrize("method, inputs, attributes, expected", CASES)
def test_ops_compute_what_numpy_does(method, inputs, attributes, expected):
    builder, data = popart.Builder(), {}
    arrays = [array for array in inputs if isinstance(array, np.ndarray)]
    numbers = [number for number in inputs if not isinstance(number, np.ndarray)]
    for array in arrays:
        data[builder.addInputTensor(popart.TensorInfo(array))] = array
    made = getattr(builder.aiGraphcore, method)(list(data), *numbers, **attributes)
    output = made[0] if isinstance(made, list) else made
    found = popart_models.infer(builder.getModelProto(), data, [output])[output]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    assert builder.getTensorShape(output) in ([*np.shape(expected)], [])


def test_negative_log_likelihood_ignores_an_index():
    probabilities = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]], np.float32)
    labels = np.array([1, 0, 0], np.int32)
    losses = -np.log([0.8, 0.5, 0.9])
    for attributes, expected in (
        ({}, losses.mean()),
        ({"reduction": popart.ReductionType.Sum}, losses.sum()),
        ({"reduction": popart.ReductionType.NoReduction}, losses),
        ({"ignoreIndex": 1}, losses[1:].mean()),
        ({"ignoreIndex": 0}, losses[0]),
    ):
        builder = popart.Builder()
        p = builder.addInputTensor(popart.TensorInfo(probabilities))
        i = builder.addInputTensor(popart.TensorInfo(labels))
        y = builder.aiGraphcore.nllloss([p, i], **attributes)
        found = popart_models.infer(builder.getModelProto(), {p: probabilities, i: labels}, [y])
        np.testing.assert_allclose(found[y], expected, 1e-5)


def test_group_normalization_returns_inverse_deviations():
    x = np.random.RandomState(0).randn(2, 4, 3).astype(np.float32)
    builder = popart.Builder()
    name = builder.addInputTensor(popart.TensorInfo(x))
    weights = [
        builder.addInitializedInputTensor(np.full(4, value, np.float32)) for value in (2.0, 1.0)
    ]
    outputs = builder.aiGraphcore.groupnormalization([name, *weights], 2)
    found = popart_models.infer(builder.getModelProto(), {name: x}, outputs)
    rows = x.reshape(4, -1)
    inverse = 1 / np.sqrt(rows.var(1) + 1e-5)
    normal = (rows - rows.mean(1, keepdims=True)) * inverse[:, None]
    expected = [2 * normal.reshape(x.shape) + 1, rows.mean(1), inverse]
    for output, array in zip(outputs, expected):
        np.testing.assert_allclose(found[output], array, 1e-4, 1e-4)
