"""Triangular systems, factors and grids against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.frontends.poplar.cases import PoplarError, Run, random_array, runner


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "poplin/factors.cpp", ("poplin", "poputil"))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems_equal_numpy(run: Run, left: bool, lower: bool, unit: bool) -> None:
    a = random_array(2, 5, 5) + 4 * np.eye(5, dtype="f4")
    b = random_array(2, 5, 3, seed=1) if left else random_array(2, 3, 5, seed=1)
    flags = {"left": left, "lower": lower, "unit": unit, "a_shape": a.shape, "b_shape": b.shape}
    results = run("triangular", {"a": a, "b": b}, **flags)
    mask = np.tril(a) if lower else np.triu(a)
    if unit:
        mask[:, range(5), range(5)] = 1
    np.testing.assert_array_equal(results["mask"], mask)
    product = mask @ results["x"] if left else results["x"] @ mask
    np.testing.assert_allclose(product, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_factors_equal_numpy(run: Run, lower: bool) -> None:
    half = random_array(2, 6, 6)
    a = half @ half.transpose(0, 2, 1) + np.eye(6, dtype="f4")
    results = run("cholesky", {"a": a}, lower=lower, shape=a.shape)
    factor = np.linalg.cholesky(a.astype("f8"))
    expected = factor if lower else factor.transpose(0, 2, 1)
    np.testing.assert_allclose(results["factor"], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(results["in_place"], results["factor"])


@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (3, 5)])
def test_factors_multiply_to_the_matrix(run: Run, shape: tuple[int, int]) -> None:
    a = random_array(*shape) + 3 * np.eye(*shape, dtype="f4")
    results = run("factors", {"a": a})
    lower, upper, q, r = (results[name] for name in ("l", "u", "q", "r"))
    np.testing.assert_allclose(lower @ upper, a, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(q @ r, a, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(q.T @ q, np.eye(shape[0]), atol=1e-5)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_array_equal(upper, np.triu(upper))
    np.testing.assert_array_equal(r, np.triu(r))


def test_grids_equal_numpy(run: Run) -> None:
    results = run("grid")
    x, y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(0, 2, 3))
    np.testing.assert_allclose(results["x"], x)
    np.testing.assert_allclose(results["y"], y)
    assert results["plans"] == 3
    assert results["update"]


def test_shapes_that_do_not_fit_are_refused(run: Run) -> None:
    flags = {"left": True, "a_shape": (2, 5, 5), "b_shape": (2, 4, 3)}
    with pytest.raises(PoplarError, match=r"a has shape \{2,5,5\} and b \{2,4,3\}"):
        run("triangular", {}, **flags)
    with pytest.raises(PoplarError, match=r"expected \{..., n, n\}"):
        run("cholesky", {}, shape=(3, 4))
