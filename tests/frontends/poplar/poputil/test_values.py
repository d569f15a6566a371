"""Values of poputil, against the rules of its specification and NumPy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.poplar.poputil import CASES
from tests.support.poplar.session import Session

TIER_A = (
    "mapTensorLinearly mapTensorLinearlyWithOffset calcLinearTileMapping splitRegions "
    "splitRegionsBetweenWorkers detectDimGroupings detectInnermostGrouping unflattenIndex "
    "duplicate "
    "PoplibsOpDebugInfo"
).split()


@pytest.mark.parametrize("name", CASES)
def test_values_follow_the_rules(run_poplar: Callable[..., str], name: str) -> None:
    session = Session()
    CASES[name](session)
    session.check(
        lambda text: run_poplar(
            "poputil/poputil.cpp", libraries=("poputil",), text=text, standard="c++14"
        )
    )


def test_functions_have_tests_of_values() -> None:
    assert not set(TIER_A) - CASES.functions()
