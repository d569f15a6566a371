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


# --- Reductions by index, and gathering in groups: values, gradients and errors ---

X_GROUPED = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


START = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)


ROWS_GROUPED = np.array([1, 0, 1, 1], np.int32)


PLACES_GROUPED = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 1]], np.uint32)


GROUPS = np.random.default_rng(2).normal(size=(2, 4, 3)).astype(np.float32)


GROUP_ROWS = np.array([[1, 0, 1, 1], [0, 0, 2, 1]], np.int32)


SEGMENTS = {
    "sum": tf.math.unsorted_segment_sum,
    "max": tf.math.unsorted_segment_max,
    "min": tf.math.unsorted_segment_min,
}


def reduced(kind, rows=ROWS_GROUPED, size=2):
    return lambda t, i, *start: SEGMENTS[kind](
        tf.concat([t, *start], 0),
        tf.concat([i, *(tf.range(size) for _ in start)], 0),
        size,
    )


def by_place(t, i):
    """Sums along axis 0 with an index for each element."""
    columns = [
        tf.math.unsorted_segment_sum(t[:, c], tf.cast(i[:, c], tf.int32), 2) for c in range(3)
    ]
    return tf.stack(columns, 1)


CASES_GROUPED = [
    *(
        Case(
            f"{kind}_start",
            lambda t, i, s, kind=kind: ops.scatter_reduce(t, i, kind, s),
            reduced(kind),
            [X_GROUPED, ROWS_GROUPED, START],
        )
        for kind in SEGMENTS
    ),
    *(
        Case(
            kind,
            lambda t, i, kind=kind: ops.scatter_reduce(t, i, kind, axis_size=2),
            reduced(kind),
            [X_GROUPED, ROWS_GROUPED],
        )
        for kind in SEGMENTS
    ),
    Case(
        "places",
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=2),
        by_place,
        [X_GROUPED, PLACES_GROUPED],
    ),
    Case(
        "last_axis",
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis=-1, axis_size=2),
        lambda t, i: tf.transpose(reduced("sum")(tf.transpose(t), i)),
        [X_GROUPED.T.copy(), ROWS_GROUPED],
    ),
    Case(
        "none",
        lambda t, i, s: ops.scatter_reduce(t, i, "none", s),
        lambda t, i, s: tf.stack([t[1], t[0]]) + 0 * s,
        [X_GROUPED[:2], np.array([1, 0], np.int32), START],
    ),
    Case(
        "grouped_sum",
        lambda t, i: ops.grouped_scatter_reduce(t, i, "sum", axis=1, axis_size=3, group_size=2),
        lambda t, i: tf.stack([tf.math.unsorted_segment_sum(t[g], i[g], 3) for g in range(2)]),
        [GROUPS, GROUP_ROWS],
    ),
    Case(
        "grouped_gather",
        lambda t, i: ops.groupedgather(t, i, 1, 2),
        lambda t, i: tf.gather(t, i, axis=1, batch_dims=1),
        [GROUPS, GROUP_ROWS],
    ),
    Case(
        "grouped_gather_last",
        lambda t, i: ops.groupedgather(t, i, 2, 2, zero_OOR=True),
        lambda t, i: tf.stack([t[0, :, 2:] * [1, 0], t[1, :, :1] * [0, 1]]),
        [GROUPS, np.array([[2, 3], [-1, 0]], np.int32)],
    ),
    Case("one_group", lambda t, i: ops.groupedgather(t, i), tf.gather, [X_GROUPED, ROWS_GROUPED]),
    Case(
        "corner",
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=2, enable_index_broadcast=False),
        lambda t, i: by_place(tf.pad(t[:3, :2], [[0, 0], [0, 1]]), tf.pad(i, [[0, 0], [0, 1]]))[
            :, :2
        ],
        [X_GROUPED, PLACES_GROUPED[:3, :2].copy()],
    ),
    Case(
        "larger_start",
        lambda t, i, s: ops.scatter_reduce(t, i, "sum", s, enable_index_broadcast=False),
        lambda t, i, s: s + tf.pad(by_place(t, i), [[0, 1], [0, 2]]),
        [X_GROUPED, PLACES_GROUPED, np.ones((3, 5), np.float32)],
    ),
]


def test_integers_start_from_the_least_and_the_largest():
    data = np.array([5, -7], np.int32)
    where = np.array([0, 0], np.int32)
    cases = [
        Case(
            kind,
            lambda t, i, kind=kind: ops.scatter_reduce(t, i, kind, axis_size=2),
            lambda t, i, kind=kind: SEGMENTS[kind](t, i, 2),
            [data, where],
        )
        for kind in ("max", "min")
    ]
    check(cases)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda t, i: ops.scatter_reduce(t, i, "mul"), ValueError, "reduction must be one of"),
        (lambda t, i: ops.scatter_reduce(t, i, "sum"), ValueError, "One of initial_values"),
        (
            lambda t, i: ops.scatter_reduce(t, i[:2], "sum", axis_size=2),
            popxl.errors.popart_exception,
            "Partial broadcasting",
        ),
        (
            lambda t, i: ops.scatter_reduce(t, t, "sum", axis_size=2),
            popxl.errors.popart_exception,
            "indices must be integers",
        ),
        (
            lambda t, i: ops.scatter_reduce(t, i, "sum", t[:, :2]),
            popxl.errors.popart_exception,
            "initial_values must have the shape",
        ),
        (
            lambda t, i: ops.scatter_reduce(t, i, "sum", None, 0, 2, False),
            popxl.errors.popart_exception,
            "Invalid rank for indices",
        ),
        (
            lambda t, i: ops.scatter_reduce(t[:2], i.reshape((4, 1)), "sum", None, 0, 2, False),
            popxl.errors.popart_exception,
            "not larger than the data",
        ),
        (
            lambda t, i: ops.groupedgather(t, i, 0, 4),
            popxl.errors.popart_exception,
            "must be the groups",
        ),
    ],
)
def test_misfit_of_groups_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X_GROUPED), popxl.variable(ROWS_GROUPED))


def test_indices_out_of_range_take_any_element():
    rows = np.array([[1, 9, 0], [-1, 0, 2]], np.int32)
    found = popxl_programs.run(lambda t, i: {"y": ops.groupedgather(t, i, 1, 2)}, [GROUPS, rows])[
        "y"
    ]
    np.testing.assert_array_equal(found[0, ::2], GROUPS[0, [1, 0]])
