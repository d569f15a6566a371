"""Runs a check on many generated cases; how many is an option of pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

# Cases of each test, in percent of all: slow subjects get few. Sums to 100.
SHARES = {
    "configurations": 28,
    "reports": 30,
    "programs of one replica": 8,
    "programs of two replicas": 8,
    "graph programs": 6,
    "placed ops": 2,
    "feeds": 6,
    "pipelines": 3,
    "PopXL programs": 2,
    "PopXL indices": 1,
    "Keras models": 1,
    "PopXL gradients": 1,
    "TensorFlow effects": 2,
    "PopXL effects": 2,
}


def run(
    request: pytest.FixtureRequest,
    subject: str,
    cases: strategies.SearchStrategy[Any],
    check: Callable[[Any], None],
) -> None:
    """Calls `check` with generated cases, and with the smallest that fails.

    Hypothesis ends early where it has generated every case there is, so the calls are counted and
    reported at the end of the run.

    Args:
        request: pytest's; its options are the number of cases of all subjects and the seed.
        subject: a key of `SHARES`.
        cases: generates the cases.
        check: asserts the properties of one case.
    """
    calls = 0

    def counted(case: Any) -> None:
        nonlocal calls
        calls += 1
        check(case)

    config = request.config
    count = max(1, config.getoption("--fuzz-cases") * SHARES[subject] // 100)
    test = hypothesis.given(cases)(counted)
    test = hypothesis.seed(config.getoption("--fuzz-seed"))(test)
    test = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )(test)
    try:
        test()
    finally:
        request.node.user_properties.append(("fuzz cases", (subject, calls)))
