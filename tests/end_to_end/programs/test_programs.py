"""Programs in the style of published applications: they learn, and run on synthetic data."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.programs import mcmc, runner
from tests.support.checkout.repository import ROOT

_SYNTHETIC = "--use_synthetic_data --synthetic_data_initializer=random"


@pytest.fixture(scope="module")
def result_of(run_program: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs the programs of one kind once, and returns the result of one."""

    @functools.cache
    def results(names: tuple[str, ...], flags: str) -> dict[str, dict[str, Any]]:
        code = "from tests.end_to_end.programs import runner; runner.main()"
        environment = {"TF_POPLAR_FLAGS": flags}
        output = run_program(code, args=names, env=environment, cwd=ROOT, timeout=600).stdout
        found: dict[str, dict[str, Any]] = json.loads(output.splitlines()[-1])
        return found

    def result(name: str, flags: str = "") -> Any:
        graph = name in runner.GRAPH_PROGRAMS
        names = runner.GRAPH_PROGRAMS if graph else runner.EAGER_PROGRAMS
        outcome = results(names, flags)[name]
        assert "error" not in outcome, outcome["error"]
        return outcome["result"]

    return result


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
def test_the_loss_of_a_training_falls(
    result_of: Callable[..., Any], name: str, share: float
) -> None:
    losses = np.asarray(result_of(name)).reshape(-1)
    quarter = max(1, len(losses) // 4)
    assert losses[-quarter:].mean() < share * losses[:quarter].mean()


def test_a_policy_comes_to_win(result_of: Callable[..., Any]) -> None:
    losses = np.asarray(result_of("policy_gradient"))
    assert losses[-4:].mean() < losses[:4].mean() - 0.1


def test_chains_find_the_coefficients(result_of: Callable[..., Any]) -> None:
    for mean, accepted in result_of("mcmc"):
        np.testing.assert_allclose(mean, mcmc.TRUE, atol=0.15)
        assert 0.1 < accepted < 0.9


def test_forecasts_improve_by_training(result_of: Callable[..., Any]) -> None:
    before, after, predictions = result_of("sales_forecast")
    assert after < 0.5 * before
    assert np.isfinite(predictions).all()


@pytest.mark.parametrize("name", [*runner.GRAPH_PROGRAMS, *runner.EAGER_PROGRAMS])
def test_programs_run_with_synthetic_data(result_of: Callable[..., Any], name: str) -> None:
    assert result_of(name, _SYNTHETIC) is not None
