"""Pooling against TensorFlow and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import PoplarError, Run, random_array


def arguments(kind: str, **changed: object) -> dict[str, Any]:
    """Returns the parameters of a pooling of 3 x 2 windows."""
    values = {"field": (8, 7), "kernel": (3, 2), "stride": (2, 1), "lower": (0, 0)}
    return {**values, "upper": (0, 0), "sizes": (2, 3), "kind": kind, **changed}


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_pooling_equals_tensorflow(run: Run, kind: str, padding: str) -> None:
    # TensorFlow, too, averages over elements that are not padding.
    pads = {"lower": (0, 0), "upper": (1, 1)} if padding == "SAME" else {}
    x = random_array(2, 3, 8, 7)
    given = tf.constant(x.transpose(0, 2, 3, 1))
    function = tf.nn.max_pool2d if kind == "max" else tf.nn.avg_pool2d
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = function(given, (3, 2), (2, 1), padding)
    dy = random_array(*y.shape, seed=1)
    dx = tape.gradient(y, given, output_gradients=dy).numpy().transpose(0, 3, 1, 2)
    inputs = {"x": x, "dy": dy.transpose(0, 3, 1, 2)}
    results = run("pool", inputs, **arguments(kind, **pads))
    np.testing.assert_allclose(results["y"].transpose(0, 2, 3, 1), y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["dx"], dx, rtol=1e-5, atol=1e-6)
    if kind == "avg":
        np.testing.assert_array_equal(results["dx_short"], results["dx"])
    assert results["same_shape"]
    assert results["named"]


def test_sums_of_truncated_fields(run: Run) -> None:
    x = random_array(2, 3, 8, 7)
    cut = x[:, :, 1:, : 7 - 2]
    windows = np.lib.stride_tricks.sliding_window_view(cut, (3, 2), (2, 3))[:, :, ::2]
    expected = windows.sum((4, 5))
    dy = random_array(*expected.shape, seed=1)
    results = run("pool", {"x": x, "dy": dy}, **arguments("sum", lower=(-1, 0), upper=(0, -2)))
    np.testing.assert_allclose(results["y"], expected, rtol=1e-5, atol=1e-5)
    dx = np.zeros_like(x)
    for (n, c, i, j), gradient in np.ndenumerate(dy):
        dx[n, c, 1 + 2 * i : 4 + 2 * i, j : j + 2] += gradient
    np.testing.assert_allclose(results["dx"], dx, rtol=1e-5, atol=1e-5)


def test_lines_and_spaces_are_fields(run: Run) -> None:
    x = random_array(2, 3, 6)
    line = {"field": (6,), "kernel": (2,), "stride": (2,), "lower": (0,), "upper": (0,)}
    y = run("pool", {"x": x}, **arguments("max", **line))["y"]
    np.testing.assert_array_equal(y, x.reshape(2, 3, 3, 2).max(3))
    x = random_array(2, 3, 4, 4, 4)
    sizes = {"field": (4, 4, 4), "kernel": (2, 2, 2), "stride": (2, 2, 2)}
    space = {**sizes, "lower": (0, 0, 0), "upper": (0, 0, 0)}
    y = run("pool", {"x": x}, **arguments("avg", **space))["y"]
    expected = x.reshape(2, 3, 2, 2, 2, 2, 2, 2).mean((3, 5, 7))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
def test_equal_maxima_share_the_gradient(run: Run, scaled: bool) -> None:
    x = np.array([[[1, 5, 5, 2]]], "f4")
    line = {"field": (4,), "kernel": (4,), "stride": (1,), "lower": (0,), "upper": (0,)}
    sizes = {**line, "sizes": (1, 1), "scaled": scaled}
    dx = run("pool", {"x": x, "dy": np.array([[[6]]], "f4")}, **arguments("max", **sizes))["dx"]
    assert dx.ravel().tolist() == ([0, 3, 3, 0] if scaled else [0, 6, 6, 0])


def test_flops_count_elements_of_windows(run: Run) -> None:
    results = run("pool", {"x": random_array(2, 3, 8, 7)}, **arguments("max", lower=(1, 0)))
    # Windows of 3 rows at 4 places, one of which has a row of padding; 2 columns at 6 places.
    assert results["flops"] == results["backward_flops"] == 6 * (4 * 3 - 1) * (6 * 2)
    assert results["cycles"] == results["backward_cycles"] > 0


ERRORS: dict[str, Any] = {
    "window": (arguments("max", kernel=(9, 2)), "the window has 9 elements in dimension 0"),
    "dims": (arguments("max", stride=(1,)), "expected 2, one for each dimension"),
    "input": (arguments("max", field=(9, 7)), r"in has shape \{2,3,8,7\}; expected \{2,3,9,7\}"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_parameters_are_refused(run: Run, name: str) -> None:
    values, text = ERRORS[name]
    with pytest.raises(PoplarError, match=text) as error:
        run("pool", {"x": random_array(2, 3, 8, 7)}, **values)
    assert error.value.kind == "poplibs_error"
    assert "popnn::pooling::pool (" in str(error.value)


def test_max_gradients_need_the_values(run: Run) -> None:
    dy = np.zeros((2, 3, 3, 6), "f4")
    inputs = {"x": random_array(2, 3, 8, 7), "dy": dy}
    with pytest.raises(PoplarError, match="max pooling needs input and result"):
        run("pool", inputs, **arguments("max"), refused=True)
