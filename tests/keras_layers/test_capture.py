"""Layers that let gradients be captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_strategy, loops
from tensorflow_ipu.keras_layers import capture, optimizers
from tensorflow_ipu.keras_layers.optimizers import step
from tensorflow_ipu.ops import grad_util_ops
from tests import replicas

keras = tf.keras
Upstream = capture.CaptureUpstreamGradients
Activation = capture.CaptureActivationGradients
each_wrapper = pytest.mark.parametrize("wrapper", [Upstream, Activation])
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def _dense(units: int = 2, activation: str | None = "relu", **settings: Any) -> Any:
    kernel = keras.initializers.GlorotUniform(seed=1)
    return keras.layers.Dense(units, activation, kernel_initializer=kernel, **settings)


def _captured(layer: Any, x: Any) -> tuple[dict[str, Any], Any, Any]:
    """Returns what is captured with the loss sum(y^2), the output, and the kernel's gradient."""
    with grad_util_ops.GradientCaptureContext() as context:
        with tf.GradientTape() as tape:
            y = layer(x)
            loss = tf.reduce_sum(tf.square(tf.cast(y, tf.float32)))
        gradient = tape.gradient(loss, layer.trainable_variables[0])
    return {tag: one for tag, (one,) in context.captured_gradients.items()}, y, gradient


@each_wrapper
def test_captures_and_changes_nothing(wrapper: Any) -> None:
    plain, inner = _dense(), _dense(name="first")
    captured, y, gradient = _captured(wrapper(inner), X)
    nothing, expected, expected_gradient = _captured(plain, X)
    assert nothing == {}
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(gradient, expected_gradient)
    (tag,) = captured
    assert tag == ("first_cug" if wrapper is Upstream else "first_cag")
    np.testing.assert_allclose(captured[tag], 2 * expected, rtol=1e-6)
    assert inner.activation is keras.activations.relu


def test_where_the_two_differ() -> None:
    class Shifted(keras.layers.Dense):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return super().call(inputs) * 3

    layer = Shifted(2, "relu", name="s")
    layer.build([None, 3])
    upstream, y, _ = _captured(Upstream(layer), X)
    activation, _, _ = _captured(Activation(layer), X)
    np.testing.assert_allclose(upstream["s_cug"], 2 * y, rtol=1e-6)
    np.testing.assert_allclose(activation["s_cag"], 6 * y, rtol=1e-6)


@each_wrapper
def test_tags(wrapper: Any) -> None:
    captured, _, _ = _captured(wrapper(_dense(), tag="mine"), X)
    assert list(captured) == ["mine"]


@each_wrapper
def test_float16(wrapper: Any) -> None:
    captured, _, _ = _captured(wrapper(_dense(dtype="float16"), tag="g"), X.astype(np.float16))
    assert captured["g"].dtype == tf.float16


@pytest.mark.parametrize("count", [1, 2])
@each_wrapper
def test_in_a_program(wrapper: Any, count: int) -> None:
    with tf.device("/device:IPU:0"):
        layer = wrapper(_dense(), tag="g")
        layer.build([None, 3])
    got = replicas.run(count, lambda: _captured(layer, tf.constant(X))[0]["g"])
    want = 2 * layer(X).numpy()
    np.testing.assert_allclose(got, [want] * count, rtol=1e-5)


@each_wrapper
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.filterwarnings("ignore:.*HDF5 file.*:UserWarning")
def test_models_are_saved(wrapper: Any, suffix: str, tmp_path: Any) -> None:
    inputs = keras.Input([3])
    outputs = keras.layers.Dropout(0.5)(wrapper(_dense(), tag="t")(inputs))
    model = keras.Model(inputs, outputs)
    path = str(tmp_path / f"model{suffix}")
    model.save(path)
    loaded = keras.models.load_model(path)
    assert loaded.layers[1].tag == "t"
    assert loaded.layers[1].get_config() == model.layers[1].get_config()
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-6)


@each_wrapper
def test_configuration(wrapper: Any) -> None:
    layer = wrapper(_dense(name="d"), name="outer")
    again = wrapper.from_config(layer.get_config())
    assert (again.tag, again.name, again.layer.name) == (layer.tag, "outer", "d")
    assert again.get_config() == layer.get_config()


def test_arguments_of_the_layer() -> None:
    layer = Upstream(keras.layers.Dropout(0.5, seed=1), tag="d")
    assert np.count_nonzero(layer(X, training=False)) == X.size
    assert np.count_nonzero(layer(X, training=True)) < X.size
    mask = tf.constant([[True, False, True]] * 4)
    lstm = Upstream(keras.layers.LSTM(2, return_sequences=True))
    x = tf.constant(X[:, :, None])
    np.testing.assert_allclose(lstm(x, mask=mask), lstm.layer(x, mask=mask))
    assert lstm.compute_output_shape((4, 3, 1)) == (4, 3, 2)
    assert lstm.compute_mask(x, mask) is mask


@each_wrapper
@pytest.mark.parametrize("layer", [None, "dense", keras.layers.InputLayer([3])])
def test_unsupported(wrapper: Any, layer: Any) -> None:
    with pytest.raises(ValueError, match="is not supported"):
        wrapper(layer)


@pytest.mark.parametrize(
    "layer",
    [keras.layers.LSTM(2), keras.layers.SimpleRNNCell(2), keras.layers.Flatten()],
)
def test_layers_without_an_activation(layer: Any) -> None:
    with pytest.raises(ValueError, match="is not supported"):
        Activation(layer)


class TestSteps:
    """`step.minimize`: what a training step of a model calls."""

    @pytest.mark.parametrize("family", ["new", "legacy"])
    @pytest.mark.parametrize("wrap", [False, True])
    def test_passes_captured_gradients(self, family: str, wrap: bool) -> None:
        keras_optimizers = keras.optimizers if family == "new" else keras.optimizers.legacy
        layer = Upstream(_dense(dtype="float16"))
        layer.build([None, 3])
        opt: Any = optimizers.ALSOptimizer(
            keras_optimizers.SGD(0.1),
            initial_loss_scaling_factor=16,
            captured_grads_only=True,
            histogram_bin_edge=16,
        )
        if wrap:
            opt = optimizers.CrossReplicaOptimizer(opt)
        with tf.GradientTape() as tape:
            y = layer(X.astype(np.float16))
            loss = tf.reduce_sum(tf.square(tf.cast(y, tf.float32)))
        kernel = layer.trainable_variables[0].numpy()
        step.minimize(opt, loss, layer.trainable_variables, tape)
        large = np.sum(np.abs(y.numpy()) * 2 >= 1)
        np.testing.assert_array_equal(opt.histogram.numpy(), [8 - large, large])
        mask = y.numpy() > 0
        expected = kernel - 0.1 * (X.T @ (2 * y.numpy() * mask))
        np.testing.assert_allclose(layer.trainable_variables[0].numpy(), expected, atol=5e-3)

    def test_leaves_minimize_to_others(self) -> None:
        called: list[Any] = []

        class Mine(keras.optimizers.SGD):  # type: ignore[misc]
            def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> None:
                called.append(tape)

        with tf.GradientTape() as tape:
            loss = tf.constant(1.0)
        step.minimize(Mine(), loss, [], tape)
        assert called == [tape]

    def test_in_a_loop(self) -> None:
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            layer = Upstream(_dense(), tag="g")
            layer.build([None, 3])
            opt = optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.01), update_frequency=1)

            def body(i: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.square(layer(tf.constant(X))))
                step.minimize(opt, loss, layer.trainable_variables, tape)
                return i + 1

            @tf.function(jit_compile=True)
            def train() -> Any:
                return loops.repeat(3, body, [tf.constant(0)])

            strategy.run(train)
        reference = _dense()
        reference.build([None, 3])
        opt = keras.optimizers.legacy.SGD(0.01)
        for _ in range(3):
            opt.minimize(
                lambda: tf.reduce_sum(tf.square(reference(X))), reference.trainable_variables
            )
        np.testing.assert_allclose(
            layer.trainable_variables[0].numpy(), reference.kernel.numpy(), rtol=1e-5
        )
