"""Conversions and names of number formats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.frontends.poplar.cases import PoplarError, Run, runner


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "popfloat/popfloat.cpp", ("popfloat", "poputil"))


@pytest.mark.parametrize("value", [1 / 3, -65504.0, 1e-7, 2049.0, 1e6])
def test_casts_equal_numpy(run: Run, value: float) -> None:
    with np.errstate(over="ignore"):
        half = np.float32(value).astype("float16")
    results = run("casts", value=value)
    assert results["bits"] == half.view("uint16")
    assert results["back"] == half
    assert results["bits_of_overflow"] == (0x7E00 if np.isinf(half) else half.view("uint16"))


def test_names_are_those_of_enumerators(run: Run) -> None:
    assert all(run("names").values())
    with pytest.raises(PoplarError, match="AUTO has no type; expected FP32"):
        run("names", automatic=True)
