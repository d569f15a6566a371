"""Losses, normalization and updates: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops
from popxl.ops import var_updates

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(size=(4, 3)).astype(np.float32)
PROBS = tf.nn.softmax(LOGITS).numpy()
LABELS = np.array([0, 2, 1, 2], np.int32)
T = RNG.normal(size=(2, 4, 3)).astype(np.float32)
C = RNG.normal(size=4).astype(np.float32)
D = RNG.normal(size=4).astype(np.float32)


def items(p, labels):
    return -tf.math.log(tf.gather(p, labels, batch_dims=1))


def loss(**options):
    return lambda p, labels: ops.nll_loss(p, labels, **options)


def with_softmax(**options):
    def build(x, labels):
        return ops.nll_loss_with_softmax_grad(ops.softmax(x, -1), labels, **options)

    return build


def with_gradient(reduction, scale=1.0):
    def reference(x, labels):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = reduction(items(tf.nn.softmax(x), labels))
        return value, tape.gradient(value, x, tf.fill(value.shape, scale))

    return reference


def group_norm(groups):
    def reference(t, w, b):
        parts = tf.reshape(t, [2, groups, -1])
        mean = tf.reduce_mean(parts, -1, keepdims=True)
        variance = tf.math.reduce_variance(parts, -1, keepdims=True)
        whole = tf.reshape((parts - mean) / tf.sqrt(variance + 1e-5), t.shape)
        return whole * w[:, None] + b[:, None]

    return reference


def counted(p, labels):
    return tf.reduce_sum(tf.where(labels == 2, 0.0, items(p, labels))) / 2


CASES = [
    Case("mean", loss(), lambda p, i: tf.reduce_mean(items(p, i)), [PROBS, LABELS]),
    Case("sum", loss(reduction="sum"), lambda p, i: tf.reduce_sum(items(p, i)), [PROBS, LABELS]),
    Case("none", loss(reduction="none"), items, [PROBS, LABELS]),
    Case("ignored", loss(ignore_index=2), counted, [PROBS, LABELS]),
    Case(
        "logarithms",
        loss(log_prob=True),
        lambda p, i: -tf.reduce_mean(tf.gather(p, i, batch_dims=1)),
        [np.log(PROBS), LABELS],
    ),
    Case("with gradient", with_softmax(), with_gradient(tf.reduce_mean), [LOGITS, LABELS], []),
    Case(
        "with scaled gradient",
        with_softmax(loss_grad=8.0, reduction="sum"),
        with_gradient(tf.reduce_sum, 8.0),
        [LOGITS, LABELS],
        [],
    ),
    Case("group norm", lambda t, w, b: ops.group_norm(t, w, b, 2), group_norm(2), [T, C, D]),
    Case("layer norm", ops.layer_norm, group_norm(1), [T, C, D]),
    Case(
        "batch norm",
        lambda t, w, b, m, v: ops.batch_norm_inference(t, w, b, m, v, 1e-3),
        lambda t, w, b, m, v: (
            (t - m[:, None]) / tf.sqrt(v + 1e-3)[:, None] * w[:, None] + b[:, None]
        ),
        [T, C, D, C, np.abs(D)],
        [],
    ),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 3e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(CASES, dtype, tolerance)


def test_probability_of_zero_has_finite_loss_and_gradient():
    probs = np.float32([[0, 1]])
    check(
        [
            Case(
                "zero",
                ops.nll_loss,
                lambda p, i: -np.log(np.float32(1e-7)),
                [probs, np.array([0], np.int32)],
                gradients=lambda p, i, g: [np.float32([[-0.5e10, 0]])],
            )
        ]
    )


def test_updates_compute_their_formulas():
    t, x = C.reshape(2, 2), D.reshape(2, 2)
    indices = np.array([1, 1], np.int32)
    both = t + np.float32([[0, 0], [1, 1]]) * x.sum(0) * 2
    expected = {
        "accumulate_": (lambda a, b: var_updates.accumulate_(a, b), t + x),
        "times": (lambda a, b: var_updates.accumulate_(a, b, 0.5), t + 0.5 * x),
        "mean": (lambda a, b: var_updates.accumulate_mean_(a, b, 3), 0.75 * t + 0.25 * x),
        "square": (lambda a, b: var_updates.accumulate_square_(a, b, 2.0), t + 2 * x * x),
        "average": (
            lambda a, b: var_updates.accumulate_moving_average_(a, b, 0.9),
            0.9 * t + 0.1 * x,
        ),
        "average square": (
            lambda a, b: var_updates.accumulate_moving_average_square_(a, b, 0.9),
            0.9 * t + 0.1 * x * x,
        ),
        "scale": (lambda a, b: var_updates.accumulator_scale_(a, b[0, 0]), t * x[0, 0]),
        "scale zero": (lambda a, b: var_updates.accumulator_scale_(a, 0.0), t * 0),
        "zero": (lambda a, b: var_updates.accumulator_zero_(a), t * 0),
        "copy": (lambda a, b: var_updates.copy_var_update_(a, b), x),
        "sparse": (
            lambda a, b: var_updates.sparse_accumulate_(
                a, b, popxl.constant(indices), 0, popxl.constant(2.0)
            ),
            both,
        ),
    }

    def build(t, x):
        results = {}
        with popxl.in_sequence():
            for name, (update, _) in expected.items():
                variable = t + 0
                results[f"{name}_returned"] = update(variable, x) + 0
                results[name] = variable + 0
        return results

    arrays = {name: array for name, (_, array) in expected.items()}
    arrays.update({f"{name}_returned": array for name, array in arrays.items()})
    popxl_programs.check(build, [t, x], arrays)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_labels_may_have_another_shape(reduction):
    def build(probs, labels):
        grad = popxl.constant(np.float32([1, 2, 3])) if reduction == "none" else 2.0
        found = {}
        for name, shape in (("flat", (3,)), ("other", (3, 1))):
            given = grad.reshape(shape) if reduction == "none" else grad
            loss, dx = ops.nll_loss_with_softmax_grad(
                probs, labels.reshape(shape), given, 1, reduction
            )
            found.update({f"{name}_loss": loss, f"{name}_dx": dx})
        return found

    probs = np.float32([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    found = popxl_programs.run(build, [probs, np.int32([0, 1, 1])])
    np.testing.assert_array_equal(found["other_dx"], found["flat_dx"])
    shape = (3, 1) if reduction == "none" else ()
    np.testing.assert_array_equal(found["other_loss"], found["flat_loss"].reshape(shape))


def test_wrong_losses_and_updates_are_refused():
    error = popxl.errors.popart_exception
    with popxl.Ir().main_graph:
        p, i, t = popxl.variable(PROBS), popxl.variable(LABELS), popxl.variable(T)
        with pytest.raises(ValueError, match="Not a valid reduction"):
            ops.nll_loss(p, i, reduction="max")
        with pytest.raises(error, match="must have shape"):
            ops.nll_loss(p, i[:2])
        with pytest.raises(error, match="must have shape"):
            ops.nll_loss_with_softmax_grad(p, i[:2])
        # The type of labels is not checked here, as in the original.
        assert ops.nll_loss(p, p[:, 0]).shape == ()
        with pytest.raises(error, match="must divide the channels"):
            ops.group_norm(t, p[:, 0], p[:, 0], 3)
        with pytest.raises(error, match="must have the shape of the tensor"):
            var_updates.accumulate_(p, t)
        with pytest.raises(error, match="constant 0"):
            var_updates.accumulate_(p, p, 0.0)
