"""Tests of codelet expressions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.ops.custom_ops import codelet_expression_op
from tensorflow_ipu.ops.vertex_edsl import constant, let
from tests.support.programs import replicas

tf1 = tf.compat.v1

X = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -0.5]], np.float32)
Y = np.array([[0.5, 4.0, -1.0], [2.0, -3.0, 0.125]], np.float32)
Z = np.array([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0]], np.float32)

# The expression, and the same in NumPy where Python numbers are converted.
EXPRESSIONS = {
    "documented": (lambda x, y, z: x * x + y * z, None),
    "difference": (lambda x, y, z: x - y - z, None),
    "negative": (lambda x, y, z: -(x + y), lambda x, y, z: -(x + y)),
    "invert": (lambda x, y, z: ~x * y, lambda x, y, z: -x * y),
    "absolute": (lambda x, y, z: abs(x - y) + abs(z), None),
    "argument": (lambda x, y, z: z, None),
    "int": (lambda x, y, z: x * constant(3) - constant(1), lambda x, y, z: x * 3 - 1),
    "float": (lambda x, y, z: constant(0.5) * x + y, lambda x, y, z: 0.5 * x + y),
    "number": (lambda x, y, z: constant(2.5), lambda x, y, z: np.full_like(x, 2.5)),
    "let": (lambda x, y, z: let(x * y, lambda t: t * t - t), lambda x, y, z: x * y * x * y - x * y),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("where", ["eager", "program", "session"])
def test_expressions_equal_numpy(name, dtype, where):
    function, reference = EXPRESSIONS[name]
    arrays = [array.astype(dtype) for array in (X, Y, Z)]

    def compute():
        return codelet_expression_op(function, *map(tf.constant, arrays))

    if where == "eager":
        result = compute()
    else:
        (result,) = replicas.run(1, compute, in_session=where == "session")
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, (reference or function)(*arrays))


def test_expressions_run_on_the_device_outside_a_program():
    replicas.configure(1)
    with tf.device("/device:IPU:0"):
        result = codelet_expression_op(lambda x, y: x * y, tf.constant(X), tf.constant(Y))
    assert "IPU:0" in result.device
    np.testing.assert_array_equal(result, X * Y)


def test_expressions_run_on_two_replicas():
    x = replicas.rows(2, [7])
    result = replicas.run(
        2, lambda: codelet_expression_op(lambda a: a * a - a, replicas.own_row(x))
    )
    np.testing.assert_array_equal(result, x * x - x)


def test_expressions_run_in_a_loop():
    replicas.configure(1)
    with tf.Graph().as_default():
        with scopes.ipu_scope("/device:IPU:0"):
            body = lambda x: codelet_expression_op(lambda a: a + a * constant(0.5), x)  # noqa: E731
            launch = ipu_compiler.compile(lambda: loops.repeat(4, body, [tf.constant(X)]))
        with tf1.Session() as session:
            (result,) = session.run(launch)
    np.testing.assert_array_equal(result, X * 1.5**4)


class TestTypes:
    """C++ computes in the wider type of two; the result has the type of the first argument."""

    @pytest.mark.parametrize(
        ("function", "expected", "arguments"),
        [
            (lambda x, n: x * n, [8.0, -10.0], [("float32", [2, 5]), ("int32", [4, -2])]),
            (lambda n, x: n * x, [3, -7], [("int32", [2, 5]), ("float32", [1.5, -1.5])]),
            (lambda x, n: x + n, [6.0, 3.0], [("float16", [2, 5]), ("int32", [4, -2])]),
            (lambda x, y: x + y, [6.0, 3.0], [("bfloat16", [2, 5]), ("float16", [4, -2])]),
            (lambda n: n * n * n, [8, -125], [("int8", [2, -5])]),
            (lambda n: n * constant(100), [-56, 12], [("int8", [2, -5])]),  # wraps at the end
            (lambda n, m: n * m, [2**33, -(2**33)], [("int64", [2, -2]), ("int64", [2**32] * 2)]),
            (lambda n: n * constant(2**33), [2**34, 0], [("int64", [2, 0])]),
            (lambda p, n: p - n, [True, False], [("bool", [False, True]), ("int32", [3, 1])]),
        ],
    )
    def test_mixed_types_give_type_of_first_argument(self, function, expected, arguments):
        tensors = [tf.constant(values, dtype) for dtype, values in arguments]
        result = codelet_expression_op(function, *tensors)
        assert result.dtype == tensors[0].dtype
        np.testing.assert_array_equal(result, np.array(expected, result.dtype.as_numpy_dtype))

    def test_unsigned_integers_wrap(self):
        x = tf.constant([1, 7], tf.uint32)
        np.testing.assert_array_equal(
            codelet_expression_op(lambda a: -a, x), [2**32 - 1, 2**32 - 7]
        )
        np.testing.assert_array_equal(codelet_expression_op(abs, x), [1, 7])

    def test_half_rounds_after_each_operation(self):
        x = np.full(3, 0.1, np.float16)
        result = codelet_expression_op(lambda a: a * a * a, tf.constant(x))
        np.testing.assert_array_equal(result, x * x * x)

    def test_float_constant_is_float32(self):
        x = np.array([1000.0], np.float16)
        result = codelet_expression_op(
            lambda a: a * constant(0.1) - constant(100.0), tf.constant(x)
        )
        expected = (x.astype(np.float32) * np.float32(0.1) - 100).astype(np.float16)
        np.testing.assert_array_equal(result, expected)


def test_part_used_twice_is_computed_once():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2])
        codelet_expression_op(lambda a: let(a * a, lambda t: t + t), x)
    assert [op.type for op in graph.get_operations()].count("Mul") == 1


@pytest.mark.parametrize("known", [True, False])
def test_arguments_broadcast_against_each_other(known):
    x, y, z = np.arange(8.0, dtype="f")[:, None], np.float32([3]), np.arange(8.0, dtype="f")[None]
    specs = [tf.TensorSpec(a.shape if known else [None] * a.ndim) for a in (x, y, z)]

    @tf.function(input_signature=specs)
    def compute(*arguments):
        result = codelet_expression_op(lambda x, y, z: x * x + y * z, *arguments)
        # A shape that only an argument has which is not in the expression.
        unused = codelet_expression_op(lambda x, y, z: x, *arguments)
        assert not known or result.shape == unused.shape == [8, 8]
        return result, unused

    result, unused = compute(x, y, z)
    np.testing.assert_array_equal(result, x * x + y * z)
    np.testing.assert_array_equal(unused, np.broadcast_to(x, [8, 8]))


def test_the_type_is_that_of_the_first_argument():
    result = codelet_expression_op(lambda x, y: x + y, tf.constant([1, 2]), tf.constant([[0.75]]))
    assert result.dtype == tf.int32
    np.testing.assert_array_equal(result, [[1, 2]])


def test_results_have_a_static_shape():
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [2, 3])
        assert codelet_expression_op(lambda a: constant(1) + a, x).shape == [2, 3]
        assert codelet_expression_op(lambda a: constant(1), x).shape == [2, 3]


@pytest.mark.parametrize("api", ["tape", "gradients"])
def test_gradients_are_refused(api):
    with pytest.raises(LookupError, match="cannot be used for training"):
        if api == "tape":
            x = tf.Variable(X)
            with tf.GradientTape() as tape:
                y = codelet_expression_op(lambda a: a * a, x)
            tape.gradient(y, x)
        else:
            with tf.Graph().as_default():
                x = tf1.placeholder(tf.float32, [2])
                tf.gradients(codelet_expression_op(lambda a: a * a, x), x)


class TestErrors:
    """Unsupported operations are named."""

    @pytest.mark.parametrize(
        ("function", "name"),
        [
            (lambda x, y: x / y, r"division \(/\)"),
            (lambda x, y: 1 / x, r"division \(/\)"),
            (lambda x, y: x // y, r"division \(//\)"),
            (lambda x, y: x**2, r"powers \(\*\*\)"),
            (lambda x, y: x % y, "remainder"),
            (lambda x, y: x @ y, "matrix products"),
            (lambda x, y: x & y, "&"),
            (lambda x, y: x > y, "comparison >"),
            (lambda x, y: x == y, "comparison =="),
            (lambda x, y: x if x else y, "conditions"),
            (lambda x, y: x[0], "indexing"),
            (lambda x, y: tf.exp(x), "tf.math.exp"),
            (lambda x, y: tf.add(x, y), "tf.math.add"),
            (lambda x, y: np.exp(x), "numpy.exp"),
            (lambda x, y: np.ones(2) * x, "numpy.multiply"),
            (lambda x, y: sum(float(v) for v in (x, y)), "float"),
        ],
    )
    def test_unsupported_operators_are_refused(self, function, name):
        with pytest.raises(TypeError, match=f"does not support .*{name}"):
            codelet_expression_op(function, tf.constant(X), tf.constant(Y))

    @pytest.mark.parametrize(
        "function", [lambda x: x + 1, lambda x: 1 + x, lambda x: x - 1, lambda x: 1 * x]
    )
    def test_python_numbers_are_refused(self, function):
        with pytest.raises(TypeError, match=r"Write vertex_edsl.constant\(1\)"):
            codelet_expression_op(function, tf.constant(X))

    def test_captured_tensors_are_refused(self):
        with pytest.raises(TypeError, match="one more argument"):
            codelet_expression_op(lambda x: x + tf.constant(1.0), tf.constant(X))

    @pytest.mark.parametrize("result", [3, None, (1, 2), tf.constant(1)])
    def test_results_that_are_no_expression_are_refused(self, result):
        with pytest.raises(TypeError, match="must return one expression"):
            codelet_expression_op(lambda x: result, tf.constant(X))

    def test_what_is_no_function_is_refused(self):
        with pytest.raises(TypeError, match="must be a function"):
            codelet_expression_op("x + y", tf.constant(X))

    def test_a_wrong_number_of_arguments_is_refused(self):
        with pytest.raises(TypeError, match="positional argument"):
            codelet_expression_op(lambda x: x, tf.constant(X), tf.constant(Y))
        with pytest.raises(ValueError, match="at least one tensor"):
            codelet_expression_op(lambda: constant(1))

    def test_shapes_that_do_not_broadcast_are_refused(self):
        with pytest.raises(ValueError, match=r"broadcast with each other.*\(2, 3\), \(2,\)"):
            codelet_expression_op(lambda x, y: x + y, tf.constant(X), tf.constant(X[0, :2]))

    def test_unsupported_types_are_refused(self):
        with pytest.raises(TypeError, match="argument 1 of float64"):
            codelet_expression_op(lambda x, y: x, tf.constant(X), tf.constant(X, tf.float64))

    @pytest.mark.parametrize("value", ["1", None, 1j, [1]])
    def test_constants_that_are_no_number_are_refused(self, value):
        with pytest.raises(TypeError, match="takes an int or a float"):
            constant(value)

    def test_constants_beyond_64_bits_are_refused(self):
        with pytest.raises(ValueError, match="up to 64 bits"):
            constant(2**63)

    def test_wrong_arguments_of_let_are_refused(self):
        with pytest.raises(TypeError, match="takes an expression first"):
            let(1, lambda t: t)
        with pytest.raises(TypeError, match="takes a function second"):
            let(constant(1), constant(2))
        with pytest.raises(TypeError, match="must return an expression"):
            let(constant(1), lambda t: 1)


def test_other_errors_of_tensorflow_are_as_they_were():
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError), match="(?i)string"):
        tf.exp("x")
