"""Programs in the style of published applications: they learn, and run on synthetic data."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.programs import mcmc, runner

_ROOT = Path(__file__).resolve().parents[3]
_SYNTHETIC = "--use_synthetic_data --synthetic_data_initializer=random"


@functools.cache
def _results(names: tuple[str, ...], flags: str = "") -> dict[str, dict[str, Any]]:
    """Runs programs in a process of their own, once."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.programs.runner", *names],
        env={**os.environ, "TF_POPLAR_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "2"},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-5000:]
    results: dict[str, dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return results


def _result(name: str, flags: str = "") -> Any:
    graph = name in runner.GRAPH_PROGRAMS
    names = runner.GRAPH_PROGRAMS if graph else runner.EAGER_PROGRAMS
    outcome = _results(names, flags)[name]
    assert "error" not in outcome, outcome["error"]
    return outcome["result"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("resnet_graph", 0.8),
        ("resnet_keras", 0.9),
        ("bert_graph", 0.97),
        ("bert_keras", 0.97),
        ("recommender", 0.8),
        ("graph_network", 0.7),
        ("autoencoder", 0.5),
    ],
)
def test_the_loss_of_a_training_falls(name: str, share: float) -> None:
    losses = np.asarray(_result(name)).reshape(-1)
    quarter = max(1, len(losses) // 4)
    assert losses[-quarter:].mean() < share * losses[:quarter].mean()


@pytest.mark.process
def test_a_policy_comes_to_win() -> None:
    losses = np.asarray(_result("policy_gradient"))
    assert losses[-4:].mean() < losses[:4].mean() - 0.1


@pytest.mark.process
def test_chains_find_the_coefficients() -> None:
    for mean, accepted in _result("mcmc"):
        np.testing.assert_allclose(mean, mcmc.TRUE, atol=0.15)
        assert 0.1 < accepted < 0.9


@pytest.mark.process
def test_forecasts_improve_by_training() -> None:
    before, after, predictions = _result("sales_forecast")
    assert after < 0.5 * before
    assert np.isfinite(predictions).all()


@pytest.mark.process
@pytest.mark.parametrize("name", [*runner.GRAPH_PROGRAMS, *runner.EAGER_PROGRAMS])
def test_programs_run_with_synthetic_data(name: str) -> None:
    assert _result(name, _SYNTHETIC) is not None
