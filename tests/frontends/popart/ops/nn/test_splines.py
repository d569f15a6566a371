"""B-splines against the recursion of Cox and de Boor, and sums over all products."""

from __future__ import annotations

import itertools

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

PSEUDO = np.array([[0.1, 0.7], [0.45, 0.2], [0.9, 0.5]], np.float32)
SIZES, OPEN = np.array([4, 5], np.int32), np.array([1, 0], np.uint8)


def cox_de_boor(degree, x):
    """The uniform B-spline of a degree, which begins at 0."""
    if degree == 0:
        return float(0 <= x < 1)
    former = cox_de_boor(degree - 1, x), cox_de_boor(degree - 1, x - 1)
    return (x * former[0] + (degree + 1 - x) * former[1]) / degree


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_bases_and_weighted_sums(degree):
    weights = np.random.RandomState(0).randn(20, 2, 3).astype(np.float32)
    x = np.random.RandomState(1).randn(3, 2).astype(np.float32)
    builder = popart.Builder()
    ids = [builder.addInputTensor(popart.TensorInfo(array)) for array in (PSEUDO, x, weights)]
    others = [builder.aiOnnx.constant(array) for array in (SIZES, OPEN)]
    basis, index = builder.aiGraphcore.splinebasis([ids[0], *others], degree)
    y = builder.aiGraphcore.splineweighting([ids[1], ids[2], basis, index])
    data = dict(zip(ids, (PSEUDO, x, weights)))
    found = popart_models.infer(builder.getModelProto(), data, [basis, index, y])
    wanted, places = np.zeros((3, (degree + 1) ** 2)), np.zeros((3, (degree + 1) ** 2), int)
    for e, s in itertools.product(range(3), range((degree + 1) ** 2)):
        digits = s % (degree + 1), s // (degree + 1)
        wanted[e, s], stride = 1, 1
        for d, k in enumerate(digits):
            v = PSEUDO[e, d] * (SIZES[d] - degree * OPEN[d])
            wanted[e, s] *= cox_de_boor(degree, degree - k + v - np.floor(v))
            places[e, s] += (int(v) + k) % SIZES[d] * stride
            stride *= SIZES[d]
    np.testing.assert_allclose(found[basis], wanted, 1e-4, 1e-6)
    np.testing.assert_array_equal(found[index], places)
    sums = np.einsum("es,esio,ei->eo", wanted, weights[places], x)
    np.testing.assert_allclose(found[y], sums, 1e-4, 1e-5)


def test_ranks_and_degrees_are_checked():
    builder = popart.Builder()
    pseudo, sizes = builder.addInputTensor("FLOAT", [3, 2]), builder.addInputTensor("INT32", [2])
    is_open = builder.addInputTensor("UINT8", [2])
    for inputs, degree, message in (
        ([pseudo, sizes, is_open], 4, "degrees 0 to 3"),
        ([sizes, sizes, is_open], 1, "ranks 2, 1 and 1"),
    ):
        output = builder.aiGraphcore.splinebasis(inputs, degree)[0]
        with pytest.raises(popart.popart_exception, match=message):
            popart_models.infer(builder.getModelProto(), {}, [output])
