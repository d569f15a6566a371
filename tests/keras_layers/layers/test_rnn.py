"""The Keras layers for LSTM and GRU against the stock ones, with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed.ipu_strategy import IPUStrategy
from tensorflow_ipu.keras_layers import layers
from tensorflow_ipu.ops import rnn_ops
from tests.support.programs import replicas

B, T, SIZE, U = 3, 5, 4, 6
GENERATOR = np.random.default_rng(4)
X = GENERATOR.normal(size=(B, T, SIZE)).astype(np.float32)
STATES = list(GENERATOR.normal(size=(2, B, U)).astype(np.float32))

KINDS = ["LSTM", "GRU"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"return_sequences": True},
    {"return_state": True},
    {"return_sequences": True, "return_state": True, "time_major": True},
    {"activation": "relu", "recurrent_activation": "hard_sigmoid", "return_state": True},
    {"activation": "softmax", "recurrent_activation": "tanh", "return_sequences": True},
    {"activation": "hard_sigmoid", "recurrent_activation": "softmax"},
    {"activation": "sigmoid", "return_state": True},
    {"activation": None, "return_state": True},
]


def states(kind: str) -> list[np.ndarray]:
    return STATES[: 2 if kind == "LSTM" else 1]


def ours(kind: str, *arguments: Any, **options: Any) -> Any:
    return getattr(layers, f"Popnn{kind}")(*arguments, **options)


def pair(kind: str, **options: Any) -> tuple[Any, Any]:
    """Returns our layer and the stock one, built, with the same random weights."""
    layer, stock = ours(kind, U, **options), getattr(tf.keras.layers, kind)(U, **options)
    for each in (layer, stock):
        each.build((T, B, SIZE) if options.get("time_major") else (B, T, SIZE))
    stock.set_weights([GENERATOR.normal(0, 0.5, w.shape) for w in stock.weights])
    layer.set_weights(stock.get_weights())
    return layer, stock


def run(layer: Any, x: Any, initial: Any) -> tuple[Any, Any]:
    """Returns the results, and the gradients of a sum of them."""
    x = tf.constant(x)
    initial = [tf.constant(state) for state in initial]
    with tf.GradientTape() as tape:
        tape.watch([x, *initial])
        results = tf.nest.flatten(layer(x, initial_state=initial or None))
        loss = tf.add_n([tf.reduce_sum(tf.sin(3 * r)) for r in results])
    return results, tape.gradient(loss, [x, *initial, *layer.trainable_variables])


def assert_close(actual: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    for got, want in zip(tf.nest.flatten(actual), tf.nest.flatten(wanted)):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_equal_keras(kind, options, with_states):
    layer, stock = pair(kind, **options)
    x = np.swapaxes(X, 0, 1) if options.get("time_major") else X
    initial = states(kind) if with_states else []
    actual, wanted = run(layer, x, initial), run(stock, x, initial)
    assert [a.shape for a in actual[0]] == [w.shape for w in wanted[0]]
    assert_close(actual, wanted)


def test_equals_keras_without_reset_after():
    layer, stock = pair("GRU", reset_after=False, return_sequences=True)
    assert_close(run(layer, X, []), run(stock, X, []))


@pytest.mark.parametrize("kind", KINDS)
def test_first_weights_are_those_of_keras(kind):
    options = {
        "kernel_initializer": tf.keras.initializers.GlorotUniform(seed=1),
        "recurrent_initializer": tf.keras.initializers.Orthogonal(seed=2),
    }
    layer, stock = ours(kind, U, **options), getattr(tf.keras.layers, kind)(U, **options)
    for each in (layer, stock):
        each.build((B, T, SIZE))
    assert_close(layer.weights, stock.weights)
    seeded = [ours(kind, U, seed=3) for _ in range(2)]
    for each in seeded:
        each.build([B, T, SIZE])
    assert_close(seeded[0].weights, seeded[1].weights)
    assert layer.kernel.shape == [SIZE, stock.cell.kernel.shape[1]]
    assert layer.recurrent_kernel.shape == [U, stock.cell.kernel.shape[1]]
    assert layer.biases.shape == stock.cell.bias.shape


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_rnn_ops(kind):
    layer, _ = pair(
        kind, return_sequences=True, **({"reset_after": False} if kind == "GRU" else {})
    )
    other = getattr(rnn_ops, f"Popnn{kind}")(U)
    other.build([T, B, SIZE])
    other.kernel.assign(tf.concat([layer.kernel, layer.recurrent_kernel], 0))
    other.biases.assign(tf.reshape(layer.biases, other.biases.shape))
    outputs, _ = other(np.swapaxes(X, 0, 1))
    assert_close(layer(X), tf.transpose(outputs, [1, 0, 2]))


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_keras_are_loaded(kind, tmp_path):
    layer, stock = pair(kind)
    models = [tf.keras.Sequential([tf.keras.Input([T, SIZE]), each]) for each in (layer, stock)]
    for name in ("weights.h5", "checkpoint"):
        models[1].save_weights(tmp_path / name)
        layer.set_weights([np.zeros_like(w) for w in layer.get_weights()])
        models[0].load_weights(tmp_path / name)
        assert_close(layer.weights, stock.weights)


def test_an_lstm_state_tuple_is_an_initial_state():
    layer, stock = pair("LSTM")
    h, c = STATES
    state = rnn_ops.LSTMStateTuple(c=tf.constant(c), h=tf.constant(h))
    assert_close(
        layer(X, initial_state=state), stock(X, initial_state=list(map(tf.constant, (h, c))))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_functional_model_with_states_trains(kind):
    results = []
    for layer in pair(kind):
        inputs = [tf.keras.Input([T, SIZE]), *(tf.keras.Input([U]) for _ in states(kind))]
        model = tf.keras.Model(inputs, layer(inputs[0], initial_state=inputs[1:]))
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
        model.fit([X, *states(kind)], np.ones([B, U]), epochs=2, verbose=0)
        results.append(layer.get_weights())
    assert_close(*results)


@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_equal_keras_on_two_replicas(kind):
    _, stock = pair(kind, return_sequences=True)
    weights = stock.get_weights()
    made: list[Any] = []

    def program() -> Any:
        if not made:
            names = ("kernel_initializer", "recurrent_initializer", "bias_initializer")
            initial = map(tf.constant_initializer, weights)
            options = dict(zip(names, initial), return_sequences=True)
            if kind == "LSTM":
                options["unit_forget_bias"] = False
            made.append(ours(kind, U, **options))
        return run(made[0], X, states(kind))

    actual, wanted = replicas.run(2, program), run(stock, X, states(kind))
    for replica in range(2):
        assert_close([a[replica] for a in tf.nest.flatten(actual)], wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_stateful_layer_keeps_its_state_until_a_reset(kind):
    layer, stock = pair(kind, stateful=True)
    for _ in range(3):
        assert_close(layer(X), stock(X))
    layer.reset_states()
    stock.reset_states()
    assert_close(layer(X), stock(X))


@pytest.mark.parametrize("kind", KINDS)
def test_stateful_layers_keep_their_state_between_programs(kind):
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = IPUStrategy()
    stock = getattr(tf.keras.layers, kind)(U, stateful=True)
    stock.build((B, T, SIZE))
    with strategy.scope():
        layer = ours(kind, U, stateful=True)
        layer.build([B, T, SIZE])
        layer.set_weights(stock.get_weights())

        @tf.function(jit_compile=True)
        def program() -> tf.Tensor:
            return layer(tf.constant(X))

        for _ in range(3):
            assert_close(strategy.run(program), stock(X))


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_the_same_at_all_times(kind, time_major):
    options = {"dropout": 0.5, "return_sequences": True, "time_major": time_major, "seed": 1}
    layer = ours(kind, U, dropout_seed=[1, 2], **options)
    x = np.ones([B, T, 40], np.float32)
    first = layer(x, training=True)
    assert_close(layer(x, training=True), first)
    # The same mask in other words: with one time step whose inputs are dropped.
    axis = 0 if time_major else 1
    single = tf.gather(x, [0], axis=axis)
    mask = np.zeros(single.shape, np.float32)
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        loss = tf.reduce_sum(layer(inputs, training=True))
    gradient = tape.gradient(loss, inputs).numpy()
    mask = gradient != 0
    assert np.all(mask == np.take(mask, [0], axis))
    assert 0.3 < mask.mean() < 0.7
    without = ours(kind, U, **{**options, "dropout": 0.0})
    without.build(x.shape)
    without.set_weights(layer.get_weights())
    assert_close(without(x * mask * 2), first)
    assert_close(layer(x, training=False), without(x))
    assert_close(layer(x), without(x))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_differs_between_steps_and_replicas(kind):
    made: list[Any] = []

    def program() -> Any:
        if not made:
            made.append(ours(kind, U, dropout=0.5, seed=1))
        return made[0](tf.constant(X), training=True), made[0](tf.constant(X), training=True)

    first, second = replicas.run(2, program)
    assert not np.allclose(first, second)
    assert not np.allclose(first[0], first[1])


@pytest.mark.parametrize("partials", [tf.float16, tf.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_float16_layers_equal_keras_within_rounding(kind, partials):
    layer = ours(kind, U, dtype="float16", partials_dtype=partials, return_state=True)
    stock = getattr(tf.keras.layers, kind)(U, return_state=True)
    for each in (layer, stock):
        each.build((B, T, SIZE))
    layer.set_weights([w.astype(np.float16) for w in stock.get_weights()])
    results, gradients = run(layer, X.astype(np.float16), [])
    assert {r.dtype for r in results} == {tf.float16}
    wanted, wanted_gradients = run(stock, X, [])
    assert_close(results, wanted, 1e-2)
    assert_close(gradients, wanted_gradients, 5e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_makes_the_same_layer(kind):
    options = {"dropout_seed": [1, 2], "seed": 3, "partials_dtype": "float16", "stateful": True}
    layer = ours(kind, U, activation="relu", dropout=0.25, name="encoder", **options)
    config = layer.get_config()
    assert {name: config[name] for name in options} == options
    again = type(layer).from_config(config)
    assert again.get_config() == config
    assert again.name == "encoder"
    assert getattr(layers, kind) is type(layer)
    assert layer.state_shape(B) == (([B, U], [B, U]) if kind == "LSTM" else [B, U])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "option",
    [
        {"use_bias": False},
        {"kernel_regularizer": "l2"},
        {"recurrent_regularizer": "l2"},
        {"bias_regularizer": "l2"},
        {"activity_regularizer": "l2"},
        {"kernel_constraint": "non_neg"},
        {"recurrent_constraint": "non_neg"},
        {"bias_constraint": "non_neg"},
        {"recurrent_dropout": 0.5},
        {"implementation": 2},
        {"go_backwards": True},
        {"unroll": True},
        {"activation": "elu"},
        {"recurrent_activation": "relu"},
        {"dropout": 1.5},
        {"partials_dtype": tf.int32},
        {"dtype": "float64"},
    ],
    ids=str,
)
def test_unsupported_arguments_are_refused(kind, option):
    name = next(iter(option))
    message = {"partials_dtype": "Only support", "dtype": "Only support", "dropout": "rate"}
    with pytest.raises(ValueError, match=message.get(name, name)):
        ours(kind, U, **option)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_not_supported(kind):
    with pytest.raises(NotImplementedError, match="does not support masks"):
        ours(kind, U)(X, mask=tf.ones([B, T], tf.bool))
    with pytest.raises(NotImplementedError, match="does not support masks"):
        tf.keras.Sequential([tf.keras.layers.Masking(), ours(kind, U)])(X)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_shapes_are_refused(kind):
    layer = ours(kind, U)
    for shape in ([B, SIZE], [B, T, None]):
        with pytest.raises(ValueError, match="Expecting input_shape with 3 dims"):
            layer.build(shape)
    with pytest.raises(ValueError, match="`initial_state` was passed that is not compatible"):
        layer(X, initial_state=[tf.zeros([B, U + 1]) for _ in states(kind)])


@pytest.mark.parametrize("layer_class", [layers.PopnnLSTM, layers.PopnnGRU])
def test_the_type_with_the_behavior_of_tensorflow_1(layer_class: Any) -> None:
    """A stock layer has no type then before its first call."""
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    expected = layer_class(5, seed=1)(x)
    tf.compat.v1.keras.layers.disable_v2_dtype_behavior()
    tf.compat.v1.disable_control_flow_v2()
    try:
        layer = layer_class(5, seed=1)
        assert layer.dtype == "float32"
        assert layer_class(5, dtype=tf.float16).dtype == "float16"
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            result = layer(tf.constant(x))
            session.run(tf.compat.v1.global_variables_initializer())
            np.testing.assert_allclose(session.run(result), expected, rtol=1e-5, atol=1e-6)
    finally:
        tf.compat.v1.enable_control_flow_v2()
        tf.compat.v1.keras.layers.enable_v2_dtype_behavior()
