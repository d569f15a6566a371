"""Layers that let gradients be captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.keras_layers import optimizers
from tensorflow_ipu.keras_layers.layers import capture, rnn
from tensorflow_ipu.ops import grad_util_ops, optimizer_steps
from tests.support.programs import replicas

keras = tf.keras
Upstream = capture.CaptureUpstreamGradients
Activation = capture.CaptureActivationGradients
each_wrapper = pytest.mark.parametrize("wrapper", [Upstream, Activation])
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def _dense(units: int = 2, activation: str | None = "relu", **settings: Any) -> Any:
    kernel = keras.initializers.GlorotUniform(seed=1)
    return keras.layers.Dense(units, activation, kernel_initializer=kernel, **settings)


def _captured(layer: Any, x: Any) -> tuple[dict[str, Any], Any, Any]:
    """Returns the captured gradient of the loss sum(y^2), the output, and the kernel's gradient."""
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
    assert tag == ("first_cug" if wrapper is Upstream else "first_cag_activation")
    # Where the derivative of relu is 0, so is the output.
    np.testing.assert_allclose(captured[tag], 2 * expected, rtol=1e-6)
    assert inner.activation is keras.activations.relu


def test_upstream_and_activation_gradients_differ() -> None:
    upstream, y, _ = _captured(Upstream(_dense(2, "tanh", name="s")), X)
    activation, _, _ = _captured(Activation(_dense(2, "tanh", name="s")), X)
    np.testing.assert_allclose(upstream["s_cug"], 2 * y, rtol=1e-6)
    np.testing.assert_allclose(activation["s_cag_activation"], 2 * y * (1 - y**2), rtol=1e-5)


@each_wrapper
def test_captures_are_found_by_their_tag(wrapper: Any) -> None:
    captured, _, _ = _captured(wrapper(_dense(), tag="mine"), X)
    assert list(captured) == ["mine" if wrapper is Upstream else "mine_activation"]


@each_wrapper
def test_captures_have_the_type_of_the_layer(wrapper: Any) -> None:
    captured, _, _ = _captured(wrapper(_dense(dtype="float16"), tag="g"), X.astype(np.float16))
    assert [one.dtype for one in captured.values()] == [tf.float16]


@pytest.mark.parametrize("count", [1, 2])
@each_wrapper
def test_gradients_are_captured_in_a_program(wrapper: Any, count: int) -> None:
    with tf.device("/device:IPU:0"):
        layer = wrapper(_dense(), tag="g")
        layer.build([None, 3])
    got = replicas.run(count, lambda: next(iter(_captured(layer, tf.constant(X))[0].values())))
    want = 2 * layer(X).numpy()
    np.testing.assert_allclose(got, [want] * count, rtol=1e-5)


@each_wrapper
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.filterwarnings("ignore:.*HDF5 file.*:UserWarning")
def test_models_with_captures_are_saved(wrapper: Any, suffix: str, tmp_path: Any) -> None:
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
def test_a_configuration_makes_the_same_layer(wrapper: Any) -> None:
    layer = wrapper(_dense(name="d"), name="outer")
    again = wrapper.from_config(layer.get_config())
    assert (again.tag, again.name, again.layer.name) == (layer.tag, "outer", "d")
    assert again.get_config() == layer.get_config()


def test_arguments_of_the_wrapped_layer_are_passed() -> None:
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
def test_unsupported_layers_are_refused(wrapper: Any, layer: Any) -> None:
    with pytest.raises(ValueError, match="is not supported"):
        wrapper(layer)


def _doubled(x: Any) -> Any:
    return x * 2


_layers = keras.layers
ONE = ["activation"]
TWO = ["activation", "recurrent_activation"]


@keras.utils.register_keras_serializable("tests")
class TwoActivations(keras.layers.Layer):  # type: ignore[misc]
    """Keeps its functions where no key of its configuration says."""

    def __init__(self, activation_first: Any, second_activation: Any = "tanh", **kwargs: Any):
        super().__init__(**kwargs)
        self.functions = {
            "one": keras.activations.get(activation_first),
            "two": keras.activations.get(second_activation),
        }

    def call(self, x: Any) -> Any:
        return self.functions["two"](3.0 * self.functions["one"](x))

    def get_config(self) -> dict[str, Any]:
        serialize = keras.activations.serialize
        return {
            **super().get_config(),
            "activation_first": serialize(self.functions["one"]),
            "second_activation": serialize(self.functions["two"]),
        }


class TestLayerIsSupported:
    """Which layers have activation functions to capture the gradients of."""

    @pytest.mark.parametrize(
        ("layer", "keys"),
        [
            (_layers.Dense(2), ONE),
            (_layers.Dense(2, activation=_doubled), ONE),
            (_layers.Conv1D(2, 2), ONE),
            (_layers.Conv2D(2, 2), ONE),
            (_layers.Conv3D(2, 2), ONE),
            (_layers.Conv1DTranspose(2, 2), ONE),
            (_layers.Conv2DTranspose(2, 2), ONE),
            (_layers.Conv3DTranspose(2, 2), ONE),
            (_layers.SeparableConv1D(2, 2), ONE),
            (_layers.SeparableConv2D(2, 2), ONE),
            (_layers.DepthwiseConv2D(2), ONE),
            (_layers.LocallyConnected1D(2, 2), ONE),
            (_layers.LocallyConnected2D(2, 2), ONE),
            (_layers.LSTM(2), TWO),
            (_layers.GRU(2), TWO),
            (_layers.ConvLSTM1D(2, 2), TWO),
            (_layers.ConvLSTM2D(2, 2), TWO),
            (_layers.ConvLSTM3D(2, 2), TWO),
            (_layers.SimpleRNN(2), ONE),
            (_layers.Activation("relu"), ONE),
            (TwoActivations("relu"), ["activation_first", "second_activation"]),
        ],
        ids=lambda value: getattr(value, "name", None),
    )
    def test_layers_with_activation_functions_are_supported(
        self, layer: Any, keys: list[str]
    ) -> None:
        assert Activation.layer_is_supported(layer) is True
        wrapped = Activation(layer).layer
        assert type(wrapped) is type(layer)
        assert wrapped is not layer
        assert sorted(key for key in wrapped.get_config() if "activation" in key) == keys

    @pytest.mark.parametrize(
        "layer",
        [
            _layers.Add(),
            _layers.Embedding(3, 2),
            _layers.MaxPooling2D(),
            _layers.GlobalAveragePooling1D(),
            _layers.Masking(),
            _layers.Lambda(lambda x: x),
            _layers.Bidirectional(_layers.LSTM(2)),
            _layers.TimeDistributed(_layers.Dense(2)),
            _layers.Rescaling(0.5),
            _layers.Flatten(),
            rnn.PopnnLSTM(2),  # one op, with its functions in it
            keras.Sequential([_layers.Dense(2)]),
        ],
        ids=lambda layer: layer.name,
    )
    def test_layers_without_activation_functions_are_refused(self, layer: Any) -> None:
        assert Activation.layer_is_supported(layer) is False
        with pytest.raises(
            ValueError, match=f"Layer {layer.name} does not use an activation function"
        ):
            Activation(layer)

    @pytest.mark.parametrize("layer", [None, "dense", keras.layers.Dense])
    def test_what_is_no_layer_is_refused(self, layer: Any) -> None:
        with pytest.raises(ValueError, match="is for instances of tf.keras.layers.Layer"):
            Activation.layer_is_supported(layer)


class TestSeveralActivations:
    """Each is captured, under the key that the configuration has it by."""

    def test_custom_layers_capture_at_each_activation(self) -> None:
        captured, y, _ = _captured(Activation(_Through(), name="w"), X)
        z = 3.0 * np.maximum(X, 0)
        np.testing.assert_allclose(y, np.tanh(z), rtol=1e-5)
        inner = 2 * np.tanh(z) * (1 - np.tanh(z) ** 2)
        np.testing.assert_allclose(captured["through_cag_second_activation"], inner, 1e-4, 1e-6)
        np.testing.assert_allclose(
            captured["through_cag_activation_first"], inner * 3 * (X > 0), 1e-4, 1e-6
        )

    @pytest.mark.parametrize("in_function", [False, True])
    @pytest.mark.parametrize("unroll", [False, True])
    @pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
    def test_recurrent_layers_capture_at_each_activation(
        self, name: str, unroll: bool, in_function: bool
    ) -> None:
        """Compares with derivatives by addends of the inputs of stock layers' functions."""
        x = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
        keys = ONE if name == "SimpleRNN" else TWO
        # Of the functions of these layers, which Keras lists by their names.
        functions = {"activation": tf.tanh, "recurrent_activation": tf.sigmoid}
        added = {key: tf.Variable(tf.zeros([2, 2])) for key in keys}
        stock = getattr(_layers, name)(
            2,
            unroll=unroll,
            **{key: lambda z, key=key: functions[key](z + added[key]) for key in keys},
        )
        layer = getattr(_layers, name)(2, unroll=unroll, name="r")
        layer.build((2, 3, 4))
        stock.build((2, 3, 4))
        stock.set_weights(layer.get_weights())
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(stock(x)))
        expected = tape.gradient(loss, added)
        run = tf.function(_captured, autograph=False) if in_function else _captured
        captured, _, _ = run(Activation(layer), x)
        assert sorted(captured) == [f"r_cag_{key}" for key in keys]
        for key in keys:
            np.testing.assert_allclose(captured[f"r_cag_{key}"], expected[key], 1e-4, 1e-6)

    def test_recurrent_layers_need_sizes(self) -> None:
        layer = Activation(_layers.ConvLSTM1D(2, 2, padding="same"))
        with pytest.raises(ValueError, match="Set the sizes of the inputs"):
            keras.Sequential([keras.Input([3, None, 2]), layer])

    def test_functional_models_of_recurrent_layers_capture(self) -> None:
        inputs = keras.Input([3, 4])
        model = keras.Model(inputs, Activation(_layers.LSTM(2, name="r"))(inputs))
        captured, _, _ = _captured(model, np.ones([2, 3, 4], np.float32))
        assert captured["r_cag_activation"].shape == [2, 2]

    def test_wrapping_keeps_the_weights(self) -> None:
        layer = _dense()
        layer.build([None, 3])
        layer.set_weights([np.full([3, 2], 0.5, np.float32), np.ones(2, np.float32)])
        np.testing.assert_array_equal(Activation(layer)(X), layer(X))

    @pytest.mark.parametrize("suffix", ["", ".keras"])
    def test_models_with_several_activations_are_saved(self, suffix: str, tmp_path: Any) -> None:
        inputs = keras.Input([3, 4])
        model = keras.Model(inputs, Activation(_layers.GRU(2, name="g"), tag="t")(inputs))
        path = str(tmp_path / f"model{suffix}")
        model.save(path)
        x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
        loaded = keras.models.load_model(path)
        np.testing.assert_allclose(loaded(x), model(x), rtol=1e-5)
        assert sorted(_captured(loaded, x)[0]) == ["t_activation", "t_recurrent_activation"]


def _Through() -> Any:  # noqa: N802
    """A layer whose gradients come back to a variable, for `_captured`."""

    @keras.utils.register_keras_serializable("tests")
    class Through(TwoActivations):
        def __init__(self, activation_first: Any = "relu", *args: Any, **kwargs: Any) -> None:
            super().__init__(activation_first, *args, **kwargs)
            self.factor = self.add_weight("factor", shape=[], initializer="ones")

        def call(self, x: Any) -> Any:
            return super().call(x * self.factor)

    return Through(name="through")


class TestSteps:
    """`step.minimize`, which the training step of a model calls."""

    @pytest.mark.parametrize("family", ["new", "legacy"])
    @pytest.mark.parametrize("wrap", [False, True])
    def test_steps_pass_captured_gradients_to_the_optimizer(self, family: str, wrap: bool) -> None:
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
        optimizer_steps.minimize(opt, loss, layer.trainable_variables, tape)
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
        optimizer_steps.minimize(Mine(), loss, [], tape)
        assert called == [tape]

    def test_captures_work_in_a_loop(self) -> None:
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            layer = Upstream(_dense(), tag="g")
            layer.build([None, 3])
            opt = optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.01), update_frequency=1)

            def body(i: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.square(layer(tf.constant(X))))
                optimizer_steps.minimize(opt, loss, layer.trainable_variables, tape)
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
