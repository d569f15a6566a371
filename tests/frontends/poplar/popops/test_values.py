"""Values of popops, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.poplar.popops import CASES
from tests.support.poplar.session import Session


@pytest.mark.parametrize("name", CASES)
def test_values_equal_numpy(run_poplar: Callable[..., str], name: str) -> None:
    session = Session()
    CASES[name](session)
    libraries = ("popops", "poputil")
    session.check(
        lambda text: run_poplar(
            "popops/popops.cpp", libraries=libraries, text=text, standard="c++14"
        )
    )
