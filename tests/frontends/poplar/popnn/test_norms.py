"""Normalizations and their gradients against TensorFlow's differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import Arrays, PoplarError, Run, random_array, runner

EPSILON = 1e-3
SHAPE = (3, 6, 4, 2)


@pytest.fixture
def run_norm(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "popnn/norms.cpp", ("popnn", "poplin", "poputil"))


def grouped(x: tf.Tensor, kind: str, strided: bool) -> tuple[tf.Tensor, list[int]]:
    """Returns activations with channels as two dimensions, and the axes of one statistic."""
    batch, channels, *field = SHAPE
    groups = {"bn": channels, "in": channels, "ln": 1, "gn": 3}[kind]
    if strided:
        x = tf.reshape(x, (batch, channels // groups, groups, *field))
        axes = [1, 3, 4]
    else:
        x = tf.reshape(x, (batch, groups, channels // groups, *field))
        axes = [2, 3, 4]
    return x, ([0, *axes] if kind == "bn" else axes)


def inputs_of(dtype: str = "float32") -> Arrays:
    return {
        "x": (2 + 3 * random_array(*SHAPE)).astype(dtype),
        "dy": random_array(*SHAPE, seed=1, dtype=dtype),
        "gamma": random_array(6, seed=2, dtype=dtype),
        "beta": random_array(6, seed=3, dtype=dtype),
        "scale": np.array([0.25], dtype),
    }


def reference(inputs: Arrays, kind: str, strided: bool, unbiased: bool) -> dict[str, Any]:
    """Returns values and gradients by TensorFlow, in double precision."""
    x, gamma, beta = (tf.constant(inputs[name].astype("f8")) for name in ("x", "gamma", "beta"))
    column = (-1, 1, 1)
    with tf.GradientTape() as tape:
        tape.watch([x, gamma, beta])
        parts, axes = grouped(x, kind, strided)
        mean = tf.reduce_mean(parts, axes, keepdims=True)
        variance = tf.reduce_mean((parts - mean) ** 2, axes, keepdims=True)
        count = int(tf.size(parts)) // int(tf.size(mean))
        if unbiased:
            variance *= count / (count - 1)
        inverse = 1 / tf.sqrt(variance + EPSILON)
        whitened = tf.reshape((parts - mean) * inverse, SHAPE)
        y = whitened * tf.reshape(gamma, column) + tf.reshape(beta, column)
    gradients = tape.gradient(y, [x, gamma, beta], inputs["dy"].astype("f8"))
    values = {"y": y, "whitened": whitened, "again": whitened}
    values |= {"mean": tf.reshape(mean, -1), "inverse": tf.reshape(inverse, -1)}
    return {**values, **dict(zip(("dx", "dgamma", "dbeta"), gradients, strict=True))}


CASES = [("bn", True), ("gn", True), ("gn", False), ("in", True), ("ln", True)]


@pytest.mark.parametrize(("kind", "strided"), CASES)
def test_norms_equal_tensorflow(run_norm: Run, kind: str, strided: bool) -> None:
    inputs = inputs_of()
    options = {"groups": 3, "strided": "true" if strided else "false"} if kind == "gn" else {}
    results = run_norm("norm", inputs, kind=kind, **options)
    expected = reference(inputs, kind, strided, unbiased=False)
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, 1e-4, 1e-4, err_msg=name)
    np.testing.assert_allclose(results["dx_short"], results["dx"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results["dgamma_short"], results["dgamma"], rtol=1e-4, atol=1e-5)
    updated = inputs["gamma"] - 0.25 * results["dgamma"]
    np.testing.assert_allclose(results["gamma"], updated, rtol=1e-4, atol=1e-4)
    updated = inputs["beta"] - 0.25 * results["dbeta"]
    np.testing.assert_allclose(results["beta"], updated, rtol=1e-4, atol=1e-4)


def test_unbiased_variances_divide_by_less(run_norm: Run) -> None:
    inputs = inputs_of()
    results = run_norm("norm", inputs, kind="ln", unbiased=True)
    expected = reference(inputs, "ln", strided=True, unbiased=True)
    np.testing.assert_allclose(results["inverse"], expected["inverse"], rtol=1e-5)


def test_halves_normalize_in_float(run_norm: Run) -> None:
    inputs = inputs_of("float16")
    results = run_norm("norm", inputs, kind="bn")
    expected = reference(inputs, "bn", strided=True, unbiased=False)
    assert results["y"].dtype == np.float16
    np.testing.assert_allclose(results["y"], expected["y"], rtol=5e-3, atol=5e-3)


def test_parts_equal_batch_norm(run_norm: Run) -> None:
    inputs = inputs_of()
    results = run_norm("parts", inputs)
    expected = reference(inputs, "bn", strided=True, unbiased=False)
    for name in ("y", "dx", "dgamma"):
        np.testing.assert_allclose(results[name], expected[name], rtol=1e-4, atol=1e-4)
    # Two replicas with the same images have the statistics of one.
    np.testing.assert_allclose(results["mean"], results["mean_alone"], rtol=1e-4)
    np.testing.assert_allclose(results["inverse"], results["inverse_alone"], rtol=1e-4)
    for name in ("dx_both", "dx_again"):
        np.testing.assert_allclose(results[name], results["dx"], rtol=1e-4, atol=1e-5)
    gamma, beta = (inputs[name].reshape(-1, 1, 1) for name in ("gamma", "beta"))
    np.testing.assert_allclose(results["combined"], inputs["x"] * gamma + beta, rtol=1e-5)
    assert results["members"] == 2
    assert results["flops"] == (700 + 12) + (800 + 6) + (300 + 6)
    assert results["instance_flops"] == (700 + 16) + (800 + 8) + (300 + 8)


def test_groups_have_to_divide_channels(run_norm: Run) -> None:
    with pytest.raises(PoplarError, match="has 6 channels; expected a multiple of the 4 groups"):
        run_norm("norm", inputs_of(), kind="gn", groups=4)
    with pytest.raises(PoplarError, match="expected one of 'true', 'false'") as error:
        run_norm("norm", inputs_of(), kind="gn", groups=3, strided="no")
    assert error.value.kind == "invalid_option"
