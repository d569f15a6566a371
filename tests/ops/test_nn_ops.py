"""Activations and multi-convolutions, against formulas and stock TensorFlow."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes, utils
from tensorflow_ipu.compiler.ir.program import MULTI_CONV_ATTRIBUTE
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import nn_ops
from tests.support.programs import replicas

tf1 = tf.compat.v1


X = np.linspace(-4, 4, 33).reshape(3, 11)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "gelu": (
        nn_ops.gelu,
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "gelu, exact": (
        lambda x: nn_ops.gelu(x, approximate=False),
        lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    ),
    "swish": (nn_ops.swish, lambda x: x * _sigmoid(x)),
    "hard_sigmoid": (nn_ops.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "softmax": (nn_ops.softmax, _softmax),
    "softmax, stable": (lambda x: nn_ops.softmax(x, stable=True), _softmax),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_activations_and_gradients_equal_their_formulas(name: str, dtype: Any) -> None:
    function, formula = ACTIVATIONS[name]
    x = tf.constant(X.astype(dtype) + dtype(0.01))  # off the corners of hard_sigmoid
    weights = np.random.default_rng(2).normal(size=X.shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        total = tf.reduce_sum(y * weights.astype(dtype))
    exact = x.numpy().astype(np.float64)
    tolerance = 1e-5 if dtype is np.float32 else 4e-3
    assert y.dtype == dtype
    np.testing.assert_allclose(y, formula(exact), rtol=tolerance, atol=tolerance)
    want = replicas.total_gradient(
        lambda values: float((formula(values[0]) * weights).sum()), exact[np.newaxis]
    )[0]
    np.testing.assert_allclose(tape.gradient(total, x), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("in_session", [False, True])
def test_activations_equal_their_formulas_on_replicas(name: str, in_session: bool) -> None:
    function, formula = ACTIVATIONS[name]
    x = replicas.rows(2, (4, 5))

    def program() -> list[tf.Tensor]:
        mine = replicas.own_row(x)
        y = function(mine)
        return [y, tf.gradients(tf.reduce_sum(y * y), mine)[0]]

    y, gradient = replicas.run(2, program, in_session)
    np.testing.assert_allclose(y, formula(x.astype(np.float64)), rtol=1e-5, atol=1e-6)
    want = replicas.total_gradient(lambda v: float((formula(v) ** 2).sum()), x.astype(np.float64))
    np.testing.assert_allclose(gradient, want, atol=1e-5)


def test_gelu_of_great_numbers_is_finite_in_float16() -> None:
    x = tf.constant([-3000, -50, 50, 3000], tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nn_ops.gelu(x)
    np.testing.assert_array_equal(y, [0, 0, 50, 3000])
    np.testing.assert_array_equal(tape.gradient(y, x), [0, 0, 1, 1])


def test_only_the_stable_softmax_takes_great_numbers() -> None:
    x = tf.constant([100.0, 100.0])
    np.testing.assert_array_equal(nn_ops.softmax(x, stable=True), [0.5, 0.5])
    assert np.isnan(nn_ops.softmax(x)).all()


@pytest.mark.parametrize("name", ["gelu", "swish", "hard_sigmoid", "softmax"])
def test_other_types_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} takes a tensor x of the types .* int32"):
        getattr(nn_ops, name)(tf.constant([1, 2]))


def test_softmax_of_a_scalar_is_refused() -> None:
    with pytest.raises(ValueError, match="rank of 1 or more"):
        nn_ops.softmax(1.0)


def test_activations_run_in_a_loop() -> None:
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (y,) = ipu_compiler.compile(
                lambda x: loops.repeat(3, lambda v: nn_ops.gelu(nn_ops.swish(v)), [x]),
                [X[0].astype(np.float32)],
            )
        got = session.run(y)
    want = X[0]
    for _ in range(3):
        want = ACTIVATIONS["gelu"][1](ACTIVATIONS["swish"][1](want))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


# Multi-convolutions.

IMAGE = np.random.default_rng(1).normal(size=(2, 6, 6, 3)).astype(np.float32)


KERNEL = np.random.default_rng(2).normal(size=(3, 3, 3, 4)).astype(np.float32)


def _convolutions(x: Any, y: Any) -> tuple[tf.Tensor, tf.Tensor]:
    return (
        tf.nn.conv2d(x, KERNEL, 1, "SAME") + 1.0,
        tf.nn.depthwise_conv2d(y, KERNEL[:, :, :, :2], [1, 1, 1, 1], "VALID"),
    )


@pytest.mark.parametrize(
    "decorator",
    [nn_ops.multi_conv, nn_ops.multi_conv(), nn_ops.multi_conv(options={"a": "50"})],
)
def test_multi_conv_leaves_results_as_they_are(decorator: Callable[..., Any]) -> None:
    decorated = decorator(_convolutions)
    for got, want in zip(decorated(IMAGE, IMAGE), _convolutions(IMAGE, IMAGE)):
        np.testing.assert_array_equal(got, want)

    def program() -> list[tf.Tensor]:
        x = tf.constant(IMAGE)
        results = decorated(x, x)
        return [*results, tf.gradients([tf.reduce_sum(r**2) for r in results], x)[0]]

    x = tf.constant(IMAGE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        wanted = _convolutions(x, x)
        loss = sum(tf.reduce_sum(want**2) for want in wanted)
    got = replicas.run(2, program)
    for results, want in zip(got, [*wanted, tape.gradient(loss, x)]):
        for result in results:
            np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)


def _marks(graph: tf.Graph) -> dict[str, Any]:
    marks = {}
    for op in graph.get_operations():
        if MULTI_CONV_ATTRIBUTE in op.node_def.attr and "onv" in op.type:
            marks[op.type] = json.loads(op.get_attr(MULTI_CONV_ATTRIBUTE))
    return marks


def test_multi_conv_marks_convolutions_and_their_gradients() -> None:
    options = {"perConvReservedTiles": "50", "enable": True, "n": 3}
    with tf.Graph().as_default() as graph:
        x = tf.constant(IMAGE)
        results = nn_ops.multi_conv(_convolutions, options=options)(x, x)
        outside = tf.nn.conv3d(tf.zeros([1, 4, 4, 4, 1]), tf.ones([2, 2, 2, 1, 1]), [1] * 5, "SAME")
        tf.gradients([*results, outside], x)
        marks = _marks(graph)
        assert not any(MULTI_CONV_ATTRIBUTE in op.node_def.attr for op in [outside.op, x.op])
    assert set(marks) == {
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
    }
    want = {
        "group": "multi_conv",
        "options": {"perConvReservedTiles": "50", "enable": "true", "n": "3"},
    }
    assert all(mark == want for mark in marks.values())


def test_each_call_of_multi_conv_is_group() -> None:
    with tf.Graph().as_default() as graph:
        decorated = nn_ops.multi_conv(_convolutions)
        decorated(IMAGE, IMAGE)
        decorated(IMAGE, IMAGE)
        groups = [
            json.loads(op.get_attr(MULTI_CONV_ATTRIBUTE))["group"]
            for op in graph.get_operations()
            if op.type == "Conv2D"
        ]
    assert groups == ["multi_conv", "multi_conv_1"]


def test_the_example_of_the_reference_runs() -> None:
    """Section 18.14.7, with variables that Keras layers make."""
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    images = [np.ones([1, 20, 20, 2], np.float32)] * 3
    with strategy.scope():
        layers = [
            tf.keras.layers.DepthwiseConv2D(8, 2, depth_multiplier=2),
            tf.keras.layers.DepthwiseConv2D(16, 4, depth_multiplier=2),
            tf.keras.layers.Conv2D(8, 3),
        ]
        want = [layer(image) for layer, image in zip(layers, images)]

    @nn_ops.multi_conv(options={"perConvReservedTiles": "50"})
    def convs(x: Any, y: Any, z: Any) -> Any:
        return layers[0](x), layers[1](y), layers[2](z)

    program = tf.function(lambda *args: convs(*args), jit_compile=True)
    with strategy.scope():
        got = strategy.run(program, [tf.constant(image) for image in images])
    for result, expected in zip(got, want):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def _dependent(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    first = tf.nn.conv2d(x, tf.ones([1, 1, x.shape[-1], 2]), 1, "SAME")
    return tf.nn.conv2d(tf.nn.relu(first), tf.ones([1, 1, 2, 2]), 1, "SAME") + tf.reduce_sum(y)


@pytest.mark.parametrize("in_session", [False, True])
def test_dependent_convolutions_of_multi_conv(in_session: bool) -> None:
    def program() -> tf.Tensor:
        x = tf.constant(IMAGE)
        return nn_ops.multi_conv(_dependent)(x, x)

    match = "requires all convolutions to be independent of each other, however a data dependency"
    with pytest.raises(tf.errors.FailedPreconditionError, match=match):
        replicas.run(1, program, in_session)


def test_wrong_arguments_of_multi_conv_are_refused() -> None:
    with pytest.raises(TypeError, match="options must be a dict.*Received: options='fast'"):
        nn_ops.multi_conv(options="fast")
    with pytest.raises(TypeError, match="names in options must be of the type str"):
        nn_ops.multi_conv(options={1: "a"})
    with pytest.raises(TypeError, match="positional arguments only. Received by name: y"):
        nn_ops.multi_conv(_convolutions)(IMAGE, y=IMAGE)
    with pytest.raises(ValueError, match="must return at least one tensor"):
        nn_ops.multi_conv(lambda x: None)(IMAGE)


# --- Losses over sampled classes ---

CLASSES, DIM, BATCH, SAMPLED = 40, 5, 6, 8


_random = np.random.default_rng(8)


WEIGHTS = _random.normal(size=(CLASSES, DIM)).astype(np.float32)


BIASES = _random.normal(size=CLASSES).astype(np.float32)


INPUTS = _random.normal(size=(BATCH, DIM)).astype(np.float32)


LOSSES = {
    "nce_loss": (nn_ops.nce_loss, tf1.nn.nce_loss),
    # A sampled class that is a true one counts as a false one all the same.
    "sampled_softmax_loss": (
        nn_ops.sampled_softmax_loss,
        functools.partial(tf1.nn.sampled_softmax_loss, remove_accidental_hits=False),
    ),
}


def labels(num_true: int) -> np.ndarray:
    return _labels(num_true).astype(np.int64)


def _labels(num_true: int) -> np.ndarray:
    return np.random.default_rng(num_true).integers(0, CLASSES, (BATCH, num_true))


def sampled_values(num_true: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sampled classes, the first of them true ones, and some expected counts."""
    classes = np.array([*_labels(num_true)[:2, 0], 1, 2, 3, 5, 8, 13], np.int64)
    generator = np.random.default_rng(4)
    return (
        classes,
        generator.uniform(0.1, 1, (BATCH, num_true)).astype(np.float32),
        generator.uniform(0.1, 1, SAMPLED).astype(np.float32),
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("num_true", [1, 3])
def test_values_and_gradients_equal_tensorflow(name: str, num_true: int) -> None:
    results = []
    for loss_function in LOSSES[name]:
        tensors = [tf.constant(array) for array in (WEIGHTS, BIASES, INPUTS)]
        weights, biases, inputs = tensors
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = loss_function(
                weights,
                biases,
                labels(num_true),
                inputs,
                SAMPLED,
                CLASSES,
                num_true,
                sampled_values(num_true),
            )
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, tensors)]
        results.append([loss, *gradients])
    assert results[0][0].shape == [BATCH]
    for got, want in zip(*results):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_float16_losses_equal_the_reference_within_rounding(name: str) -> None:
    arguments = [labels(2), INPUTS, SAMPLED, CLASSES, 2, sampled_values(2)]
    want = LOSSES[name][1](WEIGHTS, BIASES, *arguments)
    arguments[1] = tf.constant(INPUTS, tf.float16)
    weights = tf.constant(WEIGHTS, tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = LOSSES[name][0](weights, tf.constant(BIASES, tf.float16), *arguments)
    assert loss.dtype == tf.float16
    np.testing.assert_allclose(loss, want, rtol=1e-2)
    assert np.isfinite(tf.convert_to_tensor(tape.gradient(loss, weights))).all()


@pytest.mark.parametrize("name", LOSSES)
def test_weights_in_parts_equal_whole_weights(name: str) -> None:
    arguments = (BIASES, labels(1), INPUTS, SAMPLED, CLASSES, 1, sampled_values(1))
    whole = LOSSES[name][0](WEIGHTS, *arguments)
    parts = LOSSES[name][0]([WEIGHTS[:7], WEIGHTS[7:]], *arguments)
    np.testing.assert_array_equal(whole, parts)


def draw(seed: int, unique: bool = True, count: int = SAMPLED) -> Any:
    return tf.random.log_uniform_candidate_sampler(labels(2), 2, count, unique, CLASSES, seed)


def run_twice(function: Callable[[], Any], number: int = 2) -> Any:
    """Results of a program on N replicas in two launches: [launch, replica, ...]."""
    return np.array([replicas.run(number, function, in_session) for in_session in (True, False)])


@pytest.mark.parametrize("unique", [True, False])
def test_expected_counts_follow_the_stock_formulas(unique: bool) -> None:
    got = replicas.run(2, lambda: list(draw(1, unique)))
    sampled, true_count, sampled_count = got

    def probability(classes: np.ndarray) -> np.ndarray:
        return (np.log(classes + 2) - np.log(classes + 1)) / np.log(CLASSES + 1)

    for replica in range(2):
        assert sampled[replica].min() >= 0 and sampled[replica].max() < CLASSES
        if not unique:
            np.testing.assert_allclose(
                sampled_count[replica], SAMPLED * probability(sampled[replica]), rtol=1e-5
            )
            np.testing.assert_allclose(
                true_count[replica], SAMPLED * probability(labels(2)), rtol=1e-5
            )
            continue
        assert len(set(sampled[replica])) == SAMPLED
        # 1 - (1 - p)^tries, where how many tries were needed is not told: the same for all, and
        # with these seeds more than there are samples.
        p = probability(np.concatenate([sampled[replica], labels(2).ravel()]))
        counts = np.concatenate([sampled_count[replica], true_count[replica].ravel()])
        tries = np.log1p(-counts.astype(np.float64)) / np.log1p(-p)
        np.testing.assert_allclose(tries, round(tries[0]), rtol=1e-3)
        assert tries[0] > SAMPLED + 0.5


def test_samples_have_the_log_uniform_distribution() -> None:
    count = 20000
    sampled = replicas.run(1, lambda: draw(1, unique=False, count=count)[0])[0]
    got = np.bincount(sampled, minlength=CLASSES) / count
    classes = np.arange(CLASSES)
    want = (np.log(classes + 2) - np.log(classes + 1)) / np.log(CLASSES + 1)
    assert (np.abs(got - want) <= 4 * np.sqrt(want * (1 - want) / count)).all()


def in_loop(function: Callable[[], tf.Tensor], steps: int = 4) -> np.ndarray:
    """Results of a function in each step of a loop on the device, from the same device seed."""
    replicas.configure(1)
    utils.reset_ipu_seed(3)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(
                lambda: loops.repeat(steps, lambda: queue.enqueue(function()), [])
            )
        dequeue = queue.dequeue()
        session.run(launch)
        return session.run(dequeue)


def test_unseeded_steps_differ_and_repeat_after_reset() -> None:
    first, again = (in_loop(lambda: draw(0)[0]) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len({tuple(row) for row in first}) == len(first)


def test_with_a_seed_each_step_draws_the_same() -> None:
    drawn = in_loop(lambda: draw(9)[0])
    assert (drawn == drawn[0]).all()
    assert (in_loop(lambda: draw(10)[0])[0] != drawn[0]).any()


def test_a_seed_is_mixed_with_the_replica() -> None:
    drawn = run_twice(lambda: draw(9)[0])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0, 0] != drawn[0, 1]).any()


def test_without_a_seed_replicas_and_launches_differ() -> None:
    drawn = run_twice(lambda: draw(0)[0]).reshape(4, SAMPLED)
    assert len({tuple(row) for row in drawn}) == 4


@pytest.mark.parametrize("seed, same", [(None, False), (0, False), (5, True)])
def test_seed_of_the_sampled_softmax_fixes_the_loss(seed: int | None, same: bool) -> None:
    losses = in_loop(
        lambda: nn_ops.sampled_softmax_loss(
            WEIGHTS, BIASES, labels(1), INPUTS, SAMPLED, CLASSES, seed=seed
        )
    )
    assert (losses == losses[0]).all() == same


def test_the_noise_of_nce_differs_in_each_step() -> None:
    losses = in_loop(lambda: nn_ops.nce_loss(WEIGHTS, BIASES, labels(1), INPUTS, SAMPLED, CLASSES))
    assert len(np.unique(losses[:, 0])) == len(losses)


def test_uniform_sampler_draws_from_the_device() -> None:
    drawn = in_loop(
        lambda: tf.random.uniform_candidate_sampler(labels(2), 2, SAMPLED, True, CLASSES)[0]
    )
    assert len({tuple(row) for row in drawn}) == len(drawn)
    assert drawn.min() >= 0 and drawn.max() < CLASSES


@pytest.mark.parametrize("name", LOSSES)
def test_training_in_a_program_lowers_the_full_loss(name: str) -> None:
    """Weights are variables: gradients of rows come back to them."""
    replicas.configure(1)
    utils.reset_ipu_seed(3)
    strategy = ipu_strategy.IPUStrategy()
    targets = labels(1)

    def full_loss(weights: tf.Variable) -> float:
        logits = tf.matmul(INPUTS, weights, transpose_b=True) + BIASES
        return float(
            tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets[:, 0], logits=logits)
            )
        )

    with strategy.scope():
        weights = tf.Variable(WEIGHTS)
        optimizer = tf.keras.optimizers.legacy.SGD(0.3)

        @tf.function(jit_compile=True)
        def train() -> None:
            for _ in tf.range(300):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(
                        LOSSES[name][0](weights, BIASES, targets, INPUTS, SAMPLED, CLASSES)
                    )
                optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])

        before = full_loss(tf.constant(WEIGHTS))
        strategy.run(train)
        assert full_loss(tf.constant(weights.numpy())) < before / 2


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"num_sampled": 41}, ValueError, "num_sampled must be at most num_classes.*=41"),
        ({"num_sampled": 0}, ValueError, "num_sampled must be at least 1"),
        ({"num_sampled": 2.0}, TypeError, "num_sampled must be an int"),
        ({"num_true": 0}, ValueError, "num_true must be at least 1"),
        ({"num_true": 2}, ValueError, r"labels must be of the shape \[batch_size, num_true\]"),
        ({"labels": labels(1).astype(np.float32)}, TypeError, "labels must be of the type int64"),
        ({"num_classes": 39}, ValueError, r"weights must be of the shape \[39, None\]"),
        ({"biases": BIASES[1:]}, ValueError, r"biases must be of the shape \[40\]"),
        ({"inputs": INPUTS[:, 1:]}, ValueError, r"inputs must be of the shape .*5\]"),
    ],
)
@pytest.mark.parametrize("name", LOSSES)
def test_wrong_arguments_are_refused(
    name: str, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {
        "weights": WEIGHTS,
        "biases": BIASES,
        "labels": labels(1),
        "inputs": INPUTS,
        "num_sampled": SAMPLED,
        "num_classes": CLASSES,
    }
    with pytest.raises(error, match=message):
        LOSSES[name][0](**{**arguments, **change})


def test_labels_out_of_range_end_the_program() -> None:
    def program() -> tf.Tensor:
        return nn_ops.nce_loss(WEIGHTS, BIASES, labels(1) + CLASSES, INPUTS, SAMPLED, CLASSES)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be in the range \[0, 40\)"):
        replicas.run(1, program)
