"""The program of the cases of popnn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.frontends.poplar.cases import Run, runner


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    """Returns a function that runs a case."""
    return runner(run_poplar, "popnn/popnn.cpp", ("popnn", "poputil"))
