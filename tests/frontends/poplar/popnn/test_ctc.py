"""Losses and beam searches of CTC against TensorFlow and sums over all alignments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import PoplarError, Run, random_array

STEPS, BATCH, CLASSES = 5, 3, 4


def loss_inputs(blank: int, dtype: str = "float32") -> dict[str, Any]:
    """Returns logits, labels with a repeat, and lengths that differ."""
    logits = random_array(STEPS, BATCH, CLASSES, dtype=dtype)
    names = [c for c in range(CLASSES) if c != blank]
    labels = [[names[0], names[0]], [names[2], names[1]], [names[1], blank]]
    return {
        "data": logits,
        "probs": tf.nn.log_softmax(logits.astype("f4")).numpy().astype(dtype),
        "labels": np.array(labels, "u4"),
        "steps": np.array([5, 3, 4], "u4"),
        "counts": np.array([2, 2, 1], "u4"),
    }


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_losses_equal_tensorflow(run: Run, blank: int, dtype: str) -> None:
    inputs = loss_inputs(blank, dtype)
    name = "float" if dtype == "float32" else "half"
    sizes = (STEPS, BATCH, CLASSES, 2)
    results = run("ctcLoss", inputs, sizes=sizes, blank=blank, type=name)
    logits = tf.constant(inputs["data"].astype("f4"))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.ctc_loss(
            inputs["labels"].astype("i4"),
            logits,
            inputs["counts"].astype("i4"),
            inputs["steps"].astype("i4"),
            blank_index=blank,
        )
    gradient = tape.gradient(loss, logits)
    tolerance = 1e-4 if dtype == "float32" else 5e-3
    for form in ("loss", "loss_of_probs", "loss_alone", "loss_of_probs_alone"):
        np.testing.assert_allclose(results[form], loss, tolerance, tolerance, err_msg=form)
    for form in ("gradient", "gradient_of_probs"):
        np.testing.assert_allclose(results[form], gradient, tolerance, tolerance, err_msg=form)


def test_impossible_labels_have_no_gradient(run: Run) -> None:
    inputs = loss_inputs(0)
    inputs["steps"] = np.array([2, 2, 0], "u4")  # a repeat needs three steps
    results = run("ctcLoss", inputs, sizes=(STEPS, BATCH, CLASSES, 2), blank=0, type="float")
    assert np.isinf(results["loss"]).tolist() == [True, False, True]
    assert not results["gradient"][:, 0].any()
    assert results["gradient"][:2, 1].any()


@pytest.mark.parametrize("blank", [0, 3])
def test_wide_beam_search_is_exact(run: Run, blank: int) -> None:
    steps = 3
    logits = random_array(steps, BATCH, CLASSES)
    probs = tf.nn.log_softmax(logits).numpy()
    lengths = np.array([3, 2, 0], "u4")
    sizes = (steps, BATCH, CLASSES)
    inputs = {"data": logits, "probs": probs, "steps": lengths}
    results = run("beamSearch", inputs, sizes=sizes, blank=blank, width=100, paths=3)
    for b, length in enumerate(lengths):
        found: dict[tuple[int, ...], float] = {}
        for path in itertools.product(range(CLASSES), repeat=int(length)):
            labels = tuple(c for c, _ in itertools.groupby(path) if c != blank)
            score = np.exp(sum(probs[t, b, c] for t, c in enumerate(path)))
            found[labels] = found.get(labels, 0.0) + score
        best = sorted(found, key=lambda labels: -found[labels])[:3]
        for p, labels in enumerate(best):
            assert results["lengths"][b, p] == len(labels)
            filled = [*labels, *[blank] * (steps - len(labels))]
            assert results["labels"][b, p].tolist() == filled
            for form in ("scores", "scores_of_probs"):
                np.testing.assert_allclose(results[form][b, p], np.log(found[labels]), 1e-5)
        assert np.isneginf(results["scores"][b, len(best) :]).all()


def test_wrong_arguments_are_refused(run: Run) -> None:
    inputs = loss_inputs(0)
    values = {"sizes": (STEPS, BATCH, CLASSES, 2), "type": "float"}
    with pytest.raises(PoplarError, match="blankClass is 4; expected one of the 4 classes"):
        run("ctcLoss", inputs, blank=4, **values)
    inputs["steps"] = np.array([5, 6, 4], "u4")
    with pytest.raises(PoplarError, match="length of sequence 1 is 6; expected 0 to 5"):
        run("ctcLoss", inputs, blank=0, **values)
    search = {"data": inputs["data"], "probs": inputs["probs"], "steps": inputs["steps"]}
    with pytest.raises(PoplarError, match="topPaths is 3; expected 1 to the beamwidth 2"):
        run("beamSearch", search, sizes=(STEPS, BATCH, CLASSES), blank=0, width=2, paths=3)
