"""Layers, regularizers, variables and optimizers of `tensorflow.contrib`, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.compat.contrib import framework, layers, opt, rnn, seq2seq, training

tf1 = tf.compat.v1

X = np.array([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]], np.float32)
IMAGES = np.arange(32, dtype=np.float32).reshape(2, 4, 4, 1) - 16


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches):
    """Runs tensors in a session, after the variables got their values."""
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        return session.run(fetches)


def names():
    return [variable.op.name for variable in tf1.global_variables()]


class TestLayers:
    def test_fully_connected_equals_numpy_and_reuses_variables(self, graph):
        y = layers.fully_connected(X, 2, biases_initializer=tf.ones_initializer())
        again = layers.fully_connected(X, 2, scope="fully_connected", reuse=True)
        assert names() == ["fully_connected/weights", "fully_connected/biases"]
        result, same, weights, biases = run([y, again, *tf1.trainable_variables()])
        assert weights.shape == (3, 2) and biases.tolist() == [1, 1]
        np.testing.assert_allclose(result, np.maximum(X @ weights + biases, 0), rtol=1e-5)
        np.testing.assert_array_equal(result, same)
        assert len(framework.get_model_variables()) == 2

    def test_linear_takes_inputs_of_any_rank(self, graph):
        y = layers.linear(np.stack([X, X]), 2, biases_initializer=None, scope="a")
        result, weights = run([y, *tf1.trainable_variables()])
        np.testing.assert_allclose(result, np.stack([X, X]) @ weights, rtol=1e-5)
        assert names() == ["a/weights"]

    def test_conv2d_and_pools_equal_numpy(self, graph):
        y = layers.conv2d(IMAGES, 2, 3, stride=2, activation_fn=None, padding="VALID")
        result, weights, biases, most, mean = run(
            [
                *(y, *tf1.trainable_variables()),
                layers.max_pool2d(IMAGES, [2, 2]),
                layers.avg_pool2d(IMAGES, 2),
            ]
        )
        assert names() == ["Conv/weights", "Conv/biases"]
        expected = np.einsum("bhwc,hwcf->bf", IMAGES[:, :3, :3], weights) + biases
        np.testing.assert_allclose(result[:, 0, 0], expected, rtol=1e-4)
        parts = IMAGES.reshape(2, 2, 2, 2, 2, 1)
        np.testing.assert_allclose(most, parts.max((2, 4)))
        np.testing.assert_allclose(mean, parts.mean((2, 4)))

    def test_layer_norm_equals_numpy(self, graph):
        y = layers.layer_norm(X, activation_fn=tf.nn.relu)
        assert names() == ["LayerNorm/beta", "LayerNorm/gamma"]
        expected = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
        np.testing.assert_allclose(run(y), np.maximum(expected, 0), rtol=1e-5)

    def test_batch_norm_updates_moving_statistics(self, graph):
        y = layers.batch_norm(X, decay=0.5, scale=True, epsilon=0.0, updates_collections=None)
        assert set(names()) == {
            f"BatchNorm/{name}" for name in ("beta", "gamma", "moving_mean", "moving_variance")
        }
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            np.testing.assert_allclose(session.run(y), (X - X.mean(0)) / X.std(0), rtol=1e-4)
            moving = framework.get_unique_variable("BatchNorm/moving_mean")
            np.testing.assert_allclose(session.run(moving), X.mean(0) / 2, rtol=1e-5)

    def test_batch_norm_collects_its_updates_for_training(self, graph):
        layers.fully_connected(X, 2, normalizer_fn=layers.batch_norm)
        assert len(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)) == 2
        assert "fully_connected/biases" not in names()

    def test_flatten_one_hot_bias_add_dropout_equal_numpy(self, graph):
        flat = layers.flatten(IMAGES)
        hot = layers.one_hot_encoding([1, 0], 3, on_value=2.0)
        added = layers.bias_add(X, initializer=tf.ones_initializer(), activation_fn=tf.abs)
        kept = layers.dropout(X, 0.5, is_training=False)
        dropped = layers.dropout(tf.ones([1000]), 0.25, seed=1)
        flat, hot, added, kept, dropped = run([flat, hot, added, kept, dropped])
        np.testing.assert_array_equal(flat, IMAGES.reshape(2, 16))
        np.testing.assert_array_equal(hot, [[0, 2, 0], [2, 0, 0]])
        np.testing.assert_array_equal(added, abs(X + 1))
        np.testing.assert_array_equal(kept, X)
        assert set(dropped) == {0.0, 4.0} and 150 < np.count_nonzero(dropped) < 350

    def test_stack_and_repeat_number_their_scopes(self, graph):
        layers.stack(X, layers.fully_connected, [4, 2], scope="fc")
        assert names()[::2] == ["fc/fc_1/weights", "fc/fc_2/weights"]
        layers.repeat(X, 2, layers.fully_connected, 3, scope="r")
        assert names()[4::2] == ["r/r_1/weights", "r/r_2/weights"]

    def test_an_unknown_data_format_is_refused(self, graph):
        with pytest.raises(ValueError, match="data_format has to be either NCHW or NHWC"):
            layers.max_pool2d(IMAGES, 2, data_format="CHWN")

    def test_an_arg_scope_sets_arguments_of_layers(self, graph):
        with framework.arg_scope([layers.fully_connected], activation_fn=tf.nn.tanh):
            y = layers.fully_connected(X, 2)
        result, weights, _ = run([y, *tf1.trainable_variables()])
        np.testing.assert_allclose(result, np.tanh(X @ weights), rtol=1e-4)


class TestInitializersAndRegularizers:
    def test_xavier_has_range_and_spread_of_its_formula(self, graph):
        uniform = layers.xavier_initializer(seed=1)([300, 100])
        normal = layers.xavier_initializer_conv2d(uniform=False, seed=1)([3, 3, 20, 30])
        uniform, normal = run([uniform, normal])
        assert abs(uniform).max() <= np.sqrt(6 / 400) < abs(uniform).max() * 1.01
        assert normal.std() == pytest.approx(np.sqrt(2 / (9 * 50)), rel=0.05)

    def test_variance_scaling_has_the_spread_of_its_mode(self, graph):
        values = run(layers.variance_scaling_initializer(mode="FAN_OUT", seed=2)([50, 200]))
        assert values.std() == pytest.approx(np.sqrt(2 / 200), rel=0.05)
        with pytest.raises(TypeError, match=r"Unknown mode x \[FAN_IN, FAN_OUT, FAN_AVG\]"):
            layers.variance_scaling_initializer(mode="x")
        with pytest.raises(TypeError, match="non-floating point type"):
            layers.xavier_initializer(dtype=tf.int32)

    def test_regularizers_equal_their_formulas_and_are_collected(self, graph):
        with tf1.variable_scope("a", regularizer=layers.l1_l2_regularizer(0.5, 0.25)):
            tf1.get_variable("w", initializer=X)
        loss = layers.apply_regularization(layers.l2_regularizer(2.0), [tf.constant(X)])
        other, known = run([loss, tf1.losses.get_regularization_losses()])
        assert other == pytest.approx((X**2).sum())
        assert known[0] == pytest.approx(0.5 * abs(X).sum() + 0.125 * (X**2).sum())
        assert layers.l1_regularizer(0.0)(X) is None
        with pytest.raises(ValueError, match="scale cannot be an integer: 1"):
            layers.l2_regularizer(1)
        with pytest.raises(ValueError, match="Setting a scale less than 0 on a regularizer"):
            layers.l1_regularizer(-1.0)


class TestVariables:
    def test_are_found_by_name(self, graph):
        with tf1.variable_scope("a"):
            w = framework.model_variable("w", [2])
        b = framework.variable("b", [2], trainable=False)
        local = framework.local_variable(1.0, name="l")
        assert framework.get_variables() == [w, b] and framework.get_variables("a") == [w]
        assert framework.get_model_variables() == [w] == framework.get_trainable_variables()
        assert framework.get_variables_by_name("w") == [w]
        assert framework.get_variables_by_suffix("b") == [b]
        assert framework.get_variables_to_restore(exclude=["a"]) == [b]
        assert framework.filter_variables([w, b], ["/w"]) == [w]
        assert local in tf1.local_variables()
        with pytest.raises(ValueError, match="Variable c does not uniquely identify a variable"):
            framework.get_unique_variable("c")

    def test_values_and_checkpoints_are_assigned(self, graph, tmp_path):
        w = tf1.get_variable("w", [2])
        with tf1.Session() as session:
            framework.assign_from_values_fn({"w": np.array([1.0, 2.0])})(session)
            path = tf1.train.Saver().save(session, str(tmp_path / "c"))
        with tf1.Session() as session:
            framework.assign_from_checkpoint_fn(path, [w])(session)
            assert session.run(w).tolist() == [1, 2]
        missing = {"none": w}
        framework.assign_from_checkpoint(path, missing, ignore_missing_vars=True)
        with pytest.raises(ValueError, match=r"Checkpoint is missing variable \[none\]"):
            framework.assign_from_checkpoint(path, missing)


def lars(w, g, m, rate, momentum, decay, eeta):
    trust = eeta * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w))
    m = momentum * m + g + decay * w
    return w - rate * trust * m, m


class TestOptimizers:
    """Two steps on gradients of half the square of a variable, which are the variable itself."""

    def train(self, optimizer, use_resource, **options):
        w = tf1.get_variable("w", initializer=np.float32([1.0, -2.0]), use_resource=use_resource)
        step = optimizer.minimize(tf.reduce_sum(tf.square(w)) / 2, **options)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            session.run(step)
            return session.run(w)

    @pytest.mark.parametrize("use_resource", [False, True])
    def test_momentum_with_decay_follows_its_formula(self, graph, use_resource):
        result = self.train(opt.MomentumWOptimizer(0.1, 0.5, 0.9), use_resource)
        w, m = np.float32([1.0, -2.0]), 0.0
        for _ in range(2):
            m = 0.9 * m + w
            w = w - 0.1 * w - 0.5 * m
        np.testing.assert_allclose(result, w, rtol=1e-5)

    def test_only_chosen_variables_decay(self, graph):
        optimizer = opt.extend_with_decoupled_weight_decay(tf1.train.GradientDescentOptimizer)
        result = self.train(optimizer(0.1, learning_rate=0.5), True, decay_var_list=[])
        np.testing.assert_allclose(result, [0.25, -0.5])

    @pytest.mark.parametrize("use_resource", [False, True])
    @pytest.mark.parametrize("kind", ["AdamW", "Nadam", "LazyAdam"])
    def test_adam_variants_follow_their_formulas(self, graph, kind, use_resource):
        decay = {"weight_decay": 0.1} if kind == "AdamW" else {}
        optimizer = getattr(opt, f"{kind}Optimizer")(learning_rate=0.1, **decay)
        result = self.train(optimizer, use_resource)
        w, m, v = np.float32([1.0, -2.0]), 0.0, 0.0
        for t in (1, 2):
            g = w
            if kind == "AdamW":
                w = w - 0.1 * w
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            first = 0.9 * m + 0.1 * g if kind == "Nadam" else m
            rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            w = w - rate * first / (np.sqrt(v) + 1e-8)
        np.testing.assert_allclose(result, w, rtol=1e-4)

    def test_lazy_adam_leaves_other_rows(self, graph):
        table = tf1.get_variable("t", initializer=np.ones([3, 2], np.float32), use_resource=True)
        loss = tf.reduce_sum(tf.gather(table, [1]))
        step = opt.LazyAdamOptimizer(0.1).minimize(loss)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step)
            np.testing.assert_allclose(session.run(table), [[1, 1], [0.9, 0.9], [1, 1]], rtol=1e-4)

    @pytest.mark.parametrize("use_resource", [False, True])
    def test_lars_follows_its_formula(self, graph, use_resource):
        optimizer = opt.LARSOptimizer(0.5, momentum=0.9, weight_decay=0.1, eeta=0.2)
        result = self.train(optimizer, use_resource)
        w, m = np.float64([1.0, -2.0]), 0.0
        for _ in range(2):
            w, m = lars(w, w, m, 0.5, 0.9, 0.1, 0.2)
        np.testing.assert_allclose(result, w, rtol=1e-5)
        with pytest.raises(ValueError, match="momentum should be positive: -1"):
            opt.LARSOptimizer(0.1, momentum=-1)


class TestTraining:
    def test_sequence_loss_is_weighted_mean_of_cross_entropies(self, graph):
        logits = np.float32([[[0, 1], [2, 0]], [[1, 1], [0, 3]]])
        targets, weights = np.array([[1, 0], [0, 1]]), np.float32([[1, 1], [1, 0]])
        own = (
            np.log(np.exp(logits).sum(-1))
            - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
        )
        mean, each = run(
            [
                seq2seq.sequence_loss(*map(tf.constant, (logits, targets, weights))),
                seq2seq.sequence_loss(
                    *map(tf.constant, (logits, targets, weights)), average_across_batch=False
                ),
            ]
        )
        assert mean == pytest.approx((own * weights).sum() / 3, rel=1e-5)
        np.testing.assert_allclose(each, (own * weights).sum(1) / weights.sum(1), rtol=1e-5)
        with pytest.raises(ValueError, match="Logits must be a 3-dimensional tensor"):
            seq2seq.sequence_loss(weights, targets, weights)

    def test_training_steps_clip_and_count(self, graph):
        w = tf1.get_variable("w", initializer=np.float32([3.0, 4.0]), use_resource=True)
        loss = tf.reduce_sum(tf.square(w)) / 2
        step = tf1.train.get_or_create_global_step()
        train = layers.optimize_loss(loss, step, 0.5, "SGD", clip_gradients=1.0)
        other = training.create_train_op(loss, tf1.train.GradientDescentOptimizer(0.5))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            assert session.run(train) == 12.5
            np.testing.assert_allclose(session.run(w), [2.7, 3.6], rtol=1e-5)
            session.run(other)
            np.testing.assert_allclose(session.run(w), [1.35, 1.8], rtol=1e-5)
            assert session.run(step) == 2
        with pytest.raises(ValueError, match=r"Optimizer name should be one of \[Adagrad"):
            layers.optimize_loss(loss, step, 0.5, "x")


@pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning")
class TestRecurrent:
    def test_bidirectional_layers_stack_both_directions(self, graph):
        cells = [[tf1.nn.rnn_cell.GRUCell(2) for _ in range(2)] for _ in range(2)]
        outputs, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
            *cells, tf.ones([3, 4, 5]), dtype=tf.float32
        )
        assert outputs.shape == [3, 4, 4] and len(forward) == len(backward) == 2
        outputs, last = run([outputs, forward[1]])
        np.testing.assert_allclose(outputs[:, -1, :2], last)
        with pytest.raises(ValueError, match="must have the same depth, at least 1"):
            rnn.stack_bidirectional_dynamic_rnn([], [], outputs)

    def test_helpers_transpose_and_infer_batch_sizes(self, graph):
        x = tf1.placeholder(tf.float32, [2, None, 4])
        assert rnn.transpose_batch_time(x).shape.as_list() == [None, 2, 4]
        assert rnn.best_effort_input_batch_size([x, tf.ones([5, 6])]) == 6
