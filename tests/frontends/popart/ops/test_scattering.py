"""Reductions by index against loops over all elements."""

from __future__ import annotations

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support import popart_models

R = popart.ScatterReduction
COMBINE = {
    R.Sum: (tf.add, lambda dtype: 0.0),
    R.Mul: (tf.multiply, lambda dtype: 1.0),
    R.Max: (tf.maximum, lambda dtype: float(np.finfo(dtype).min)),
    R.Min: (tf.minimum, lambda dtype: float(np.finfo(dtype).max)),
}


def reference(reduction, axis, size, dtype):
    """Reduces row by row along an axis."""
    combine, start = COMBINE[reduction]

    def computed(source, index, initial=None):
        spread = index.numpy()
        if spread.shape != source.shape:
            spread = np.moveaxis(
                np.broadcast_to(spread, np.moveaxis(source, axis, -1).shape), -1, axis
            )
        shape = [size if i == axis else n for i, n in enumerate(source.shape)]
        flat = [tf.constant(start(dtype), tf.float32)] * int(np.prod(shape))
        if initial is not None:
            flat = tf.unstack(tf.reshape(initial, [-1]))
        for place in np.ndindex(*source.shape):
            goal = list(place)
            goal[axis] = spread[place]
            where = np.ravel_multi_index(goal, shape)
            flat[where] = combine(flat[where], source[place])
        return tf.reshape(tf.stack(flat), shape)

    return computed


@pytest.mark.parametrize("reduction", COMBINE)
def test_elements_are_reduced_by_index(reduction):
    source = np.random.RandomState(0).permutation(12).reshape(4, 3).astype(np.float32) + 1
    vector, whole = np.array([1, 0, 1, 3], np.int32), np.array([[0, 1, 4]] * 4, np.int32)
    initial = np.full((5, 3), 4.5, np.float32)
    popart_models.check_op(
        lambda _, own, ids: own.scatterreduce(ids, 5, 0, reduction),
        [source, vector, initial],
        reference(reduction, 0, 5, np.float32),
    )
    popart_models.check_op(
        lambda _, own, ids: own.scatterreduce(ids, 5, -1, reduction),
        [source, whole],
        reference(reduction, 1, 5, np.float32),
        differentiable=[0] if reduction is not R.Mul else [],
        rtol=1e-3,
    )


def test_places_without_an_element_keep_the_extremes_of_the_type():
    builder = popart.Builder()
    data = builder.addInitializedInputTensor(np.ones(2, np.float16))
    index = builder.aiOnnx.constant(np.array([0, 0], np.uint32))
    kinds = (R.Max, R.Min, R.Mul, R.Sum, R.NoReduction)
    outputs = [builder.aiGraphcore.scatterreduce([data, index], 2, 0, kind) for kind in kinds]
    found = popart_models.infer(builder.getModelProto(), {}, outputs)
    assert [found[name][1] for name in outputs] == [-65504, 65504, 1, 0, 0]
    assert [found[name][0] for name in outputs] == [1, 1, 1, 2, 1]


def test_groups_are_reduced_by_themselves():
    source = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    index = np.array([[0, 1, 0], [3, 3, 1]], np.int32)

    def wanted(source, index):
        one, two = (
            reference(R.Sum, 0, 4, np.float32)(s, i)
            for s, i in zip(tf.unstack(source), tf.unstack(index))
        )
        return tf.stack([one, two])

    popart_models.check_op(
        lambda _, own, ids: own.groupedscatterreduce(ids, 4, 1, group_size=2),
        [source, index],
        wanted,
    )


def test_what_cannot_be_reduced_is_refused():
    source = np.zeros((4, 3), np.float32)
    for index, size, attributes, message in (
        (np.zeros((4, 2), np.int32), 2, {}, "Partial broadcasting of indices"),
        (np.zeros(4, np.int32), 0, {}, "axis_size must be > 0"),
        (np.zeros(4, np.int32), 2, {"axis": 2}, "out of range"),
        (np.zeros(4, np.int32), 2, {"enable_index_broadcast": 2}, "must be 0 or 1"),
        (np.zeros(4, np.float32), 2, {}, "must be of integers"),
    ):
        builder = popart.Builder()
        ids = [builder.addInputTensor(popart.TensorInfo(array)) for array in (source, index)]
        y = builder.aiGraphcore.scatterreduce(ids, size, **{"axis": 0, **attributes})
        with pytest.raises(popart.popart_exception, match=message):
            popart_models.infer(builder.getModelProto(), {}, [y])
