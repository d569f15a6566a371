"""Ops that move elements: values and gradients, views that share storage, and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
COLUMNS = np.arange(6, dtype=np.float32).reshape(2, 3)
ONES = X[:, :1, :1]

CASES = [
    Case("concat", lambda a, b: ops.concat([a, b], 1), lambda a, b: tf.concat([a, b], 1), [X, X]),
    Case(
        "concat_", lambda a, b: ops.concat_([a, b], -1), lambda a, b: tf.concat([a, b], -1), [X, X]
    ),
    Case("flatten", lambda t: t.flatten(), lambda t: tf.reshape(t, [-1]), [X]),
    Case("identity", ops.identity, tf.identity, [X]),
    Case("rename", lambda t: ops.rename(t, "other"), tf.identity, [X]),
    Case("detach", lambda t: t.detach(), tf.identity, [X], []),
    Case("io_tile_copy", lambda t: ops.io_tile_copy(ops.io_tile_copy(t)), tf.identity, [X]),
    Case("reshape", lambda t: t.reshape((4, -1)), lambda t: tf.reshape(t, [4, 6]), [X]),
    Case("reshape_", lambda t: t.reshape_((4, -1)), lambda t: tf.reshape(t, [4, 6]), [X]),
    Case("split", lambda t: ops.split(t, 2, -1), lambda t: tf.split(t, 2, -1), [X]),
    Case("splits", lambda t: ops.split(t, [1, 2], 1), lambda t: tf.split(t, [1, 2], 1), [X]),
    Case("squeeze", ops.squeeze, tf.squeeze, [ONES]),
    Case("squeeze_axes", lambda t: ops.squeeze(t, [-1]), lambda t: tf.squeeze(t, [-1]), [ONES]),
    Case("transpose", lambda t: t.transpose((1, 0, 2)), lambda t: tf.transpose(t, [1, 0, 2]), [X]),
    Case("T", lambda t: t.T, tf.transpose, [X]),
    Case("T_", lambda t: t.T_, tf.transpose, [X]),
    Case("item", lambda t: t[1, :2, -1], lambda t: t[1, :2, -1], [X]),
    Case("item_steps", lambda t: t[:, 2:0:-1, ::2], lambda t: t[:, 2:0:-1, ::2], [X]),
    Case("item_back", lambda t: t[0, ::-1], lambda t: t[0, ::-1], [X]),
    Case("item_tensor", lambda t: t[[1, 0, 1]], lambda t: tf.gather(t, [1, 0, 1]), [X]),
    Case(
        "item_mask",
        lambda t: t[np.array([[True], [False]])],
        lambda t: t * [[1.0], [0.0]],
        [COLUMNS],
    ),
    Case("slice", lambda t: ops.slice(t, 1, 3, axis=1), lambda t: t[:, 1:3], [X]),
    Case("slices", lambda t: ops.slice(t, [0, None], [1, 9]), lambda t: t[:1], [X]),
    Case("subsample", lambda t: ops.subsample(t, [1, 2]), lambda t: t[:, ::2], [X]),
    Case("diag", lambda t: t.diag(), lambda t: tf.linalg.diag_part(t), [COLUMNS]),
    Case("diag_high", lambda t: t.T.diag(), lambda t: tf.linalg.diag_part(t), [COLUMNS]),
    Case(
        "cast",
        lambda t: ops.cast(t * -0.3, popxl.int32),
        lambda t: tf.cast(t * -0.3, "int32"),
        [X],
        [],
    ),
    Case(
        "cast_float",
        lambda t: ops.cast(ops.cast(t, popxl.float16), t.dtype),
        tf.identity,
        [X],
        gradients=lambda t, g: [tf.cast(tf.cast(g, tf.float16), tf.float32)],
    ),
    Case("cast_bool", lambda t: ops.cast(t, popxl.bool), lambda t: t != 0, [X], []),
    Case("init", lambda t: t + ops.init((4,), t.dtype), tf.identity, [X]),
    Case("ipu_copy", lambda t: ops.ipu_copy(t, 0, 0), tf.identity, [X]),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 1e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


def test_what_is_written_into_view_goes_into_tensor():
    def build(a, b, c, d, e):
        with popxl.in_sequence():
            ops.add_(a.reshape_((6,)), popxl.constant(np.arange(6, dtype=np.float32)))
            ops.add_(b.transpose_(), popxl.constant(np.float32([[1, 2]])))
            part = ops.slice_(c, [0, 1], [1, 3])
            ops.add_(part, popxl.constant(np.float32([[10, 20]])))
            c += 1
            joined = ops.concat_([d, e], 1)
            ops.add_(joined.flatten_(), popxl.constant(np.arange(12, dtype=np.float32)))
            found = {"a": a, "b": b, "c": c, "part": part, "d": d, "e": e, "joined": joined}
            return {name: tensor + 0 for name, tensor in found.items()}

    c = COLUMNS + 1 + np.float32([[0, 10, 20], [0, 0, 0]])
    joined = np.concatenate([COLUMNS, COLUMNS], 1) + np.arange(12, dtype=np.float32).reshape(2, 6)
    expected = {
        **{"a": COLUMNS * 2, "b": COLUMNS + np.float32([[1], [2]]), "c": c, "part": c[:1, 1:]},
        **{"d": joined[:, :3], "e": joined[:, 3:], "joined": joined},
    }
    popxl_programs.check(build, [COLUMNS] * 5, expected)


def test_a_slice_of_everything_is_the_tensor_itself():
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        assert ops.slice(x) is x and x[:] is x


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda x: x.reshape((0, 2)), ValueError, "Invalid shape value"),
        (lambda x: x.reshape((-1, -1)), ValueError, "at most one '-1'"),
        (lambda x: x.reshape((5,)), popxl.errors.popart_exception, "cannot have"),
        (lambda x: ops.squeeze(x, [0, -3]), ValueError, "Axes contains duplicates"),
        (lambda x: ops.squeeze(x, [1]), ValueError, "Can't squeeze axis"),
        (lambda x: x.transpose((0, 1, 3)), ValueError, "must be less than the tensor's rank"),
        (lambda x: ops.concat([x, x[0]]), popxl.errors.popart_exception, "must be equal"),
        (lambda x: ops.concat([x, popxl.constant(1)]), ValueError, "must have the same type:"),
        (lambda x: ops.split(x, 2, 1), ValueError, "does not equally divide"),
        (lambda x: ops.split(x, [1, 1], 1), popxl.errors.popart_exception, "splits"),
        (lambda x: ops.slice(x, [0, 1], [1]), ValueError, "All inputs must have same length"),
        (lambda x: ops.subsample(x, [1] * 4), ValueError, "must not be greater than the rank"),
        (lambda x: ops.subsample(x, 0), popxl.errors.popart_exception, "Strides invalid"),
        (lambda x: x["a"], TypeError, "Only integers, slices"),
        (lambda x: x[True], TypeError, "Only integers, slices"),
        (lambda x: x.diag(), ValueError, "Diag expected a 2d tensor"),
        (lambda x: ops.cast(x, popxl.float8_143), TypeError, "not supported for"),
        (lambda x: ops.init((1,), popxl.int32, init_type="one"), ValueError, "Unknown init_type"),
        (lambda x: ops.ipu_copy(x, 1), ValueError, "Could not infer the ipu"),
    ],
)
def test_wrong_shapes_and_axes_are_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X))
