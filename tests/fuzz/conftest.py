"""Fixtures of fuzzers."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def kept_programs() -> None:
    """Lets compiled programs go at once: a fuzzer compiles thousands, of 4 MB each."""
