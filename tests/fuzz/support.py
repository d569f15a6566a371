"""Runs a check on many generated cases; how many is an option of pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

# Of all cases that are asked for, in percent: what is slow gets few. Sums to 100.
SHARES = {
    "configurations": 31,
    "reports": 30,
    "programs": 14,
    "graph programs": 6,
    "placed ops": 2,
    "feeds": 7,
    "pipelines": 3,
    "PopXL programs": 2,
    "PopXL indices": 1,
    "TensorFlow effects": 2,
    "PopXL effects": 2,
}


def run(
    config: pytest.Config,
    subject: str,
    cases: strategies.SearchStrategy[Any],
    check: Callable[[Any], None],
) -> None:
    """Calls `check` with generated cases, and with the smallest that fails.

    Args:
        config: pytest's, whose options say how many cases there are and with which seed.
        subject: a key of `SHARES`.
        cases: what to generate.
        check: asserts what should hold of one case.
    """
    count = max(1, config.getoption("--fuzz-cases") * SHARES[subject] // 100)
    test = hypothesis.given(cases)(check)
    test = hypothesis.seed(config.getoption("--fuzz-seed"))(test)
    hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )(test)()
