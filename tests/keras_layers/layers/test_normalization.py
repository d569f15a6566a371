"""Tests of the Keras layers that normalise."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from tensorflow.python import ipu

from tensorflow_ipu.api import ipu_compiler, scopes
from tests.support.models import normalization
from tests.support.programs import replicas

tf1 = tf.compat.v1
layers = ipu.keras.layers
EPSILON = 1e-3

# Our layer, the stock layer with the same weights and results, shape of the inputs.
PAIRS = {
    "groups": (
        lambda **k: layers.GroupNormalization(groups=4, strided_channel_grouping=False, **k),
        lambda: tf.keras.layers.GroupNormalization(4),
        (3, 4, 5, 8),
    ),
    "groups first": (
        lambda **k: layers.GroupNormalization(
            groups=2, channels_axis=1, strided_channel_grouping=False, **k
        ),
        lambda: tf.keras.layers.GroupNormalization(2, axis=1),
        (3, 8, 4, 5),
    ),
    "instances": (
        lambda **k: layers.InstanceNormalization(**k),
        lambda: tf.keras.layers.GroupNormalization(-1),
        (3, 4, 5, 8),
    ),
    "instances first": (
        lambda **k: layers.InstanceNormalization(channels_axis=1, **k),
        lambda: tf.keras.layers.GroupNormalization(-1, axis=1),
        (3, 8, 4, 5),
    ),
    "layer": (
        lambda **k: layers.LayerNormalization(**k),
        lambda: tf.keras.layers.LayerNormalization(),
        (3, 4, 5, 8),
    ),
    "layer, two axes": (
        lambda **k: layers.LayerNormalization(axis=[1, 3], **k),
        lambda: tf.keras.layers.LayerNormalization([1, 3]),
        (3, 4, 5, 8),
    ),
    "layer, rank 2": (
        lambda **k: layers.LayerNormalization(axis=1, **k),
        lambda: tf.keras.layers.LayerNormalization(),
        (3, 8),
    ),
}
DTYPES = ["float32", "float16"]


def outputs(layer, x, weights):
    """Returns the result and all gradients."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) * weights)
    return [y, *tape.gradient(loss, [x, *layer.trainable_weights])]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("make", "make_stock", "shape"), PAIRS.values(), ids=PAIRS)
class TestAgainstStockKeras:
    """The same weights give the same results and gradients."""

    def prepare(self, make, make_stock, shape, dtype, device="CPU:0"):
        x = normalization.values(*shape, dtype=dtype)
        weights = normalization.values(*shape, seed=1)
        layer, stock = make(), make_stock()
        stock.build(shape)
        generator = np.random.default_rng(0)
        stock.set_weights([generator.normal(1, 0.5, w.shape) for w in stock.get_weights()])
        with tf.device(device):
            layer.build(shape)
        layer.set_weights(stock.get_weights())
        expected = outputs(stock, tf.constant(x.astype(np.float32)), weights)
        return layer, x, weights, [np.asarray(array) for array in expected]

    def test_results_and_gradients_equal_stock_keras_eagerly(self, make, make_stock, shape, dtype):
        layer, x, weights, expected = self.prepare(make, make_stock, shape, dtype)
        actual = outputs(layer, tf.constant(x), weights)
        assert [a.dtype for a in actual] == [dtype, dtype, "float32", "float32"]
        normalization.assert_close(actual, expected, dtype)

    def test_two_replicas_equal_stock_keras(self, make, make_stock, shape, dtype):
        replicas.configure(2)
        prepared = self.prepare(make, make_stock, shape, dtype, "/device:IPU:0")
        layer, x, weights, expected = prepared
        both = np.stack([x, x[::-1]])
        actual = replicas.run(2, lambda: outputs(layer, replicas.own_row(both), weights))
        normalization.assert_close([a[0] for a in actual], expected, dtype)
        # The other replica has the same samples in another order, and another loss.
        normalization.assert_close([actual[0][1]], [actual[0][0][::-1]], dtype)

    def test_results_equal_stock_keras_in_a_session(self, make, make_stock, shape, dtype):
        x = normalization.values(*shape, dtype=dtype)
        expected = make_stock()(tf.constant(x.astype(np.float32)))
        with tf.Graph().as_default():
            replicas.configure(1)
            layer = make()
            with scopes.ipu_scope("/device:IPU:0"):
                run = ipu_compiler.compile(lambda: layer(tf.constant(x)))
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                actual = session.run(run)[0]
        normalization.assert_close([actual], [expected], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_groups_are_strided_by_default(dtype):
    x = normalization.values(2, 3, 8, dtype=dtype)
    layer = layers.GroupNormalization(groups=4)
    expected = normalization.reference(
        tf.constant(x, tf.float64), np.ones(8), np.zeros(8), 4, -1, True, EPSILON
    )
    normalization.assert_close([layer(x)], [expected], dtype)


@pytest.mark.parametrize("kind", ["Group", "Instance", "Layer"])
class TestLayer:
    """Behavior that all three layers share."""

    def make(self, kind, **kwargs):
        return getattr(layers, f"{kind}Normalization")(**kwargs)

    def test_the_short_name_is_the_same_class(self, kind):
        assert getattr(layers, f"{kind}Norm") is getattr(layers, f"{kind}Normalization")

    def test_weights_are_gamma_and_beta(self, kind):
        layer = self.make(kind, name="mine")
        layer.build([None, 3, 4])
        assert [w.name.split("/")[-1] for w in layer.weights] == ["gamma:0", "beta:0"]
        assert [w.shape for w in layer.trainable_weights] == [[4], [4]]
        np.testing.assert_array_equal(layer.get_weights(), [np.ones(4), np.zeros(4)])

    @pytest.mark.parametrize("center", [True, False])
    @pytest.mark.parametrize("scale", [True, False])
    def test_center_and_scale_decide_on_the_weights(self, kind, center, scale):
        layer = self.make(kind, center=center, scale=scale)
        x = normalization.values(2, 3, 4)
        np.testing.assert_array_equal(layer(x), self.make(kind)(x))
        assert len(layer.weights) == center + scale

    def test_weights_of_a_frozen_layer_are_not_trainable(self, kind):
        layer = self.make(kind, trainable=False)
        layer.build([2, 4])
        assert not layer.trainable_weights and len(layer.non_trainable_weights) == 2

    @pytest.mark.parametrize("dtype", [tf.float16, "float16", None, tf.float32])
    def test_weights_have_the_type_of_the_layer(self, kind, dtype):
        layer = self.make(kind, dtype=dtype)
        x = normalization.values(2, 3, 4)
        y = layer(x)
        assert {w.dtype for w in layer.weights} == {tf.as_dtype(dtype or tf.float32)}
        assert y.dtype == tf.float32
        np.testing.assert_allclose(y, self.make(kind)(x), atol=5e-3)

    def test_initializers_and_epsilon_are_used(self, kind):
        layer = self.make(
            kind, beta_initializer=tf.constant_initializer(3.0), gamma_initializer="zeros"
        )
        np.testing.assert_array_equal(layer(normalization.values(2, 4)), np.full([2, 4], 3))

    def test_a_configuration_makes_the_same_layer(self, kind):
        layer = self.make(kind, epsilon=0.5, center=False, gamma_initializer="zeros", name="mine")
        config = layer.get_config()
        again = type(layer).from_config(config)
        assert again.get_config() == config
        assert again.name == "mine" and again.epsilon == 0.5 and not again.center

    def test_training_has_no_effect(self, kind):
        layer, x = self.make(kind), normalization.values(2, 3, 4)
        np.testing.assert_array_equal(layer(x, training=True), layer(x, training=False))

    def test_layers_are_part_of_a_model(self, kind):
        inputs = tf.keras.Input([3, 4])
        model = tf.keras.Model(inputs, self.make(kind)(inputs))
        x = normalization.values(2, 3, 4)
        assert model.output_shape == (None, 3, 4)
        np.testing.assert_allclose(model.predict(x, verbose=0), self.make(kind)(x), atol=1e-6)

    def test_inputs_of_other_types_are_refused(self, kind):
        with pytest.raises(TypeError, match=f"{kind}Normalization takes .*float16, float32"):
            self.make(kind)(tf.ones([2, 4], tf.int32))


class TestErrors:
    """Mistakes that are found when a layer is built."""

    def test_indivisible_group_count_is_refused(self):
        with pytest.raises(ValueError, match="4 channels is not commensurate with 3 groups"):
            layers.GroupNormalization(groups=3).build([2, 4])

    @pytest.mark.parametrize("layer", [layers.GroupNormalization, layers.InstanceNormalization])
    def test_an_unsupported_channels_axis_is_refused(self, layer):
        with pytest.raises(ValueError, match="Unsupported data format"):
            layer(channels_axis=2).build([2, 4, 4, 4])

    def test_an_axis_beyond_the_rank_is_refused(self):
        with pytest.raises(ValueError, match="axis"):
            layers.LayerNormalization(axis=3).build([2, 4])


def test_small_epsilons_of_many_layers_are_one_warning(monkeypatch):
    said = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: said.append(text % args))
    model = tf.keras.Sequential(
        [ipu.keras.layers.LayerNormalization(epsilon=1e-6, name=f"norm_{i}") for i in range(3)]
    )
    model(tf.ones([2, 4]))
    (warning,) = said
    assert "Layer: norm_0; others with such an epsilon are not named." in warning
