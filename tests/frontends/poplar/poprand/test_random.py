"""Random numbers: seeds, ranges, moments and distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontends.poplar.cases import PoplarError, Run, runner

SEED = np.array([11, 42], "uint32")
SHAPE = (100, 103)


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "poprand/poprand.cpp", ("poprand", "poputil"))


def normal_cdf(x: float) -> float:
    """Returns the probability of a standard normal number below x."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


#: Cases with the least, the greatest value, and the probability of a value below x.
DISTRIBUTIONS: dict[str, Any] = {
    "uniform": ({"a": -2, "b": 3}, -2, 3, lambda x: (x + 2) / 5),
    "normal": ({"a": 1, "b": 2}, -math.inf, math.inf, lambda x: normal_cdf((x - 1) / 2)),
    "truncatedNormal": (
        {"a": 1, "b": 2, "alpha": 1.5},
        -2,
        4,
        lambda x: (
            (normal_cdf((x - 1) / 2) - normal_cdf(-1.5)) / (normal_cdf(1.5) - normal_cdf(-1.5))
        ),
    ),
    "logUniform": ({"a": 0.5, "b": 8}, 0.5, 8, lambda x: math.log(x / 0.5) / math.log(16)),
}


@pytest.mark.parametrize("dtype", ["float", "half"])
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_values_have_their_distribution(run: Run, kind: str, dtype: str) -> None:
    values, least, greatest, below = DISTRIBUTIONS[kind]
    results = run("seeded", {"seed": SEED}, kind=kind, type=dtype, shape=SHAPE, **values)
    numbers = results["first"].astype("f8").ravel()
    assert results["first"].shape == SHAPE
    assert numbers.min() >= least
    assert numbers.max() <= greatest
    # Kolmogorov and Smirnov: 0.0193 is exceeded once in a thousand seeds.
    expected = np.array([below(x) for x in np.sort(numbers)])
    distance = np.abs(expected - (np.arange(numbers.size) + 0.5) / numbers.size).max()
    assert distance < 0.0193


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_seed_modifier_and_shape_decide_values(run: Run, kind: str) -> None:
    arguments = {"kind": kind, "type": "float", "shape": SHAPE}
    results = run("seeded", {"seed": SEED}, **arguments)
    np.testing.assert_array_equal(results["first"], results["again"])
    assert np.abs(np.corrcoef(results["first"].ravel(), results["other"].ravel())[0, 1]) < 0.05
    another = run("seeded", {"seed": SEED[::-1].copy()}, **arguments)["first"]
    assert np.abs(np.corrcoef(results["first"].ravel(), another.ravel())[0, 1]) < 0.05


def test_integers_include_both_ends(run: Run) -> None:
    arguments = {"kind": "uniform", "type": "int", "shape": SHAPE, "a": -1, "b": 2}
    numbers = run("seeded", {"seed": SEED}, **arguments)["first"]
    found, counts = np.unique(numbers, return_counts=True)
    assert found.tolist() == [-1, 0, 1, 2]
    assert counts.min() > 0.22 * numbers.size


@pytest.mark.parametrize("dtype", ["float", "half", "int"])
def test_bernoulli_has_its_probability(run: Run, dtype: str) -> None:
    arguments = {"kind": "bernoulli", "type": dtype, "shape": SHAPE, "a": 0.3}
    numbers = run("seeded", {"seed": SEED}, **arguments)["first"]
    assert set(np.unique(numbers)) == {0, 1}
    assert numbers.astype("f8").mean() == pytest.approx(0.3, abs=0.02)


def test_log_uniform_takes_a_base(run: Run) -> None:
    arguments = {"kind": "logUniform", "type": "float", "shape": (9,), "a": 1, "b": 100}
    by_base = run("seeded", {"seed": SEED}, **arguments, base=10)["first"]
    np.testing.assert_allclose(by_base, run("seeded", {"seed": SEED}, **arguments)["first"], 1e-5)


def test_set_seed_starts_the_generator(run: Run) -> None:
    results = run("unseeded", {"seed": SEED}, kind="normal", type="float", shape=SHAPE)
    np.testing.assert_array_equal(results["first"], results["again"])
    for name in ("second", "other"):
        assert np.abs(np.corrcoef(results["first"].ravel(), results[name].ravel())[0, 1]) < 0.05


def test_runs_without_seeds_go_on(run: Run) -> None:
    arguments = {"kind": "uniform", "type": "float", "shape": (5,)}
    once, twice = (run("continued", **arguments, times=n)["out"] for n in (1, 2))
    assert not np.array_equal(once, twice)
    np.testing.assert_array_equal(once, run("continued", **arguments)["out"])


def test_dropout_scales_the_rest(run: Run) -> None:
    x = np.arange(1, 1 + math.prod(SHAPE), dtype="f4").reshape(SHAPE)
    results = run("dropout", {"seed": SEED, "x": x, "shape": np.zeros((100, 1), "f4")}, keep=0.8)
    kept = results["out"] != 0
    assert kept.mean() == pytest.approx(0.8, abs=0.02)
    np.testing.assert_allclose(results["out"], np.where(kept, x / 0.8, 0), rtol=1e-6)
    np.testing.assert_array_equal(results["out"], results["again"])
    rows = results["shaped"][:, :1] != 0
    assert 60 < rows.sum() < 95
    np.testing.assert_allclose(results["shaped"], np.where(rows, x / 0.8, 0), rtol=1e-6)


ERRORS: dict[str, Any] = {
    "range": ({"kind": "uniform", "type": "float", "a": 2, "b": 1}, "expected minVal <= maxVal"),
    "type": ({"kind": "normal", "type": "int"}, "outType is int; expected float or half"),
    "probability": ({"kind": "bernoulli", "type": "float", "a": 1.5}, "expected 0 to 1"),
    "logarithm": ({"kind": "logUniform", "type": "float"}, "minVal is not above 0"),
    "alpha": ({"kind": "truncatedNormal", "type": "float", "alpha": 0}, "expected more than 0"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_arguments_are_refused(run: Run, name: str) -> None:
    arguments, text = ERRORS[name]
    with pytest.raises(PoplarError, match=text) as error:
        run("seeded", {"seed": SEED}, shape=(3,), **arguments)
    assert error.value.kind == "poplibs_error"
    assert f"poprand::{arguments['kind']} (" in str(error.value)


def test_wrong_seeds_are_refused(run: Run) -> None:
    arguments = {"kind": "normal", "type": "float", "shape": (3,)}
    with pytest.raises(PoplarError, match=r"seed has shape \{3\}; expected \{2\}"):
        run("seeded", {"seed": np.zeros(3, "uint32")}, **arguments)
    with pytest.raises(PoplarError, match="seed is of type float; expected unsigned int"):
        run("seeded", {"seed": np.zeros(2, "f4")}, **arguments)
