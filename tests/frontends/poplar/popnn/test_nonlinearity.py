"""Non-linearities and their gradients against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import PoplarError, Run, random_array

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "SIGMOID": tf.sigmoid,
    "HARD_SIGMOID": lambda x: tf.clip_by_value(0.2 * x + 0.5, 0, 1),
    "RELU": tf.nn.relu,
    "TANH": tf.tanh,
    "GELU": lambda x: tf.nn.gelu(x, approximate=True),
    "GELU_ERF": tf.nn.gelu,
    "SWISH": tf.nn.swish,
    "SOFTMAX": tf.nn.softmax,
    "SOFTMAX_STABLE": tf.nn.softmax,
    "SOFTMAX_SCALED": lambda x: 16 * tf.nn.softmax(x),
}
OF_INPUT = ("GELU", "GELU_ERF", "SWISH")


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_values_and_gradients_equal_tensorflow(run: Run, kind: str) -> None:
    x, dy = 3 * random_array(4, 7), random_array(4, 7, seed=1)
    given = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = FUNCTIONS[kind](given)
    dx = tape.gradient(y, given, output_gradients=dy)
    inputs = {"x": x, "dy": dy}
    results = run("nonLinearity", inputs, kind=kind, of_input=kind in OF_INPUT)
    np.testing.assert_allclose(results["y"], y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["in_place"], y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["dx"], dx, rtol=1e-4, atol=1e-5)
    assert results["scale"] == (16 if kind == "SOFTMAX_SCALED" else 1)
    assert results["named"]


@pytest.mark.parametrize("kind", ["GELU", "SOFTMAX"])
def test_halves_are_rounded_once(run: Run, kind: str) -> None:
    x = random_array(3, 5, dtype="float16")
    results = run("nonLinearity", {"x": x, "dy": x}, kind=kind, of_input=kind in OF_INPUT)
    expected = FUNCTIONS[kind](x.astype("f4")).numpy().astype("f2")
    np.testing.assert_allclose(results["y"], expected, rtol=1e-3)
    assert results["dx"].dtype == np.float16


def test_compute_sets_run_non_linearities(run: Run) -> None:
    inputs = {"x": random_array(3, 5), "dy": random_array(3, 5, seed=1)}
    results = run("computeSet", inputs, kind="TANH")
    expected = run("nonLinearity", inputs, kind="TANH")
    np.testing.assert_array_equal(results["y"], expected["y"])
    np.testing.assert_array_equal(results["dx"], expected["dx"])


def test_shortcuts_equal_their_kinds(run: Run) -> None:
    x = random_array(3, 5)
    results = run("shortcuts", {"x": x})
    for kind, function in FUNCTIONS.items():
        np.testing.assert_allclose(results[kind], function(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(results[f"{kind}_in_place"], results[kind])
    np.testing.assert_allclose(results["logSoftmax"], tf.nn.log_softmax(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results["logSoftmax_in_place"], results["logSoftmax"])


def test_large_logits_have_a_softmax(run: Run) -> None:
    x = np.array([[1000, 999, -1000]], "f4")
    y = run("nonLinearity", {"x": x, "dy": x}, kind="SOFTMAX_STABLE")["y"]
    np.testing.assert_allclose(y, tf.nn.softmax(x), rtol=1e-5)


def test_spatial_softmax_gives_expected_coordinates(run: Run) -> None:
    x = random_array(2, 3, 5)
    weights = tf.nn.softmax(tf.reshape(x / 0.5, (2, 15))).numpy().reshape(2, 3, 5)
    rows, columns = np.linspace(-1, 1, 3), np.linspace(-1, 1, 5)
    expected = np.stack([weights.sum(2) @ rows, weights.sum(1) @ columns], axis=1)
    np.testing.assert_allclose(run("spatialSoftmax", {"x": x})["out"], expected, rtol=1e-4)


def test_integers_and_scalars_are_refused(run: Run) -> None:
    ones = np.ones((2, 2), "int32")
    with pytest.raises(PoplarError, match=r"popnn::nonLinearity \(.*: t is of type int"):
        run("nonLinearity", {"x": ones, "dy": ones}, kind="RELU")
    with pytest.raises(PoplarError, match="t is a scalar"):
        run("nonLinearity", {"x": np.float32(1), "dy": np.float32(1)}, kind="SOFTMAX")
