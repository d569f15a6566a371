"""Replicas that share and take turns compute the bits of replicas that do neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.stress import replica_programs

SWITCH = "TENSORFLOW_IPU_REPLICAS_SHARE"
AT_ONCE = "TENSORFLOW_IPU_REPLICAS_AT_ONCE"
REPLICAS = (2, 4, 8)


def _check(
    run: Callable[[], Sequence[np.ndarray]],
    replicas: int,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.setenv(AT_ONCE, str(replicas))
    expected = run()
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv(AT_ONCE, str(at_once))
    for found, array in zip(run(), expected, strict=True):
        assert found.tobytes() == array.tobytes()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes as many random programs as `--stress-programs` says."""
    if "program" in metafunc.fixturenames:
        metafunc.parametrize("program", range(metafunc.config.getoption("--stress-programs")))


def test_random_programs_have_bits_of_unshared(
    program: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = REPLICAS[program % len(REPLICAS)]
    at_once = 1 + program // len(REPLICAS) % 2
    _check(lambda: replica_programs.run(program, replicas), replicas, at_once, monkeypatch)
