"""Tests of normalisation over groups of channels, layers and instances."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from tensorflow.python import tf2

from tensorflow_ipu import profiler
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import normalization_ops
from tests.support.models import normalization
from tests.support.programs import replicas

tf1 = tf.compat.v1
EPSILON = 1e-3

# Shape and channels axis.
LAYOUTS = [
    ((3, 4, 5, 8), -1),
    ((3, 8, 4, 5), 1),
    ((3, 8, 4, 5), -3),
    ((2, 3, 2, 3, 8), 4),
    ((2, 6, 8), 2),
    ((3, 8), -1),
    ((1, 1, 1, 8), -1),
]


def constants(**arrays):
    """Returns initializers with values."""
    return {name: tf1.constant_initializer(array) for name, array in arrays.items()}


def parameters(channels):
    """Returns values for gamma and beta."""
    generator = np.random.default_rng(channels)
    return generator.normal(1, 0.3, channels), generator.normal(0, 1, channels)


def in_session(function, x, weights, gamma, beta, program=False):
    """Returns the result and the gradients of x, gamma, beta, on the CPU or in a program."""

    def step(inputs):
        y = function(inputs, param_initializers=constants(gamma=gamma, beta=beta))
        beta_variable, gamma_variable = tf1.trainable_variables()
        sources = [inputs, gamma_variable, beta_variable]
        return [y, *tf.gradients(y, sources, tf.constant(weights, y.dtype))]

    with tf.Graph().as_default():
        inputs = tf1.placeholder(x.dtype, x.shape)
        if program:
            replicas.configure(1)
            with scopes.ipu_scope("/device:IPU:0"):
                results = ipu_compiler.compile(step, [inputs])
        else:
            results = step(inputs)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            return session.run(results, {inputs: x})


def check(function, shape, axis, groups, strided, dtype, program=False):
    """Compares a function with the reference, forward and gradients."""
    channels = shape[axis]
    x = normalization.values(*shape, dtype=dtype)
    weights = normalization.values(*shape, dtype=dtype, seed=1)
    gamma, beta = (array.astype(dtype) for array in parameters(channels))
    actual = in_session(function, x, weights, gamma, beta, program)
    assert [array.dtype for array in actual] == [dtype] * 4
    expected = normalization.with_gradients(x, gamma, beta, weights, groups, axis, strided, EPSILON)
    normalization.assert_close(actual, expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize(("shape", "axis"), LAYOUTS)
def test_group_norm_equals_the_reference(shape, axis, groups, strided, dtype):
    def function(x, **kwargs):
        return normalization_ops.group_norm(
            x, groups, axis, epsilon=EPSILON, strided_channel_grouping=strided, **kwargs
        )

    check(function, shape, axis, groups, strided, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(3, 4, 5, 8), (3, 8, 4, 5)])
@pytest.mark.parametrize("kind", ["layer_norm", "instance_norm"])
def test_layer_and_instance_norm_equal_the_reference(kind, shape, dtype):
    axis = shape.index(8) if shape[-1] != 8 else -1
    groups = {"layer_norm": 1, "instance_norm": 8}[kind]

    def function(x, **kwargs):
        return getattr(normalization_ops, kind)(x, axis, epsilon=EPSILON, **kwargs)

    check(function, shape, axis, groups, False, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("axis", [-1, 1])
def test_group_norm_equals_the_reference_in_a_program(axis, strided, dtype):
    def function(x, **kwargs):
        return normalization_ops.group_norm(
            x, 4, axis, epsilon=EPSILON, strided_channel_grouping=strided, **kwargs
        )

    check(function, (2, 8, 3, 8), axis, 4, strided, dtype, program=True)


class TestGrouping:
    """The two kinds of groups."""

    # Channels 0 and 2 hold one number, 1 and 3 another.
    X = np.float32([[[1, 5, 1, 5]]])

    def test_strided_groups_take_every_nth_channel(self):
        y = normalization_ops.group_norm(self.X, 2, center=False, scale=False)
        np.testing.assert_allclose(y, np.zeros([1, 1, 4]), atol=1e-6)

    def test_blocked_groups_take_neighboring_channels(self):
        y = normalization_ops.group_norm(
            self.X, 2, center=False, scale=False, strided_channel_grouping=False
        )
        np.testing.assert_allclose(y, [[[-1, 1, -1, 1]]], atol=1e-5)


class TestNumerics:
    """Statistics in float32, the variance from differences to the mean."""

    def test_values_far_from_zero_keep_their_precision(self):
        x = (normalization.values(2, 16, 16, 4) + 1e4).astype(np.float32)
        y = normalization_ops.group_norm(x, 2, center=False, scale=False, epsilon=EPSILON)
        expected = normalization.reference(
            tf.constant(x, tf.float64), np.ones(4), np.zeros(4), 2, -1, True, EPSILON
        )
        np.testing.assert_allclose(y, expected, atol=1e-2)

    def test_float16_statistics_do_not_overflow(self):
        x = np.float16([[[[0.0, 60000.0], [30000.0, 10000.0]]]])
        y = normalization_ops.layer_norm(x, center=False, scale=False)
        wide = x.astype(np.float64)
        np.testing.assert_allclose(y, (wide - wide.mean()) / wide.std(), atol=2e-3)
        assert y.dtype == tf.float16

    def test_second_derivatives_equal_the_reference(self):
        x = tf.constant(normalization.values(2, 3, 4))

        def squared_gradient(function, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(tf.sin(function(x)))
            return tf.reduce_sum(tape.gradient(loss, x) ** 2)

        def second(function, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                result = squared_gradient(function, x)
            return tape.gradient(result, x)

        actual = second(
            lambda x: normalization_ops.group_norm(
                x, 2, center=False, scale=False, epsilon=EPSILON
            ),
            x,
        )
        expected = second(
            lambda x: normalization.reference(
                x, np.ones(4), np.zeros(4), 2, -1, True, np.float64(EPSILON)
            ),
            tf.cast(x, tf.float64),
        )
        np.testing.assert_allclose(actual, expected, atol=1e-4)

    def test_training_has_no_effect(self):
        x = normalization.values(2, 3, 4)
        results = [
            normalization_ops.group_norm(x, center=False, scale=False, training=training)
            for training in (True, False)
        ]
        np.testing.assert_array_equal(*results)

    def test_batch_and_positions_may_be_unknown(self):
        x = normalization.values(2, 3, 5, 4)
        weights = normalization.values(2, 3, 5, 4, seed=1)
        gamma, beta = parameters(4)

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 4])])
        def function(x):
            y = normalization_ops.group_norm(x, 2, center=False, scale=False, epsilon=EPSILON)
            return y, tf.gradients(y, x, weights)[0]

        actual = function(x)
        expected = normalization.with_gradients(
            x, np.ones(4), np.zeros(4), weights, 2, -1, True, EPSILON
        )
        normalization.assert_close(actual, expected[:2], "float32")


class TestPrograms:
    """In loops, on replicas, and compiled once."""

    @pytest.mark.parametrize("in_session", [True, False])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_gradients_equal_the_reference_on_two_replicas(self, in_session, dtype):
        x = np.stack([normalization.values(2, 3, 8, seed=s, dtype=dtype) for s in range(2)])
        weights = normalization.values(2, 3, 8, seed=2, dtype=dtype)

        def program():
            own = replicas.own_row(x)
            with tf.GradientTape() as tape:
                tape.watch(own)
                y = normalization_ops.group_norm(own, 4, center=False, scale=False, epsilon=EPSILON)
            return y, tape.gradient(y, own, tf.constant(weights))

        results = replicas.run(2, program, in_session)
        for replica in range(2):
            expected = normalization.with_gradients(
                x[replica], np.ones(8), np.zeros(8), weights, 4, -1, True, EPSILON
            )
            normalization.assert_close([r[replica] for r in results], expected[:2], dtype)

    def test_training_in_a_loop_equals_the_reference(self):
        """Gradient descent on gamma and beta, ten steps in a loop on the device."""
        x = normalization.values(4, 3, 8)
        target = normalization.values(4, 3, 8, seed=1)

        def step(loss):
            y = normalization_ops.group_norm(tf.constant(x), 4, epsilon=EPSILON)
            loss = tf.reduce_mean((y - target) ** 2)
            optimizer = tf1.train.GradientDescentOptimizer(0.5)
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return tf.identity(loss)

        with tf.Graph().as_default():
            replicas.configure(1)
            with scopes.ipu_scope("/device:IPU:0"):
                run = ipu_compiler.compile(lambda: loops.repeat(10, step, [0.0]))
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                loss = session.run(run)[0]
                gamma = session.run(tf1.global_variables("GroupNorm/gamma"))[0]
        expected_loss, expected_gamma = _descent(x, target)
        np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
        np.testing.assert_allclose(gamma, expected_gamma, atol=1e-4)

    def test_equal_programs_are_one_executable(self):
        """Gradient functions have names of their own each time; they do not count."""
        replicas.configure(1)
        for _ in range(2):
            with tf.Graph().as_default():
                with scopes.ipu_scope("/device:IPU:0"):
                    run = ipu_compiler.compile(
                        lambda: normalization_ops.group_norm(tf.ones([2, 4]))
                    )
                with tf1.Session() as session:
                    session.run(tf1.global_variables_initializer())
                    session.run(run)
        assert len(profiler.executables()) == 1


def _descent(x, target):
    """Returns the last loss and the last gamma but for the device."""
    gamma, beta = tf.Variable(np.ones(8)), tf.Variable(np.zeros(8))
    for _ in range(10):
        with tf.GradientTape() as tape:
            y = normalization.reference(
                tf.constant(x, tf.float64), gamma, beta, 4, -1, True, np.float64(EPSILON)
            )
            loss = tf.reduce_mean((y - target) ** 2)
        for variable, gradient in zip((gamma, beta), tape.gradient(loss, [gamma, beta])):
            variable.assign_sub(0.5 * gradient)
    return loss.numpy(), gamma.numpy()


FUNCTIONS = [
    (normalization_ops.group_norm, "GroupNorm"),
    (normalization_ops.layer_norm, "LayerNorm"),
    (normalization_ops.instance_norm, "InstanceNorm"),
]


@pytest.mark.parametrize(("function", "scope"), FUNCTIONS)
class TestVariables:
    """Names, collections, reuse."""

    def test_variables_have_the_documented_names_and_values(self, function, scope):
        with tf.Graph().as_default(), tf1.Session() as session:
            for _ in range(2):
                function(tf.ones([2, 3, 4]))
            variables = tf1.global_variables()
            names = [f"{scope}{n}/{v}:0" for n in ("", "_1") for v in ("beta", "gamma")]
            assert [v.name for v in variables] == names
            assert tf1.trainable_variables() == tf1.model_variables() == variables
            session.run(tf1.global_variables_initializer())
            for variable, value in zip(variables, (0, 1)):
                np.testing.assert_array_equal(session.run(variable), np.full([4], value))

    @pytest.mark.parametrize("center", [True, False])
    @pytest.mark.parametrize("scale", [True, False])
    def test_center_and_scale_decide_on_the_variables(self, function, scope, center, scale):
        with tf.Graph().as_default():
            function(tf.ones([2, 3, 4], tf.float16), center=center, scale=scale, scope="mine")
            wanted = ["beta"] * center + ["gamma"] * scale
            assert [v.op.name for v in tf1.global_variables()] == [f"mine/{n}" for n in wanted]
            assert all(v.dtype.base_dtype == tf.float16 for v in tf1.global_variables())

    def test_variables_need_not_be_trainable(self, function, scope):
        with tf.Graph().as_default():
            function(tf.ones([2, 3, 4]), trainable=False)
            assert not tf1.trainable_variables() and len(tf1.global_variables()) == 2

    def test_variables_are_reused_on_request(self, function, scope):
        with tf.Graph().as_default():
            function(tf.ones([2, 3, 4]), scope="shared")
            function(tf.ones([5, 4]), scope="shared", reuse=True)
            assert len(tf1.global_variables()) == 2
            with pytest.raises(ValueError, match="already exists"):
                function(tf.ones([5, 4]), scope="shared")
            with pytest.raises(ValueError, match="reuse"):
                function(tf.ones([5, 4]), reuse=True)

    @pytest.mark.parametrize("collections", [["mine"], {"beta": ["mine"], "gamma": ["mine"]}])
    def test_variables_are_put_into_collections(self, function, scope, collections):
        with tf.Graph().as_default():
            function(tf.ones([2, 3, 4]), variables_collections=collections)
            assert tf1.get_collection("mine") == tf1.global_variables()

    def test_initializers_fill_beta_and_gamma(self, function, scope):
        with tf.Graph().as_default(), tf1.Session() as session:
            initializers = constants(beta=np.arange(4.0))
            function(tf.ones([2, 3, 4]), param_initializers=initializers)
            session.run(tf1.global_variables_initializer())
            beta, gamma = session.run(tf1.global_variables())
        np.testing.assert_array_equal(beta, np.arange(4))
        np.testing.assert_array_equal(gamma, np.ones(4))


class TestEpsilon:
    """The default of each generation, and the warning."""

    @pytest.mark.parametrize(("enabled", "epsilon"), [(False, 1e-6), (True, 1.53e-5)])
    @pytest.mark.parametrize(("function", "scope"), FUNCTIONS)
    def test_default_epsilon_depends_on_the_version_of_tensorflow(
        self, monkeypatch, function, scope, enabled, epsilon
    ):
        monkeypatch.setattr(tf2, "enabled", lambda: enabled)
        monkeypatch.setattr(logging, "warning", lambda *args: pytest.fail(args[0]))
        x = 1e-3 * normalization.values(2, 6, 4)
        y = function(x, center=False, scale=False)
        groups = {"GroupNorm": 2, "LayerNorm": 1, "InstanceNorm": 4}[scope]
        expected = normalization.reference(
            tf.constant(x, tf.float64), np.ones(4), np.zeros(4), groups, -1, True, epsilon
        )
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)

    def test_small_one_is_used_with_a_warning(self, monkeypatch):
        warnings = []
        monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
        x = normalization.values(2, 6, 4) * 1e-4
        y = normalization_ops.group_norm(x, 2, center=False, scale=False, epsilon=1e-6)
        expected = normalization.reference(
            tf.constant(x, tf.float64), np.ones(4), np.zeros(4), 2, -1, True, 1e-6
        )
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)
        normalization_ops.layer_norm(x, center=False, scale=False, epsilon=1e-7)
        (warning,) = warnings  # once, though there are two
        assert "epsilon of 1e-06" in warning and "1.53e-05" in warning
        assert "Layer: GroupNorm;" in warning


class TestErrors:
    """Mistakes of the user."""

    @pytest.mark.parametrize("axis", [4, -5])
    def test_a_channels_axis_beyond_the_rank_is_refused(self, axis):
        with pytest.raises(ValueError, match=rf"Axis is out of bounds\. .*channels_axis={axis}"):
            normalization_ops.group_norm(tf.ones([2, 4, 4, 4]), channels_axis=axis)

    @pytest.mark.parametrize("axis", [0, 2, -2, -4])
    def test_an_unsupported_channels_axis_is_refused(self, axis):
        with pytest.raises(ValueError, match=rf"Unsupported data format.*channels_axis={axis}"):
            normalization_ops.group_norm(tf.ones([2, 4, 4, 4]), channels_axis=axis)

    @pytest.mark.parametrize("groups", [0, -1, 5, 8])
    def test_a_wrong_number_of_groups_is_refused(self, groups):
        with pytest.raises(ValueError, match=f"Invalid groups {groups} for 4 channels"):
            normalization_ops.group_norm(tf.ones([2, 3, 4]), groups)

    def test_groups_that_do_not_divide(self):
        with pytest.raises(ValueError, match="4 channels is not commensurate with 3 groups"):
            normalization_ops.group_norm(tf.ones([2, 3, 4]), 3)

    @pytest.mark.parametrize("shape", [[], [3]])
    def test_ranks_below_two_are_refused(self, shape):
        with pytest.raises(ValueError, match="rank of at least 2"):
            normalization_ops.layer_norm(tf.ones(shape))

    @pytest.mark.parametrize(
        ("shape", "match"),
        [
            (None, "Inputs Placeholder:0 has undefined rank"),
            ([2, None], "Inputs Placeholder:0 has undefined channel dimension"),
        ],
    )
    def test_unknown_shapes_are_refused(self, shape, match):
        with tf.Graph().as_default(), pytest.raises(ValueError, match=match):
            normalization_ops.instance_norm(tf1.placeholder(tf.float32, shape))

    def test_unknown_channels_are_refused_with_tensorflow_1_shapes(self):
        tf1.disable_v2_tensorshape()
        try:
            with tf.Graph().as_default(), pytest.raises(ValueError, match="undefined channel dim"):
                normalization_ops.group_norm(tf1.placeholder(tf.float32, [2, None]), 2)
        finally:
            tf1.enable_v2_tensorshape()

    @pytest.mark.parametrize("dtype", ["int32", "float64", "bfloat16"])
    def test_other_types_are_refused(self, dtype):
        with pytest.raises(TypeError, match=f"LayerNorm takes .* float16, float32.*: {dtype}"):
            normalization_ops.layer_norm(tf.ones([2, 3], dtype))

    def test_initializers_of_other_names_are_refused(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="beta and gamma.*'moving'"):
            initializers = {"moving": tf1.zeros_initializer()}
            normalization_ops.group_norm(tf.ones([2, 4]), param_initializers=initializers)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
@pytest.mark.parametrize("training", [True, False])
def test_batch_normalization_of_short_floats_is_near_float32(dtype, training):
    """Scales, offsets and statistics too; values and gradients are near float32's."""
    replicas.configure(1)
    values = np.random.default_rng(2).normal(size=(2, 3, 3, 4)).astype(np.float32)
    scale, offset = np.float32([1, 2, 0.5, 1]), np.float32([0, 1, -1, 0.5])
    known = () if training else (np.float32([0.5, 0, 0, 1]), np.float32([1, 2, 0.5, 4]))

    def program(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            y, mean, variance = tf.compat.v1.nn.fused_batch_norm(*arguments, is_training=training)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 2)
        return y, mean, variance, tape.gradient(loss, arguments[:3])

    exact = [tf.constant(array) for array in (values, scale, offset, *known)]
    want = program(*exact)
    strategy = ipu_strategy.IPUStrategy()
    compiled = tf.function(program, jit_compile=True)
    found = strategy.run(compiled, [tf.cast(array, dtype) for array in exact])
    # Relative to the largest y, and the largest terms of sums that nearly cancel out.
    tolerance = {tf.float32: 1e-5, tf.float16: 0.02, tf.bfloat16: 0.2}[dtype]
    for mine, theirs in zip(tf.nest.flatten(found), tf.nest.flatten(want)):
        assert mine.dtype == dtype
        np.testing.assert_allclose(tf.cast(mine, tf.float32), theirs, tolerance, tolerance)
