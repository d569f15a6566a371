"""Fixtures for tests of checks and passes: logged warnings, operator policy."""

from __future__ import annotations

import types

import pytest

from tensorflow_ipu.configs import flags
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util import notices


@pytest.fixture
def warnings(monkeypatch):
    """Warnings that were logged."""
    logged: list[str] = []
    log = types.SimpleNamespace(warning=lambda text, *args: logged.append(text % args))
    monkeypatch.setattr(notices, "logging", log)
    return logged


@pytest.fixture
def policy(monkeypatch):
    """Returns a function that sets --operator_policy for the test."""

    def set_policy(value):
        monkeypatch.setenv(flags.VARIABLE, f"--operator_policy={value}")
        flags._reset_for_tests()
        system.reset_ipu_configuration()

    yield set_policy
    monkeypatch.undo()
    flags._reset_for_tests()
    system.reset_ipu_configuration()
