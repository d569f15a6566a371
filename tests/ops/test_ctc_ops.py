"""Temporal classification, against sums over all alignments and TensorFlow's own ops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.ops import nn_ops
from tests.support.programs import replicas

STEPS, BATCH, CLASSES = 4, 3, 3


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """The labels of an alignment: repeats joined, blanks dropped."""
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def probabilities(log_probs: np.ndarray, blank: int) -> dict[tuple[int, ...], float]:
    """The probability of each label sequence of one entry [steps, classes], by all alignments."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        labels = collapsed(path, blank)
        score = np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
        found[labels] = found.get(labels, 0.0) + score
    return found


def expected_loss(
    log_probs: np.ndarray, labels: np.ndarray, counts: Any, steps: Any, blank: int
) -> np.ndarray:
    losses = []
    for b, (count, length) in enumerate(zip(counts, steps)):
        found = probabilities(log_probs[:length, b], blank)
        with np.errstate(divide="ignore"):
            losses.append(-np.log(found.get(tuple(labels[b, :count]), 0.0)))
    return np.array(losses)


def case(blank: int, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Logits, labels and label lengths: a repeat, two different labels, none."""
    logits = np.random.default_rng(5).normal(size=(STEPS, BATCH, CLASSES)).astype(dtype)
    first, second = (c for c in range(CLASSES) if c != blank)
    labels = np.array([[first, first], [second, first], [blank, -7]], np.int32)
    return logits, labels, [2, 2, 0]


@pytest.mark.parametrize("blank", range(CLASSES))
@pytest.mark.parametrize("steps", [[4, 4, 4], [3, 2, 1], [3, 4, 0]])
def test_losses_are_sums_over_alignments(blank: int, steps: list[int]) -> None:
    logits, labels, counts = case(blank)
    want = expected_loss(log_softmax(logits), labels, counts, steps, blank)
    loss = nn_ops.ctc_loss_v2(labels, logits, counts, steps, blank)
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    # Log probabilities are taken as they are, normalised or not.
    for data in (log_softmax(logits), logits):
        want = expected_loss(data, labels, counts, steps, blank)
        loss = nn_ops.ctc_loss_with_log_probs(labels, data.astype(np.float32), counts, steps, blank)
        np.testing.assert_allclose(loss, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("from_logits", [True, False])
def test_gradient_is_the_difference_quotient(blank: int, from_logits: bool) -> None:
    logits, labels, counts = case(blank)
    steps = [4, 3, 2]
    weights = np.array([1.0, -0.5, 2.0])

    def loss(x: np.ndarray) -> float:
        # The gradient by log probabilities is that by the logits that they were made of.
        data = log_softmax(x[0])
        return float(weights @ expected_loss(data, labels, counts, steps, blank))

    x = tf.constant(logits if from_logits else log_softmax(logits).astype(np.float32))
    function = nn_ops.ctc_loss_v2 if from_logits else nn_ops.ctc_loss_with_log_probs
    with tf.GradientTape() as tape:
        tape.watch(x)
        losses = function(labels, x, counts, steps, blank)
        total = tf.reduce_sum(losses * weights.astype(np.float32))
    want = replicas.total_gradient(loss, logits[np.newaxis].astype(np.float64))[0]
    np.testing.assert_allclose(tape.gradient(total, x), want, atol=1e-5)


def random_batch(blank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(11)
    steps, batch, classes = 20, 5, 7
    logits = generator.normal(size=(steps, batch, classes)).astype(np.float32) * 3
    allowed = [c for c in range(classes) if c != blank]
    labels = generator.choice(allowed, size=(batch, 6)).astype(np.int32)
    lengths = generator.integers(1, 7, batch).astype(np.int32)
    return logits, labels, lengths, generator.integers(14, steps + 1, batch).astype(np.int32)


@pytest.mark.parametrize("blank", [0, 3, 6])
def test_loss_and_gradient_equal_tensorflow(blank: int) -> None:
    logits, labels, counts, steps = random_batch(blank)
    x = tf.constant(logits)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        ours = nn_ops.ctc_loss_v2(labels, x, counts, steps, blank)
        theirs = tf.nn.ctc_loss(labels, x, counts, steps, logits_time_major=True, blank_index=blank)
        probs = nn_ops.ctc_loss_with_log_probs(labels, tf.nn.log_softmax(x), counts, steps, blank)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    np.testing.assert_allclose(probs, theirs, rtol=1e-5)
    want = tape.gradient(theirs, x)
    np.testing.assert_allclose(tape.gradient(ours, x), want, atol=1e-4)
    np.testing.assert_allclose(tape.gradient(probs, x), want, atol=1e-4)


def test_impossible_labels_have_infinite_loss_and_no_gradient() -> None:
    logits, labels, _ = case(0)
    x = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(x)
        # Two equal labels need a blank between them: three steps.
        loss = nn_ops.ctc_loss_v2(labels[:1], x[:, :1], [2], [2], 0)
    assert np.isposinf(loss.numpy()).all()
    np.testing.assert_array_equal(tape.gradient(loss, x), np.zeros_like(logits))


@pytest.mark.parametrize("out_dtype", [None, tf.float16, tf.float32])
def test_float16_losses_equal_the_reference_within_rounding(out_dtype: Any) -> None:
    logits, labels, counts = case(1, np.float16)
    x = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = nn_ops.ctc_loss_v2(labels, x, counts, [4, 4, 4], 1, out_dtype=out_dtype)
    want = expected_loss(log_softmax(logits), labels, counts, [4, 4, 4], 1)
    assert loss.dtype == (out_dtype or tf.float16)
    np.testing.assert_allclose(loss, want, rtol=2e-3)
    assert tape.gradient(loss, x).dtype == tf.float16


def test_second_derivative_is_refused() -> None:
    logits, labels, counts = case(0)
    with tf.Graph().as_default():
        x = tf.constant(logits)
        loss = nn_ops.ctc_loss_with_log_probs(labels, x, counts, [4, 4, 4], 0)
        (gradient,) = tf.gradients(loss, x)
        with pytest.raises(LookupError, match="no second derivative"):
            tf.gradients(gradient, x)


@pytest.mark.parametrize("in_session", [False, True])
def test_losses_and_paths_are_right_on_replicas(in_session: bool) -> None:
    logits = replicas.rows(2, (STEPS, BATCH, CLASSES))
    _, labels, counts = case(2)

    def program() -> dict[str, tf.Tensor]:
        x = replicas.own_row(logits)
        loss = nn_ops.ctc_loss_v2(labels, x, counts, [4, 3, 2], 2)
        paths = nn_ops.ctc_beam_search_decoder(x, [4, 3, 2], 10, 2)
        return {
            "loss": loss,
            "gradient": tf.gradients(loss, x)[0],
            **{f"path{i}": path for i, path in enumerate(paths)},
        }

    got = replicas.run(2, program, in_session)
    for replica in range(2):
        x = tf.constant(logits[replica])
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = nn_ops.ctc_loss_v2(labels, x, counts, [4, 3, 2], 2)
        np.testing.assert_allclose(got["loss"][replica], loss, rtol=1e-6)
        np.testing.assert_allclose(got["gradient"][replica], tape.gradient(loss, x), atol=1e-6)
        for i, path in enumerate(nn_ops.ctc_beam_search_decoder(x, [4, 3, 2], 10, 2)):
            np.testing.assert_allclose(got[f"path{i}"][replica], path, rtol=1e-6)


def test_a_loop_descends_the_gradient_of_the_loss() -> None:
    """Descends the gradient of the loss, which a program on the CPU does too."""
    logits, labels, counts = case(0)

    def body(x: tf.Tensor) -> tf.Tensor:
        loss = nn_ops.ctc_loss_v2(labels, x, counts, [4, 4, 4], 0)
        return x - 0.1 * tf.gradients(loss, x)[0]

    replicas.configure(1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(lambda x: loops.repeat(3, body, [x]), [logits])
        got = session.run(result)
    want = logits
    for _ in range(3):
        x = tf.constant(want)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = nn_ops.ctc_loss_v2(labels, x, counts, [4, 4, 4], 0)
        want = want - 0.1 * tape.gradient(loss, x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("blank", [-1, 0, 1, 2])
@pytest.mark.parametrize("from_logits", [True, False])
def test_wide_beam_finds_most_likely_of_all_sequences(blank: int, from_logits: bool) -> None:
    logits = case(0)[0]
    steps = [4, 3, 1]
    if from_logits:
        data, decode = log_softmax(logits), nn_ops.ctc_beam_search_decoder
    else:
        data, decode = logits, nn_ops.ctc_beam_search_decoder_with_log_probs
    scores, lengths, labels = decode(logits, steps, 200, 4, blank)
    assert scores.shape == (BATCH, 4) and scores.dtype == tf.float32
    assert lengths.shape == (BATCH, 4) and lengths.dtype == tf.int32
    assert labels.shape == (BATCH, 4, STEPS) and labels.dtype == tf.int32
    class_of_blank = blank % CLASSES
    for b in range(BATCH):
        found = probabilities(data[: steps[b], b], class_of_blank)
        want = sorted(found.items(), key=lambda item: -item[1])[:4]
        for p, (sequence, probability) in enumerate(want):
            np.testing.assert_allclose(scores[b, p], np.log(probability), rtol=1e-5, atol=1e-6)
            assert lengths[b, p] == len(sequence)
            padded = [*sequence] + [class_of_blank] * (STEPS - len(sequence))
            assert labels[b, p].numpy().tolist() == padded
        for p in range(len(want), 4):
            assert np.isneginf(scores[b, p]) and lengths[b, p] == 0


def searched(log_probs: np.ndarray, width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """A beam search over sequences as tuples, with log probabilities."""
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}
    for row in log_probs:
        found: dict[tuple[int, ...], tuple[float, float]] = {}

        def add(labels: tuple[int, ...], blank: float, label: float, found: Any = found) -> None:
            before = found.get(labels, (-np.inf, -np.inf))
            found[labels] = tuple(np.logaddexp(before, (blank, label)))

        for labels, (ends_blank, ends_label) in beams.items():
            total = np.logaddexp(ends_blank, ends_label)
            add(labels, total + row[blank], -np.inf)
            if labels:
                add(labels, -np.inf, ends_label + row[labels[-1]])
            for c in {*range(len(row))} - {blank}:
                score = ends_blank if labels[-1:] == (c,) else total
                add((*labels, c), -np.inf, score + row[c])
        ordered = sorted(found.items(), key=lambda item: -np.logaddexp(*item[1]))
        beams = dict(ordered[:width])
    return [(labels, np.logaddexp(*scores)) for labels, scores in beams.items()]


@pytest.mark.parametrize("width", [1, 2, 5, 30])
@pytest.mark.parametrize("blank", [2, 6])
def test_beams_are_kept_as_the_algorithm_says(width: int, blank: int) -> None:
    logits, _, _, steps = random_batch(6)
    paths = min(width, 3)
    scores, lengths, labels = nn_ops.ctc_beam_search_decoder(logits, steps, width, paths, blank)
    for b, length in enumerate(steps):
        want = searched(log_softmax(logits)[:length, b], width, blank)
        for p, (sequence, score) in enumerate(want[:paths]):
            np.testing.assert_allclose(scores[b, p], score, rtol=1e-5)
            assert labels[b, p, : lengths[b, p]].numpy().tolist() == list(sequence)


@pytest.mark.parametrize("width", [1, 2])
def test_beams_equal_those_of_tensorflow(width: int) -> None:
    """With wider ones TensorFlow drops other sequences, and comes to slightly other results."""
    logits, _, _, steps = random_batch(6)
    scores, lengths, labels = nn_ops.ctc_beam_search_decoder(logits, steps, width)
    (decoded,), want_scores = tf.nn.ctc_beam_search_decoder(logits, steps, width, 1)
    np.testing.assert_allclose(scores, want_scores, rtol=1e-4)
    for b, row in enumerate(tf.sparse.to_dense(decoded, default_value=-1).numpy()):
        want = [label for label in row if label >= 0]
        assert labels[b, 0, : lengths[b, 0]].numpy().tolist() == want


def test_beam_search_in_float16_equals_float32_within_rounding() -> None:
    logits = case(0, np.float16)[0]
    scores, lengths, labels = nn_ops.ctc_beam_search_decoder(logits, [4, 4, 4], 20, 2)
    want = nn_ops.ctc_beam_search_decoder(logits.astype(np.float32), [4, 4, 4], 20, 2)
    assert scores.dtype == tf.float16
    np.testing.assert_allclose(scores, want[0], rtol=2e-3)
    np.testing.assert_array_equal(lengths, want[1])
    np.testing.assert_array_equal(labels, want[2])


def test_deprecated_names_do_the_same(caplog: pytest.LogCaptureFixture) -> None:
    logits, labels, counts = case(0)
    arguments = (labels, logits, counts, [4, 4, 4], 0)
    np.testing.assert_array_equal(
        nn_ops.ctc_loss(*arguments), nn_ops.ctc_loss_with_log_probs(*arguments)
    )
    np.testing.assert_array_equal(
        nn_ops.ctc_loss_with_logits(*arguments), nn_ops.ctc_loss_v2(*arguments)
    )
    assert [record.message.split(".")[0] for record in caplog.records] == [
        "ctc_loss is deprecated and will be removed",
        "ctc_loss_with_logits is deprecated and will be removed",
    ]


LOGITS = np.zeros([4, 3, 3], np.float32)
LABELS = np.ones([3, 2], np.int32)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"out_dtype": tf.float16}, ValueError, "out_dtype cannot be float16 when dtype of"),
        ({"out_dtype": tf.int32}, ValueError, "out_dtype must be float16 or float32"),
        ({"logits": LOGITS.astype(np.int32)}, TypeError, "logits must be of the type"),
        ({"logits": LOGITS[0]}, ValueError, r"logits must be of the shape \[max_time"),
        ({"blank_index": 3}, ValueError, r"blank_index must be in the range \[0, 3\).*=3"),
        ({"blank_index": -1}, ValueError, r"blank_index must be in the range \[0, 3\).*=-1"),
        ({"blank_index": 1.0}, TypeError, "blank_index must be an int"),
        ({"labels": LABELS.astype(np.float32)}, TypeError, "labels must be of the type int32"),
        ({"labels": LABELS[:2]}, ValueError, "labels must be of the shape"),
        ({"labels": LABELS * 3}, ValueError, r"labels must be in the range \[0, 3\).* 3"),
        ({"labels": LABELS * 0}, ValueError, "not the blank_index 0. Received: 0"),
        ({"label_length": [1, 2, 3]}, ValueError, r"label_length must be in the range \[0, 2\].*3"),
        ({"label_length": [1, 2]}, ValueError, "label_length must be of the shape"),
        ({"logit_length": [5, 4, 4]}, ValueError, r"logit_length must be in the range \[0, 4\].*5"),
        ({"logit_length": [-1, 4, 4]}, ValueError, "logit_length must be in the range"),
        ({"logit_length": tf.constant([4, 4, 4], tf.int64)}, TypeError, "logit_length must be of"),
    ],
)
def test_wrong_arguments_of_losses_are_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {
        "labels": LABELS,
        "logits": LOGITS,
        "label_length": [1, 2, 2],
        "logit_length": [4, 4, 4],
        "blank_index": 0,
    }
    with pytest.raises(error, match=message):
        nn_ops.ctc_loss_v2(**{**arguments, **change})


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"top_paths": 0}, ValueError, "top_paths must be at least 1"),
        ({"top_paths": 5, "beam_width": 4}, ValueError, "less than or equal to beam_width"),
        ({"beam_width": 2.0}, TypeError, "beam_width must be an int"),
        ({"blank_index": -2}, ValueError, r"blank_index must be in the range \[-1, 3\)"),
        ({"blank_index": 3}, ValueError, r"blank_index must be in the range \[-1, 3\)"),
        ({"logits_lengths": [5, 1, 1]}, ValueError, "logits_lengths must be in the range"),
    ],
)
def test_wrong_arguments_of_beam_search_are_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"logits": LOGITS, "logits_lengths": [4, 4, 4]}
    with pytest.raises(error, match=message):
        nn_ops.ctc_beam_search_decoder(**{**arguments, **change})


def test_values_that_only_program_knows_are_checked_there() -> None:
    @tf.function
    def loss(labels: tf.Tensor, counts: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        return nn_ops.ctc_loss_v2(labels, LOGITS, counts, steps, 0)

    good = [tf.constant(LABELS), tf.constant([1, 2, 2]), tf.constant([4, 4, 4])]
    assert loss(*good).shape == 3
    for index, bad, message in (
        (0, LABELS * 0, r"not the blank_index 0. Received: 0 at \[0, 0\]"),
        (
            1,
            [1, 3, 2],
            r"label_length must be in the range \[0, 2\].* 3 for batch entry 1",
        ),
        (2, [4, 4, 9], "data length must be in the range"),
    ):
        arguments = [*good]
        arguments[index] = tf.constant(bad)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            loss(*arguments)
