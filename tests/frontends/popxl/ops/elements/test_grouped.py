"""Reductions by index, and gathering in groups: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
START = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
ROWS = np.array([1, 0, 1, 1], np.int32)
PLACES = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 1]], np.uint32)
GROUPS = np.random.default_rng(2).normal(size=(2, 4, 3)).astype(np.float32)
GROUP_ROWS = np.array([[1, 0, 1, 1], [0, 0, 2, 1]], np.int32)

SEGMENTS = {
    "sum": tf.math.unsorted_segment_sum,
    "max": tf.math.unsorted_segment_max,
    "min": tf.math.unsorted_segment_min,
}


def reduced(kind, rows=ROWS, size=2):
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


CASES = [
    *(
        Case(
            f"{kind}_start",
            lambda t, i, s, kind=kind: ops.scatter_reduce(t, i, kind, s),
            reduced(kind),
            [X, ROWS, START],
        )
        for kind in SEGMENTS
    ),
    *(
        Case(
            kind,
            lambda t, i, kind=kind: ops.scatter_reduce(t, i, kind, axis_size=2),
            reduced(kind),
            [X, ROWS],
        )
        for kind in SEGMENTS
    ),
    Case(
        "places",
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=2),
        by_place,
        [X, PLACES],
    ),
    Case(
        "last_axis",
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis=-1, axis_size=2),
        lambda t, i: tf.transpose(reduced("sum")(tf.transpose(t), i)),
        [X.T.copy(), ROWS],
    ),
    Case(
        "none",
        lambda t, i, s: ops.scatter_reduce(t, i, "none", s),
        lambda t, i, s: tf.stack([t[1], t[0]]) + 0 * s,
        [X[:2], np.array([1, 0], np.int32), START],
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
    Case("one_group", lambda t, i: ops.groupedgather(t, i), tf.gather, [X, ROWS]),
    Case(
        "corner",
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=2, enable_index_broadcast=False),
        lambda t, i: by_place(tf.pad(t[:3, :2], [[0, 0], [0, 1]]), tf.pad(i, [[0, 0], [0, 1]]))[
            :, :2
        ],
        [X, PLACES[:3, :2].copy()],
    ),
    Case(
        "larger_start",
        lambda t, i, s: ops.scatter_reduce(t, i, "sum", s, enable_index_broadcast=False),
        lambda t, i, s: s + tf.pad(by_place(t, i), [[0, 1], [0, 2]]),
        [X, PLACES, np.ones((3, 5), np.float32)],
    ),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 1e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


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
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X), popxl.variable(ROWS))


def test_indices_out_of_range_take_any_element():
    rows = np.array([[1, 9, 0], [-1, 0, 2]], np.int32)
    found = popxl_programs.run(lambda t, i: {"y": ops.groupedgather(t, i, 1, 2)}, [GROUPS, rows])[
        "y"
    ]
    np.testing.assert_array_equal(found[0, ::2], GROUPS[0, [1, 0]])
