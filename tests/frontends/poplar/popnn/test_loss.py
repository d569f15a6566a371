"""Losses, accuracy and selections against TensorFlow and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import PoplarError, Run, random_array

LABELS = np.array([2, 0, 4, 1], "uint32")


def probabilities() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return tf.nn.softmax(2 * random_array(4, 5)).numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", ["labels", "signed", "distribution"])
@pytest.mark.parametrize("apart", [False, True])
def test_cross_entropy_equals_tensorflow(run: Run, form: str, apart: bool) -> None:
    logits = 2 * random_array(4, 5)
    one_hot = np.eye(5, dtype="f4")[LABELS]
    expected = {"labels": LABELS, "signed": LABELS.astype("i4"), "distribution": one_hot}[form]
    results = run("loss", {"outputs": probabilities(), "expected": expected}, apart=apart)
    given = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = tf.nn.softmax_cross_entropy_with_logits(one_hot, given)
    np.testing.assert_allclose(results["loss"], loss, rtol=1e-4)
    np.testing.assert_allclose(results["deltas"], tape.gradient(loss, given), rtol=1e-4, atol=1e-6)
    assert results["correct"].tolist() == [(logits.argmax(1) == LABELS).sum()]


def test_scales_of_outputs_and_deltas(run: Run) -> None:
    outputs = probabilities()
    inputs = {
        "outputs": 16 * outputs,
        "expected": LABELS,
        "scale": np.array([16], "f4"),
        "deltas_scale": np.array([3], "f4"),
    }
    results = run("loss", inputs)
    np.testing.assert_allclose(results["loss"], -np.log(outputs[range(4), LABELS]), rtol=1e-4)
    expected = 3 * (outputs - np.eye(5)[LABELS])
    np.testing.assert_allclose(results["deltas"], expected, rtol=1e-4, atol=1e-6)


def test_masked_labels_have_no_loss(run: Run) -> None:
    labels = np.array([2, 0xFFFFFFFF, 4, 1], "uint32")
    results = run("loss", {"outputs": probabilities(), "expected": labels})
    assert results["loss"][1] == 0
    assert not results["deltas"][1].any()
    assert results["loss"][0] > 0


def test_squared_loss_is_half_the_sum(run: Run) -> None:
    outputs, expected = random_array(4, 5), random_array(4, 5, seed=1)
    results = run("loss", {"outputs": outputs, "expected": expected}, squared=True)
    np.testing.assert_allclose(results["deltas"], outputs - expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["loss"], 0.5 * ((outputs - expected) ** 2).sum(1), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32"])
def test_selections_equal_numpy(run: Run, dtype: str) -> None:
    x = (10 * np.abs(random_array(3, 20))).astype(dtype)
    results = run("select", {"x": x}, k=6)
    np.testing.assert_array_equal(results["arg_max"], x.argmax(1))
    np.testing.assert_array_equal(results["arg_min"], x.argmin(1))
    np.testing.assert_array_equal(results["max"], x.max(1))
    np.testing.assert_array_equal(results["max_place"], x.argmax(1))
    np.testing.assert_array_equal(results["min"], x.min(1))
    np.testing.assert_array_equal(results["min_place"], x.argmin(1))
    order = np.argsort(-x.astype("f8"), axis=1, kind="stable")[:, :6]
    np.testing.assert_array_equal(results["top"], np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(results["top_places"], order)
    assert results["arg_max"].dtype == np.uint32


def test_wrong_shapes_are_refused(run: Run) -> None:
    with pytest.raises(PoplarError, match=r"popnn::calcLoss \(.*expected \{4\}"):
        run("loss", {"outputs": probabilities(), "expected": LABELS[:3].copy()})
    with pytest.raises(PoplarError, match=r"popnn::topK .* with 9 classes or more"):
        run("select", {"x": random_array(3, 5)}, k=9)
