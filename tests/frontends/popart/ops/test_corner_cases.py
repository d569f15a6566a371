"""Values of ops where types, shapes and sizes are unusual, all in one program."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

F32 = np.float32
X = np.random.RandomState(0).randn(5, 2, 3).astype(F32)
SQUARE = np.arange(4, dtype=F32).reshape(1, 1, 2, 2)
HALVES = np.arange(6, dtype=np.float16).reshape(2, 3)
ODD = np.array([np.nan, np.inf, -np.inf, 2.0, 3.0], F32)
THIRD = np.array([1 / 3], F32)


def constant(builder, array):
    return builder.aiOnnx.constant(np.asarray(array))


def transposed(auto_pad=None):
    def add(b, x, w):
        made = b.aiOnnx.convtranspose([x, w], output_shape=[2, 2])
        if auto_pad:
            b.addNodeAttribute("auto_pad", auto_pad, {made})
        return made

    return add


# Name: what adds the op, its inputs, and the result.
CASES = {
    "incrementmod of uint32": (
        lambda b, x: b.aiGraphcore.incrementmod([x], 2, 5),
        [np.array([2, 3, 4000000000], np.uint32)],
        [4, 0, 2],
    ),
    "incrementmod of negatives": (
        lambda b, x: b.aiGraphcore.incrementmod([x], -2.0, 3.0),
        [np.array([-7, 1, 6], np.int32)],
        [0, -1, 1],
    ),
    **{
        f"bucketize, right={right}": (
            lambda b, x, right=right: b.aiGraphcore.bucketize([x, constant(b, F32([2]))], right),
            [ODD],
            [1, 1, 0, right, 1],
        )
        for right in (0, 1)
    },
    "mul of halves and a float": (
        lambda b, x, y: b.aiOnnx.mul([x, y]),
        [HALVES, THIRD],
        HALVES * THIRD.astype(np.float16),
    ),
    "mul of a float and halves": (
        lambda b, x, y: b.aiOnnx.mul([y, x]),
        [HALVES, THIRD[0]],
        HALVES * THIRD.astype(np.float16),
    ),
    "scatter with fewer indices": (
        lambda b, x, u: b.aiOnnx.scatter([x, constant(b, [[0, 1, 2, 0]]), u]),
        [np.zeros((3, 5), F32), np.arange(10, dtype=F32).reshape(2, 5)],
        [[0, 0, 0, 3, 0], [0, 1, 0, 0, 0], [0, 0, 2, 0, 0]],
    ),
    "resize to five sixths": (
        lambda b, x: b.aiOnnx.shape([b.aiOnnx.resize([x, constant(b, F32([5 / 6]))])]),
        [np.zeros(6, F32)],
        [5],
    ),
    "resize to seven tenths": (
        lambda b, x: b.aiOnnx.shape([b.aiOnnx.resize([x, constant(b, F32([0.7]))])]),
        [np.zeros(10, F32)],
        [7],
    ),
    "convtranspose, first part": (transposed(), [SQUARE, SQUARE], [[[[0, 0], [0, 4]]]]),
    "convtranspose, last part": (
        transposed("SAME_UPPER"),
        [SQUARE, SQUARE],
        [[[[4, 6], [12, 9]]]],
    ),
    "sort along the first axis": (
        lambda b, x: b.aiGraphcore.sort([x], 0)[0],
        [X],
        np.sort(X, 0),
    ),
    "positions of a descending sort": (
        lambda b, x: b.aiGraphcore.sort([x], 1, 1)[1],
        [X],
        np.argsort(-X, 1),
    ),
    "update by a slice without its axis": (
        lambda b, x, s: b.aiGraphcore.dynamicupdate(
            [x, constant(b, np.array([1], np.uint32)), s], [0], [1]
        ),
        [X, X[0]],
        np.concatenate([X[:1], X[:1], X[2:]]),
    ),
    "empty slice": (lambda b, x: b.aiGraphcore.slice([x], [1], [1], [0]), [X], X[1:1]),
    "empty gather": (
        lambda b, x: b.aiOnnx.gather([x, constant(b, np.zeros(0, np.int32))]),
        [X],
        X[:0],
    ),
    "empty input": (lambda b, x: b.aiOnnx.relu([x]), [X[:0]], X[:0]),
    "normalization of nothing": (
        lambda b, x, c: b.aiOnnx.batchnormalization([x, c, c, c, c], 1)[0],
        [np.zeros((0, 0, 0, 0), F32), np.zeros(0, F32)],
        np.zeros((0, 0, 0, 0)),
    ),
}


def test_results_are_those_of_the_original():
    builder = popart.Builder()
    data, outputs = {}, {}
    for name, (add, arrays, _) in CASES.items():
        ids = [builder.addInputTensor(popart.TensorInfo(np.asarray(a))) for a in arrays]
        data.update(zip(ids, arrays))
        outputs[name] = add(builder, *ids)
    found = popart_models.infer(builder.getModelProto(), data, outputs.values())
    for name, output in outputs.items():
        expected = np.asarray(CASES[name][2])
        assert found[output].shape == expected.shape, name
        np.testing.assert_allclose(found[output], expected, 1e-6, err_msg=name)
        if name.startswith("mul"):
            assert found[output].dtype == np.float16, name


def test_two_types_of_many_elements_are_refused():
    builder = popart.Builder()
    x, y = builder.addInputTensor("FLOAT16", [2, 2]), builder.addInputTensor("FLOAT", [2, 2])
    z = builder.aiOnnx.mul([x, y])
    message = r"incompatible types FLOAT16 and FLOAT \(shapes \[2 2\] and \[2 2\]\)"
    with pytest.raises(popart.popart_exception, match=message):
        popart_models.infer(builder.getModelProto(), {}, [z])


@pytest.mark.parametrize("dtype", ["INT32", "UINT32", "BOOL"])
def test_compiling_refuses_types_that_sessions_take(dtype):
    builder = popart.Builder()
    y = builder.aiOnnx.sqrt([builder.addInputTensor(dtype, [2])])
    with popart_models.device() as device:
        flow = popart.DataFlow(1, [y])
        session = popart.InferenceSession(builder.getModelProto(), flow, device)
        with pytest.raises(popart.poplar_exception, match=f"Sqrt does not take {dtype}"):
            session.prepareDevice()
