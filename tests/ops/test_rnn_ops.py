"""Recurrent layers against the equations, one time step after the other, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_outfeed_queue
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.ops import nn_ops, rnn_ops
from tests.support.models import training
from tests.support.programs import replicas

tf1 = tf.compat.v1
T, B, SIZE, U = 5, 3, 4, 6
LENGTHS = np.array([5, 2, 0], np.int32)
GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(T, B, SIZE)).astype(np.float32)
SCORES = GENERATOR.uniform(size=(T, B)).astype(np.float32)
STATES = GENERATOR.normal(size=(2, B, U)).astype(np.float32)
# What the loss multiplies outputs and final states with.
WEIGHTS = GENERATOR.normal(size=(T + 2, B, U)).astype(np.float32)

LAYERS = {
    "lstm": rnn_ops.PopnnLSTM,
    "dynamic_lstm": rnn_ops.PopnnDynamicLSTM,
    "gru": rnn_ops.PopnnGRU,
    "dynamic_gru": rnn_ops.PopnnDynamicGRU,
    "augru": rnn_ops.PopnnAUGRU,
}
ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "tanh": tf.tanh,
    "relu": lambda x: tf.maximum(x, 0),
    "softmax": lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, True),
    "sigmoid": lambda x: 1 / (1 + tf.exp(-x)),
    "hard_sigmoid": lambda x: tf.minimum(tf.maximum(0.2 * x + 0.5, 0), 1),
}
PAIRS = [
    ("tanh", "sigmoid"),
    ("relu", "hard_sigmoid"),
    ("softmax", "sigmoid"),
    ("sigmoid", "tanh"),
    ("hard_sigmoid", "softmax"),
]


def is_lstm(kind: str) -> bool:
    return kind.endswith("lstm")


def make(kind: str, **arguments: Any) -> Any:
    """Returns a built layer with random weights of float16, so that any type holds them."""
    layer = LAYERS[kind](U, **arguments)
    layer.build([T, B, SIZE])
    for variable in layer.variables:
        values = GENERATOR.normal(0, 0.5, variable.shape).astype(np.float16)
        variable.assign(values.astype(variable.dtype.as_numpy_dtype))
    return layer


def extra(kind: str) -> list[Any]:
    """Returns the arguments between inputs and initial state."""
    lengths = [LENGTHS] if "dynamic" in kind or kind == "augru" else []
    return [*lengths, SCORES] if kind == "augru" else lengths


def call(kind: str, layer: Any, x: Any, states: Any, *others: Any, **options: Any) -> Any:
    """Calls a layer with states c and h; returns the outputs and the final states as a list."""
    initial = rnn_ops.LSTMStateTuple(*states) if is_lstm(kind) else states[0]
    outputs, final = layer(x, *others, initial_state=initial, **options)
    return [outputs, *final] if is_lstm(kind) else [outputs, final]


def reference(
    kind: str, activations: tuple[str, str], reset_after: bool, weights: Any, x: Any, states: Any
) -> list[tf.Tensor]:
    """Computes a layer from its definition; see `call` for the results."""
    act, gate = (ACTIVATIONS[name] for name in activations)
    kernel, biases, *others = weights
    if others:  # the dynamic GRUs do not use `biases`
        biases = tf.concat(others, 0)
        biases = tf.stack([biases, biases], 1) if reset_after else biases
    padded = len(extra(kind)) > 0
    state = list(states)
    outputs = []
    for t in range(T):
        new = _step(kind, act, gate, reset_after, kernel, biases, x[t], state, SCORES[t])
        live = tf.constant((t < LENGTHS)[:, None] if padded else np.ones([B, 1], bool))
        output = tf.where(live, new[-1], tf.zeros_like(new[-1]))
        state = [tf.where(live, after, before) for after, before in zip(new, state)]
        outputs.append(output)
    return [tf.stack(outputs), *state]


def _step(
    kind: str,
    act: Any,
    gate: Any,
    reset_after: bool,
    kernel: Any,
    b: Any,
    x: Any,
    state: Any,
    score: Any,
) -> list[tf.Tensor]:
    w, u = kernel[:SIZE], kernel[SIZE:]
    column = [slice(k * U, (k + 1) * U) for k in range(4)]
    h = state[-1]
    if is_lstm(kind):
        i, f, g, o = (x @ w[:, c] + h @ u[:, c] + b[k] for k, c in enumerate(column))
        c = gate(f) * state[0] + gate(i) * act(g)
        return [c, gate(o) * act(c)]
    b0, b1 = (b[:, 0], b[:, 1]) if reset_after else (b, tf.zeros_like(b))
    xs = [x @ w[:, c] + b0[k] for k, c in enumerate(column[:3])]
    z = gate(xs[0] + h @ u[:, column[0]] + b1[0])
    r = gate(xs[1] + h @ u[:, column[1]] + b1[1])
    last = u[:, column[2]]
    g = act(xs[2] + (r * (h @ last + b1[2]) if reset_after else (r * h) @ last))
    if kind == "augru":
        z = z * (1 - score[:, None])
    return [z * h + (1 - z) * g]


def loss(results: list[tf.Tensor]) -> tf.Tensor:
    """Returns a loss of all results."""
    outputs, *final = results
    total = tf.reduce_sum(outputs * tf.cast(WEIGHTS[:T], outputs.dtype))
    for weight, state in zip(WEIGHTS[T:], final):
        total += tf.reduce_sum(state * tf.cast(weight, state.dtype))
    return total


def expected(kind: str, layer: Any, activations: Any = PAIRS[0], reset_after: bool = False) -> Any:
    """Returns the results of the reference, and the gradients of inputs, states and weights."""
    values = [tf.cast(v, tf.float64) for v in (X, *STATES[: 1 + is_lstm(kind)], *layer.variables)]
    count = 2 + is_lstm(kind)
    with tf.GradientTape() as tape:
        tape.watch(values)
        results = reference(
            kind, activations, reset_after, values[count:], values[0], values[1:count]
        )
        total = loss(results)
    return results, tape.gradient(total, values)


def computed(kind: str, layer: Any) -> Any:
    """Returns the layer's results in the form of `expected`."""
    values = [tf.constant(v) for v in (X, *STATES[: 1 + is_lstm(kind)])]
    with tf.GradientTape() as tape:
        tape.watch(values)
        results = call(kind, layer, values[0], values[1:], *extra(kind))
        total = loss(results)
    return results, tape.gradient(total, [*values, *layer.variables])


def assert_close(actual: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    for got, want in zip(actual, wanted):
        if want is None or got is None:
            assert got is None and want is None
            continue
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def run_in_session(count: int, function: Callable[[], Any]) -> Any:
    """Runs a function as `replicas.run` does, with variables."""
    replicas.configure(count)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = ipu_outfeed_queue.IPUOutfeedQueue()
        with scopes.ipu_scope(training.IPU):
            launch = ipu_compiler.compile(lambda: queue.enqueue(function()), [])
        dequeue = queue.dequeue()
        session.run(tf1.global_variables_initializer())
        session.run(launch)
        return tf.nest.map_structure(lambda array: array[0], session.run(dequeue))


CASES = [
    (kind, reset_after)
    for kind in LAYERS
    for reset_after in ((False,) if is_lstm(kind) else (False, True))
]


# The layers for sequences of different lengths have the same cells as the others.
SETTINGS = [
    (*case, pair) for case in CASES for pair in (PAIRS if case[0] in ("lstm", "gru") else PAIRS[:2])
]


@pytest.mark.parametrize(("kind", "reset_after", "activations"), SETTINGS, ids=str)
def test_results_and_gradients_equal_the_reference(kind, reset_after, activations):
    options = {} if is_lstm(kind) else {"reset_after": reset_after}
    layer = make(kind, activation=activations[0], recurrent_activation=activations[1], **options)
    results, gradients = computed(kind, layer)
    wanted, wanted_gradients = expected(kind, layer, activations, reset_after)
    assert_close(results, wanted)
    assert_close(gradients, wanted_gradients)


@pytest.mark.parametrize("partials", [tf.float16, tf.float32])
@pytest.mark.parametrize("kind", LAYERS)
def test_float16_layers_equal_the_reference_within_rounding(kind, partials):
    layer = make(kind, dtype=tf.float16, partials_dtype=partials)
    results, gradients = computed(kind, layer)
    assert {r.dtype for r in results} == {tf.float16}
    wanted, wanted_gradients = expected(kind, layer)
    assert_close(results, wanted, 1e-2)
    assert_close(gradients, wanted_gradients, 5e-2)


def test_float16_with_float32_partials_rounds_the_results_only():
    layer = make("lstm", dtype=tf.float16)
    x = X.astype(np.float16)
    results = call("lstm", layer, x, np.zeros_like(STATES))
    wide = rnn_ops.PopnnLSTM(U)
    wide.build([T, B, SIZE])
    for variable, narrow in zip(wide.variables, layer.variables):
        variable.assign(tf.cast(narrow, tf.float32))
    wanted = call("lstm", wide, x.astype(np.float32), np.zeros_like(STATES))
    for got, want in zip(results, wanted):
        np.testing.assert_array_equal(got, want.numpy().astype(np.float16))


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_results_and_gradients_equal_reference_on_two_replicas(kind, in_session):
    gates = LAYERS[kind].GATES
    initial = {
        "weights_initializer": GENERATOR.normal(0, 0.5, (SIZE + U, gates * U)),
        "bias_initializer": GENERATOR.normal(0, 0.5, (gates, U)),
    }
    layer = LAYERS[kind](U, **initial)
    layer.build([T, B, SIZE])
    made: list[Any] = []

    def program() -> Any:
        if in_session or not made:  # a tf.function is traced twice
            made.append(LAYERS[kind](U, **initial))
            made[-1].build([T, B, SIZE])
        results, gradients = computed(kind, made[-1])
        return results, [g for g in gradients if g is not None]

    if in_session:
        results, gradients = run_in_session(2, program)
    else:
        results, gradients = replicas.run(2, program)
    wanted, wanted_gradients = expected(kind, layer)
    for replica in range(2):
        assert_close([r[replica] for r in results], wanted)
        present = [g for g in wanted_gradients if g is not None]
        assert_close([g[replica] for g in gradients], present)


@pytest.mark.parametrize("kind", ["lstm", "dynamic_lstm", "gru"])
def test_trains_in_a_loop(kind):
    def model(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        layer = LAYERS[kind](
            U,
            weights_initializer=tf1.constant_initializer(
                np.linspace(-0.5, 0.5, (1 + U) * 4 * U)[: (1 + U) * LAYERS[kind].GATES * U]
            ),
            name="layer",
        )
        inputs = tf.transpose(x)[..., None]
        arguments = [[5, 3]] if kind == "dynamic_lstm" else []
        return tf.reduce_mean((tf.reduce_sum(layer(inputs, *arguments)[0][-1], 1) - y) ** 2)

    elements = training.data(4)
    optimizer = training.OPTIMIZERS["descent"]
    training.configure()
    actual = training.on_the_device(
        lambda loss: optimizer().minimize(loss), 4, elements, model=model
    )
    wanted = training.by_hand(optimizer, elements, 1, model=model)
    training.assert_close(actual, wanted)


@pytest.mark.parametrize("kind", ["dynamic_gru", "augru"])
def test_batch_major_inputs_give_time_major_outputs(kind):
    layer = make(kind)
    x, lengths, *scores = X, *extra(kind)
    wanted = layer(x, lengths, *scores)
    scores = [score.T for score in scores]
    actual = layer(np.swapaxes(x, 0, 1), lengths, *scores, time_major=False)
    assert_close(tf.nest.flatten(actual), tf.nest.flatten(wanted))


@pytest.mark.parametrize("kind", ["dynamic_lstm", "dynamic_gru", "augru"])
def test_padding_of_any_value_has_no_effect(kind):
    layer = make(kind)
    x = X.copy()
    x[np.arange(T)[:, None] >= LENGTHS] = np.nan
    others = extra(kind)
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        results = tf.nest.flatten(layer(inputs, *others))
        total = loss(results)
    gradients = tape.gradient(total, [inputs, layer.kernel])
    assert_close(results, tf.nest.flatten(layer(X, *others)))
    assert np.all(np.isfinite(gradients[1]))
    assert np.all(gradients[0].numpy()[np.arange(T)[:, None] >= LENGTHS] == 0)


def test_lengths_that_are_not_known_before():
    layer = make("dynamic_lstm")
    function = tf.function(lambda lengths: tf.nest.flatten(layer(X, lengths)))
    wanted = tf.nest.flatten(layer(X, LENGTHS))
    assert_close(function(tf.constant(LENGTHS)), wanted)
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        function(tf.constant([9, 9, 9]))


@pytest.mark.parametrize("kind", LAYERS)
def test_variables_have_the_documented_names_and_shapes(kind):
    layer = LAYERS[kind](U, seed=1, name="encoder")
    layer.build(tf.TensorShape([None, None, SIZE]))
    gates = layer.GATES
    shapes = {v.name: v.shape.as_list() for v in layer.trainable_variables}
    wanted = {"encoder/kernel:0": [SIZE + U, gates * U], "encoder/biases:0": [gates, U]}
    if "dynamic_gru" in kind or kind == "augru":
        wanted |= {"encoder/bias_r_u:0": [2, U], "encoder/bias_c:0": [1, U]}
        np.testing.assert_array_equal(layer.bias_r_u, np.ones([2, U]))
        np.testing.assert_array_equal(layer.bias_c, np.zeros([1, U]))
    assert shapes == wanted
    np.testing.assert_array_equal(layer.biases, np.zeros([gates, U]))
    limit = np.sqrt(6 / (SIZE + U + gates * U))
    assert 0.8 * limit < np.abs(layer.kernel).max() <= limit
    assert layer.canonical_weight_shape == [SIZE + U, gates * U]
    assert layer.canonical_bias_shapes == [gates, U]
    assert layer.input_size == SIZE
    kernel = layer.kernel
    layer.build([T, B, SIZE])
    assert layer.kernel is kernel


def test_reset_after_has_two_biases():
    layer = rnn_ops.PopnnGRU(U, reset_after=True, bias_initializer="ones")
    layer.build([T, B, SIZE])
    np.testing.assert_array_equal(layer.biases, np.ones([3, 2, U]))


def test_a_seed_fixes_the_first_weights():
    kernels = []
    for _ in range(2):
        with tf.Graph().as_default(), tf1.Session() as session:
            layer = rnn_ops.PopnnGRU(U, seed=5)
            layer.build([T, B, SIZE])
            session.run(tf1.global_variables_initializer())
            kernels.append(session.run(layer.kernel))
    np.testing.assert_array_equal(*kernels)


def test_scope_is_the_class_name():
    with tf.Graph().as_default():
        layer = rnn_ops.PopnnLSTM(U)
        layer(tf.constant(X))
        assert [v.name for v in tf1.trainable_variables()] == [
            "popnn_lstm/kernel:0",
            "popnn_lstm/biases:0",
        ]


def test_state_shapes_have_batch_and_units():
    assert rnn_ops.PopnnLSTM(U).state_shape(B) == ([B, U], [B, U])
    assert rnn_ops.PopnnGRU(U).state_shape(B) == [B, U]


@pytest.mark.parametrize(
    "function",
    [tf.nn.softmax, tf1.nn.softmax, tf.keras.activations.softmax],
    ids=["tf.nn", "tf1.nn", "keras"],
)
def test_activations_may_be_functions(function):
    by_name = make("lstm", activation="softmax")
    by_function = rnn_ops.PopnnLSTM(U, activation=function, recurrent_activation=tf.sigmoid)
    by_function.build([T, B, SIZE])
    for variable, other in zip(by_function.variables, by_name.variables):
        variable.assign(other)
    assert_close([by_function(X)[0]], [by_name(X)[0]])
    rnn_ops.PopnnGRU(U, recurrent_activation=nn_ops.hard_sigmoid)


@pytest.mark.parametrize("kind", LAYERS)
def test_no_gradient_without_training(kind):
    layer = make(kind)
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        results = layer(x, *extra(kind), training=False)
        assert_close(tf.nest.flatten(results), tf.nest.flatten(layer(x, *extra(kind))))
        total = loss(tf.nest.flatten(results))
    with pytest.raises(ValueError, match="training=False"):
        tape.gradient(total, layer.kernel)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_second_derivatives_are_refused(kind):
    layer = make(kind)
    x = tf.constant(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x)[0] ** 2)
        gradient = tape.gradient(total, x)
    with pytest.raises(LookupError, match="first derivatives only"):
        outer.gradient(gradient, x)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": tf.float64}, "Only support float16, float32"),
        ({"dtype": tf.int32}, "Only support float16, float32"),
        ({"partials_dtype": tf.bfloat16}, "Only support float16, float32"),
        ({"activation": "elu"}, "activation must be one of tanh, relu"),
        ({"activation": tf.nn.elu}, "activation must be one of tanh, relu"),
        ({"recurrent_activation": "relu"}, "recurrent_activation must be one of tanh, softmax"),
        ({"num_units": 0}, "num_units must be a positive int"),
        ({"num_units": 2.5}, "num_units must be a positive int"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, dict) else "",
)
def test_wrong_constructor_arguments_are_refused(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        LAYERS[kind](**{"num_units": U, **arguments})


def test_options_that_are_no_dict_are_refused():
    with pytest.raises(TypeError, match="options_bwd must be a dict"):
        rnn_ops.PopnnLSTM(U, options_bwd=["availableMemoryProportion"])
    rnn_ops.PopnnLSTM(U, options={"availableMemoryProportion": 0.3})


@pytest.mark.parametrize("kind", LAYERS)
def test_inputs_of_wrong_shapes_are_refused(kind):
    layer = LAYERS[kind](U)
    with pytest.raises(ValueError, match="Expecting input_shape with 3 dims"):
        layer.build([T, SIZE])
    with pytest.raises(ValueError, match="must be known"):
        layer.build([T, B, None])
    layer.build([T, B, SIZE])
    with pytest.raises(ValueError, match="built for inputs of the size 4"):
        layer(np.zeros([T, B, SIZE + 1], np.float32), *extra(kind))


@pytest.mark.parametrize("kind", LAYERS)
def test_before_it_is_built(kind):
    layer = LAYERS[kind](U)
    with pytest.raises(ValueError, match="not been built"):
        _ = layer.input_size
    for name in ("canonical_weight_shape", "canonical_bias_shapes"):
        with pytest.raises(RuntimeError, match="not been built"):
            getattr(layer, name)
    with pytest.raises(NotImplementedError, match="saveable"):
        _ = layer.saveable


@pytest.mark.parametrize("kind", LAYERS)
def test_states_of_wrong_shapes_are_refused(kind):
    layer, others = make(kind), extra(kind)
    state = np.zeros([B, U + 1], np.float32)
    state = rnn_ops.LSTMStateTuple(state, state) if is_lstm(kind) else state
    with pytest.raises(ValueError, match=r"initial_state.* must have the shape"):
        layer(X, *others, initial_state=state)
    if is_lstm(kind):
        with pytest.raises(ValueError, match="expecting `LSTMStateTuple`"):
            layer(X, *others, initial_state=tuple(STATES))
    else:
        with pytest.raises(ValueError, match="initial_state must be one tensor"):
            layer(X, *others, initial_state=tuple(map(tf.constant, STATES)))


@pytest.mark.parametrize("kind", ["dynamic_lstm", "dynamic_gru", "augru"])
@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([1, 2], tf.errors.InvalidArgumentError, "must have the shape"),
        ([[1, 2, 3]], tf.errors.InvalidArgumentError, "must have the shape"),
        ([1, 2, 6], tf.errors.InvalidArgumentError, "from 0 to the number of time steps, 5"),
        ([-1, 2, 3], tf.errors.InvalidArgumentError, "from 0 to the number of time steps, 5"),
        ([1.0, 2.0, 3.0], ValueError, "seq_len must be integers"),
    ],
    ids=str,
)
def test_wrong_sequence_lengths_are_refused(kind, lengths, error, message):
    others = [SCORES] if kind == "augru" else []
    with pytest.raises(error, match=message):
        make(kind)(X, tf.constant(lengths), *others)


def test_wrong_attention_scores_are_refused():
    layer = make("augru")
    with pytest.raises(ValueError, match="attention_score must have the first two dimensions"):
        layer(X, LENGTHS, SCORES.T)
    with pytest.raises(ValueError, match="attention_score must be a tensor"):
        layer(X, LENGTHS, None)


def test_gradients_are_right_in_a_session():
    with tf.Graph().as_default(), tf1.Session() as session:
        training.configure()

        def program(x: tf.Tensor) -> Any:
            outputs, _ = rnn_ops.PopnnLSTM(U, seed=1, name="layer")(x)
            return tf.gradients(tf.reduce_sum(outputs**2), [x, *tf1.trainable_variables()])

        with scopes.ipu_scope(training.IPU):
            launch = ipu_compiler.compile(program, [tf.constant(X)])
        kernel, biases = tf1.trainable_variables()
        session.run(tf1.global_variables_initializer())
        weights = [tf.cast(v, tf.float64) for v in (kernel, biases)]
        x, zeros = tf.cast(X, tf.float64), tf.zeros([B, U], tf.float64)
        outputs = reference("lstm", PAIRS[0], False, weights, x, [zeros, zeros])[0]
        wanted = tf.gradients(tf.reduce_sum(outputs**2), [x, kernel, biases])
        assert_close(session.run(launch), session.run(wanted))


def test_loop_around_a_layer_is_differentiable():
    """The gradient of a loop whose body has a layer."""
    layer = rnn_ops.PopnnGRU(U, seed=2)
    layer.build([T, B, U])

    def body(x: tf.Tensor) -> tf.Tensor:
        return layer(x)[0]

    def unrolled(x: tf.Tensor) -> tf.Tensor:
        return body(body(x))

    def looped(x: tf.Tensor) -> tf.Tensor:
        return loops.repeat(2, body, [x])

    x = tf.constant(GENERATOR.normal(size=(T, B, U)).astype(np.float32))

    @tf.function
    def gradient(function: Any) -> Any:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(function(x) ** 2)
        return tape.gradient(total, layer.kernel)

    assert_close([gradient(looped)], [gradient(unrolled)])
