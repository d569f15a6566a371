"""Reductions, sorting and products: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl.popxl_cases import Case, check

RNG = np.random.default_rng(3)
X = RNG.permutation(np.linspace(-2, 3, 24)).astype(np.float32).reshape(2, 3, 4)
POSITIVE = np.abs(X) + 0.5
A, B = X[0], RNG.normal(size=(4, 5)).astype(np.float32)


def reduced(name, function, data=X):
    """A reduction over axes of three kinds."""
    forms = {"all": {}, "one": {"axis": 1}, "two": {"axis": [0, -1], "keepdims": True}}
    return [
        Case(
            f"{name} {form}",
            lambda t, a=arguments: getattr(ops, name)(t, **a),
            lambda t, a=arguments: function(t, **a),
            [data],
        )
        for form, arguments in forms.items()
    ]


def of_sum(inside, outside=tf.identity):
    return lambda t, **a: outside(tf.reduce_sum(inside(t), **a))


CASES = [
    *reduced("l1", of_sum(tf.abs)),
    *reduced("l2", of_sum(tf.square, tf.sqrt)),
    *reduced("logsum", of_sum(tf.identity, tf.math.log), POSITIVE),
    *reduced("logsumexp", tf.reduce_logsumexp),
    *reduced("max", tf.reduce_max),
    *reduced("mean", tf.reduce_mean),
    *reduced("min", tf.reduce_min),
    *reduced("prod", tf.reduce_prod),
    *reduced("sum", tf.reduce_sum),
    *reduced("sumsquare", of_sum(tf.square)),
    Case("argmax", lambda t: ops.argmax(t, 1), lambda t: tf.argmax(t, 1), [X], []),
    Case(
        "argmin", lambda t: ops.argmin(t, -1, True), lambda t: tf.argmin(t, -1)[..., None], [X], []
    ),
    Case("cumsum", lambda t: ops.cumsum(t, -1), lambda t: tf.cumsum(t, -1), [X]),
    Case("median", lambda t: ops.median(t, 2), lambda t: tf.sort(t, 2)[..., 1], [X]),
    Case("median all", ops.median, lambda t: tf.sort(tf.reshape(t, [-1]))[11], [X]),
    Case("topk", lambda t: ops.topk(t, 2, 2, True, True), lambda t: tf.math.top_k(t, 2), [X]),
    Case(
        "topk smallest",
        lambda t: ops.topk(t, 1, 1, False, True),
        lambda t: (tf.reduce_min(t, 1, True), tf.argmin(t, 1)[:, None]),
        [X],
    ),
    Case(
        "histogram",
        lambda t: ops.histogram(t, [-1.0, 0.5, 2.0], False),
        lambda t: np.histogram(X, [-np.inf, -1, 0.5, 2, np.inf])[0],
        [X],
        [],
    ),
    Case("matmul", ops.matmul, tf.matmul, [A, B]),
    Case("matmul batches", ops.matmul, tf.matmul, [X, B]),
    Case("matmul vectors", lambda a, b: a @ b, lambda a, b: tf.tensordot(a, b, 1), [A[0], B[:, 0]]),
    Case("matmul row", lambda a, b: a @ b, lambda a, b: tf.linalg.matvec(b, a, True), [A[0], B]),
    Case("matmul column", lambda a, b: a @ b, lambda a, b: tf.linalg.matvec(a, b), [A, B[:, 0]]),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-4), (np.float16, 3e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


def test_all_elements_that_equal_result_have_whole_gradient():
    equal = np.float32([[1, 3, 3], [0, 0, 0]])
    mask = np.float32([[0, 1, 1], [1, 1, 1]])
    check(
        [
            Case(
                "max",
                lambda t: ops.max(t, 1),
                lambda t: tf.reduce_max(t, 1),
                [equal],
                gradients=lambda t, g: [mask * g[:, None]],
            )
        ]
    )


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda x: ops.sum(x, 3), popxl.errors.popart_exception, "the axis 3"),
        (
            lambda x: ops.topk(x, 5, 2, True, True),
            popxl.errors.popart_exception,
            "Cannot take top-5",
        ),
        (lambda x: ops.histogram(x, [1, 1], True), ValueError, "not a monotonically increasing"),
        (
            lambda x: ops.histogram(popxl.constant(1), [1], True),
            popxl.errors.popart_exception,
            "FLOAT",
        ),
        (lambda x: x @ x, popxl.errors.popart_exception, "contracting dimensions unequal"),
        (lambda x: x @ popxl.constant(1.0), popxl.errors.popart_exception, "support scalar"),
        (lambda x: ops.matmul(x, x, partials_type=popxl.int32), ValueError, "partials_type"),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(X))
