"""Losses over sampled classes, against stock TensorFlow and the formulas, and their sampler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes, utils
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import nn_ops
from tensorflow_ipu.strategy import ipu_strategy
from tests.support import replicas

tf1 = tf.compat.v1
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
    """What a program computes on so many replicas in two launches: [launch, replica, ...]."""
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
    """What a function gives in each step of a loop on the device, from the same device seed."""
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


def test_without_a_seed_each_step_draws_others_and_repeats_after_a_reset() -> None:
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
def test_the_seed_of_the_sampled_softmax_fixes_the_loss(seed: int | None, same: bool) -> None:
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
