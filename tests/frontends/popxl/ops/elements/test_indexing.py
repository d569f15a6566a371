"""Gathering, scattering and slices at run time: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

X = np.arange(12, dtype=np.float32).reshape(3, 4)
ROWS = np.array([2, 0, 2], np.int32)
PLACES = np.array([[0, 2, 1, 1], [1, 0, 2, 0]], np.int32)
VALUES = -X[:2]
AT = np.array([1], np.uint32)


def scattered(t, indices, values):
    grid = tf.stack([indices, tf.broadcast_to(tf.range(4), [2, 4])], -1)
    return tf.tensor_scatter_nd_update(t, grid, values)


CASES = [
    Case("gather", ops.gather, tf.gather, [X, ROWS]),
    Case(
        "gather_axis",
        lambda t, i: ops.gather(t, i, -1),
        lambda t, i: tf.gather(t, i, axis=1),
        [X, ROWS],
    ),
    Case(
        "tied_gather",
        ops.tied_gather,
        lambda t, i: tf.gather(t, tf.cast(i, tf.int32)),
        [X, ROWS.astype(np.uint32)],
    ),
    Case(
        "gather_zeros",
        lambda t, i: ops.gather(t, i, 0, zero_OOR=True),
        lambda t, i: tf.stack([t[2], t[2] * 0, t[0] * 0]),
        [X, np.array([2, 3, -1], np.int32)],
    ),
    Case("scatter", ops.scatter, scattered, [X, PLACES, VALUES]),
    Case(
        "scatter_rows",
        ops.scatter,
        lambda t, i, v: tf.tensor_scatter_nd_update(t, i[:, None], v),
        [X, np.array([2, 0], np.int32), VALUES],
    ),
    Case(
        "dynamic_slice",
        lambda t, i: ops.dynamic_slice(t, i, [1], [2], True),
        lambda t, i: t[:, 1:3],
        [X, AT],
    ),
    Case(
        "dynamic_update",
        lambda t, i, u: ops.dynamic_update(t, i, u, [0], [2], True),
        lambda t, i, u: tf.concat([t[:1], u], 0),
        [X, AT, VALUES],
    ),
    Case(
        "onehot",
        lambda i, v: ops.onehot(i, popxl.constant(3), v, -1),
        lambda i, v: tf.where(tf.one_hot(i, 3, True, False), v[1], v[0]),
        [ROWS, np.float32([0.5, 2])],
    ),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 1e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


def test_update_in_place_is_seen_by_the_tensor():
    def build(t, i, u):
        with popxl.in_sequence():
            ops.dynamic_update_(t, i, u, [0, 1], [1, 4], True)
            return {"t": t + 0}

    expected = X.copy()
    expected[1] = 9
    index = np.array([1, 0], np.int32)
    popxl_programs.check(build, [X, index, np.full((1, 4), 9, np.float32)], {"t": expected})


@pytest.mark.parametrize("gather", [ops.gather, ops.tied_gather])
def test_indices_out_of_range_are_no_error(gather):
    def build(t, i, u):
        found = {"signed": gather(t, i), "unsigned": gather(t, u)}
        found["zero_signed"] = gather(t, i, zero_OOR=True)
        return {**found, "zero_unsigned": gather(t, u, zero_OOR=True)}

    signed = np.int32([0, -1, 99, 2])
    found = popxl_programs.run(build, [X, signed, signed.view(np.uint32)])
    expected = np.stack([X[0], 0 * X[0], 0 * X[0], X[2]])
    for kind in ("signed", "unsigned"):
        np.testing.assert_array_equal(found[kind][[0, 3]], X[[0, 2]])
        np.testing.assert_array_equal(found[f"zero_{kind}"], expected)


def test_updates_of_another_shape_fill_part_in_order():
    def build(t, i, u):
        return {
            name: ops.dynamic_update(t, i, part, [0], [2], True)
            for name, part in (
                ("flat", u.reshape((8,))),
                ("short", u[:1]),
            )
        }

    part = 50 + np.arange(8, dtype=np.float32).reshape(2, 4)
    flat, short = X.copy(), X.copy()
    flat[:2], short[:2] = part, [part[0], 0 * part[1]]
    index = np.array([0], np.int32)
    popxl_programs.check(build, [X, index, part], {"flat": flat, "short": short})


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda x, i: ops.gather(x, i, 2), "outside the acceptable range"),
        (lambda x, i: ops.gather(x, x), "indices must be integers"),
        (lambda x, i: ops.scatter(x, i, x), "indices the shape of"),
        (lambda x, i: ops.dynamic_slice(x, i[:1], [0], [4], True), "is not inside"),
        (lambda x, i: ops.onehot(i, i, x, 0), "does not have data"),
    ],
)
def test_what_does_not_fit_is_refused(build, message):
    error = popxl.errors.popart_exception
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X), popxl.variable(ROWS[:2]))
