"""Fixtures of fuzzers."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def kept_programs() -> None:
    """Keeps no compiled programs until a test ends: a fuzzer compiles thousands, of 4 MB each."""
