"""Every test of configs starts with an empty environment and nothing parsed."""

from __future__ import annotations

import pytest

from tensorflow_ipu.configs import flags


@pytest.fixture(autouse=True)
def fresh_environment(monkeypatch):
    """Clears the variables that configs reads, and forgets the parsed flags before and after."""
    for variable in (
        flags.VARIABLE,
        flags.CHIP_VARIABLE,
        flags.ENGINE_OPTIONS,
        flags.TARGET_OPTIONS,
        flags.RUNTIME_OPTIONS,
    ):
        monkeypatch.delenv(variable, raising=False)
    flags._reset_for_tests()
    yield
    flags._reset_for_tests()
