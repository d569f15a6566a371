"""Elementwise ops: values and gradients, in place, in both float types, and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

X = np.array([[-2.0, -0.5, 0.25], [0.5, 1.0, 3.0]], np.float32)
POSITIVE = np.abs(X) + 0.5
ROW = np.array([1.5, -2.0, 0.75], np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
N = np.array([[-7, 7, 5]], np.int32)

FLOATS = [
    Case("abs", ops.abs, tf.abs, [X]),
    Case("add", ops.add, tf.add, [X, ROW]),
    Case("ceil", ops.ceil, tf.math.ceil, [X], []),
    Case("cos", ops.cos, tf.cos, [X]),
    Case("div", ops.div, tf.divide, [X, ROW]),
    Case("exp", ops.exp, tf.exp, [X]),
    Case("floor", ops.floor, tf.floor, [X], []),
    Case("fmod", ops.fmod, tf.truncatemod, [X, ROW], [0], lambda x, r, g: [g]),
    Case("gelu", ops.gelu, lambda t: tf.nn.gelu(t, True), [X]),
    Case("geluerf", ops.geluerf, tf.nn.gelu, [X]),
    Case("greater", ops.greater, tf.greater, [X, ROW], []),
    Case("isfinite", ops.isfinite, tf.math.is_finite, [SPECIAL], []),
    Case("isinf", ops.isinf, tf.math.is_inf, [SPECIAL], []),
    Case("isnan", ops.isnan, tf.math.is_nan, [SPECIAL], []),
    Case("log", ops.log, tf.math.log, [POSITIVE]),
    Case("log2", ops.log2, lambda t: tf.math.log(t) / np.log(2), [POSITIVE]),
    Case("maximum", ops.maximum, lambda a, b: tf.maximum(a, b), [X, ROW]),
    Case("mul", ops.mul, tf.multiply, [X, ROW]),
    Case("negate", ops.negate, tf.negative, [X]),
    Case("pow", ops.pow, tf.pow, [POSITIVE, np.full(3, 2, np.float32)]),
    Case("relu", ops.relu, tf.nn.relu, [X]),
    Case("sign", ops.sign, lambda t: np.float32([0, 1, -1, 1]), [SPECIAL], []),
    Case("sin", ops.sin, tf.sin, [X]),
    Case("softmax", lambda t: ops.softmax(t, 0), lambda t: tf.nn.softmax(t, 0), [X]),
    Case("softmax_last", lambda t: ops.softmax(t, -1), tf.nn.softmax, [X]),
    Case("sqrt", ops.sqrt, tf.sqrt, [POSITIVE]),
    Case("sub", ops.sub, tf.subtract, [ROW, X]),
    Case("swish", ops.swish, lambda t: t * tf.sigmoid(t), [X]),
    Case("tanh", ops.tanh, tf.tanh, [X]),
    Case("where", ops.where, tf.where, [X > 0, X, ROW]),
    Case(
        "operators",
        lambda x, y: 1 - 2 * x / (y + 3) + -x @ x.T,
        lambda x, y: 1 - 2 * x / (y + 3) + -x @ tf.transpose(x),
        [X[:, :2], X[:, 1:]],
    ),
]

OTHERS = [
    Case("div_int", ops.div, tf.truncatediv, [N, np.int32(2)], []),
    Case("fmod_int", ops.fmod, tf.truncatemod, [N, np.int32(4)], []),
    Case("equal", ops.equal, tf.equal, [N, np.int32(7)], []),
    Case("and", ops.logical_and, lambda a, b: tf.logical_and(a != 0, b != 0), [N, N - 7], []),
    Case("or", ops.logical_or, lambda a, b: tf.logical_or(a != 0, b != 0), [N, N - 7], []),
    Case("not", ops.logical_not, lambda a: a == 0, [N - 7], []),
    Case("mod", lambda t: t % 4, lambda t: tf.truncatemod(t, 4), [N], []),
    Case("invert", lambda t: ~t, tf.logical_not, [N > 0], []),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 1e-2)])
def test_values_and_gradients(dtype, tolerance):
    check(FLOATS, dtype, tolerance)


def test_integers_and_booleans():
    check(OTHERS)


def test_every_operand_that_equals_maximum_has_whole_gradient():
    case = Case(
        "maximum",
        ops.maximum,
        lambda a, b, c: tf.maximum(tf.maximum(a, b), c),
        [np.float32([1, 2]), np.float32([1, 1]), np.float32([0, 2])],
        gradients=lambda a, b, c, g: [g * [1, 1], g * [1, 0], g * [0, 1]],
    )
    check([case])


def test_ops_in_place_write_their_results_into_tensor():
    def build(*tensors):
        results = {}
        for name, t in zip(names, tensors):
            with popxl.in_sequence():
                out = getattr(ops, name)(t)
                results[name], results[name + "view"] = t + 0, out + 0
        with popxl.in_sequence():
            ops.add_(tensors[-2], tensors[-1])
            results["add_"] = tensors[-2] + 0
        return results

    names = ["exp_", "gelu_", "geluerf_", "relu_", "swish_"]
    functions = [tf.exp, lambda t: tf.nn.gelu(t, True), tf.nn.gelu, tf.nn.relu, tf.nn.silu]
    expected = {"add_": X + ROW}
    for name, function in zip(names, functions):
        expected[name] = expected[name + "view"] = function(X).numpy()
    popxl_programs.check(build, [X] * 6 + [ROW], expected)


def test_operands_that_do_not_fit_are_refused():
    ir = popxl.Ir()
    error = popxl.errors.popart_exception
    with ir.main_graph:
        x, n = popxl.variable(X), popxl.variable(N)
        with pytest.raises(error, match=r"incompatible types FLOAT and INT32"):
            ops.add(x, n)
        with pytest.raises(error, match=r"frames \[2, 3\] and \[2\] are not aligned"):
            ops.mul(x, popxl.constant([1.0, 2.0]))
        with pytest.raises(error, match="cannot be written into"):
            ops.add_(popxl.constant(ROW), x)
        with pytest.raises(error, match="axis"):
            ops.softmax(x, 2)
        with pytest.raises(TypeError, match="is not a Tensor"):
            ops.exp(1.0)
        with pytest.raises(ValueError, match="at least one tensor"):
            ops.maximum()
        with pytest.raises(ValueError, match="The value has 0 elements"):
            x + []
        with ir.create_empty_graph(), pytest.raises(ValueError, match="not in the current Graph"):
            ops.exp(x)
        y = ops.exp(x)
        with popxl.ipu(1):
            z = ops.ipu_copy(x, 1, 0) + 1.0
        with pytest.raises(ValueError, match="located on different IPUs: `lhs` .* and `rhs`"):
            ops.add(y, z)
        with popxl.io_tiles():
            w = ops.exp(popxl.constant(X))
        with pytest.raises(ValueError, match="different tile sets"):
            ops.add(y, w)
