"""Reductions by index against loops over all elements."""

from __future__ import annotations

import itertools

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support.popart import popart_models

R = popart.ScatterReduction


COMBINE = {
    R.Sum: (tf.add, 0.0),
    R.Mul: (tf.multiply, 1.0),
    R.Max: (tf.maximum, 0.0),
    R.Min: (tf.minimum, 0.0),
}


def reference(reduction, axis, size):
    """Reduces element by element along an axis."""
    combine, nothing = COMBINE[reduction]

    def computed(source, index, initial=None):
        spread = index.numpy()
        if spread.ndim != len(source.shape):
            spread = np.moveaxis(
                np.broadcast_to(spread, np.moveaxis(source, axis, -1).shape), -1, axis
            )
        shape = [size if i == axis else n for i, n in enumerate(spread.shape)]
        flat: list = [None] * int(np.prod(shape))
        if initial is not None:
            shape, flat = initial.shape, tf.unstack(tf.reshape(initial, [-1]))
        for place in np.ndindex(*spread.shape):
            goal = list(place)
            goal[axis] = spread[place]
            where = np.ravel_multi_index(goal, shape)
            own = source[place]
            flat[where] = own if flat[where] is None else combine(flat[where], own)
        return tf.reshape(tf.stack([nothing if v is None else v for v in flat]), shape)

    return computed


def scattered(*arguments, **attributes):
    return lambda _, own, ids: own.scatterreduce(ids, *arguments, **attributes)


@pytest.mark.parametrize("reduction", COMBINE)
def test_elements_are_reduced_by_index(reduction):
    """With a vector, larger initial values, a full index, and an index that is not broadcast."""
    random = np.random.RandomState(0)
    source = random.permutation(12).reshape(4, 3).astype(np.float32) - 5.5
    vector, whole = np.array([1, 0, 1, 3], np.int32), np.array([[0, 1, 4]] * 4, np.int32)
    part = random.randint(0, 3, (3, 2)).astype(np.int32)
    initial = np.full((6, 4), 4.25, np.float32)
    kept = {"reduction": reduction, "enable_index_broadcast": 0}
    popart_models.check_ops(
        {
            "vector": (
                scattered(5, 0, reduction),
                [source, vector, initial[:5, :3]],
                reference(reduction, 0, 5),
            ),
            "larger initial values": (
                scattered(5, 0, reduction),
                [source, vector, initial],
                reference(reduction, 0, 5),
            ),
            "whole": (scattered(5, -1, reduction), [source, whole], reference(reduction, 1, 5)),
            "corner": (scattered(3, 1, **kept), [source, part], reference(reduction, 1, 3)),
            "corner, larger": (
                scattered(3, 0, **kept),
                [source, part, initial],
                reference(reduction, 0, 3),
            ),
        },
        rtol=1e-3,
    )


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_places_without_an_element_are_zero(dtype):
    builder = popart.Builder()
    data = builder.addInitializedInputTensor(np.array([-3, 5], dtype))
    index = builder.aiOnnx.constant(np.array([0, 2], np.uint32))
    kinds = {R.Max: [-3, 0, 5], R.Min: [-3, 0, 5], R.Sum: [-3, 0, 5], R.NoReduction: [-3, 0, 5]}
    outputs = [builder.aiGraphcore.scatterreduce([data, index], 3, 0, kind) for kind in kinds]
    found = popart_models.infer(builder.getModelProto(), {}, outputs)
    for name, wanted in zip(outputs, kinds.values()):
        assert found[name].tolist() == wanted


def test_groups_are_reduced_by_themselves():
    source = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    index = np.array([[0, 1, 0], [3, 3, 1]], np.int32)

    def wanted(source, index):
        one, two = (
            reference(R.Sum, 0, 4)(s, i) for s, i in zip(tf.unstack(source), tf.unstack(index))
        )
        return tf.stack([one, two])

    popart_models.check_ops(
        {
            f"broadcast={broadcast}": (
                lambda _, own, ids, broadcast=broadcast: own.groupedscatterreduce(
                    ids, 4, 1, group_size=2, enable_index_broadcast=broadcast
                ),
                [source, given],
                function,
            )
            for broadcast, given, function in (
                (1, index, wanted),
                (0, np.stack([index] * 2, -1)[:, :2], reference(R.Sum, 1, 4)),
            )
        }
    )


def test_what_cannot_be_reduced_is_refused():
    source = np.zeros((4, 3), np.float32)
    for index, size, attributes, message in (
        (np.zeros((4, 2), np.int32), 2, {}, r"Failed to expand 'indices' shape \[4, 2\].*Partial"),
        (np.zeros((4, 3, 1), np.int32), 2, {}, "Invalid rank for indices input"),
        (np.zeros(4, np.int32), 2, {"enable_index_broadcast": 0}, "Invalid rank for indices"),
        (np.zeros((5, 3), np.int32), 2, {"enable_index_broadcast": 0}, "not larger than the data"),
        (np.zeros(4, np.int32), 0, {}, "axis_size = 0 is not valid"),
        (np.zeros(4, np.int32), 2, {"axis": 4}, "axis = 4 is outside the acceptable range"),
        (np.zeros(4, np.int32), 2, {"enable_index_broadcast": 2}, "must be 0 or 1"),
    ):
        builder = popart.Builder()
        ids = [builder.addInputTensor(popart.TensorInfo(array)) for array in (source, index)]
        y = builder.aiGraphcore.scatterreduce(ids, size, **{"axis": 0, **attributes})
        with pytest.raises(popart.popart_exception, match=message):
            popart_models.infer(builder.getModelProto(), {}, [y])


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
