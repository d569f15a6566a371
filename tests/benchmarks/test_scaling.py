"""Fits of links and gateways to sums over replicas with known figures."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from measured import scaling
from measured.configuration import BERT_LARGE, RESNET, Configuration
from measured.prediction import Prediction
from measured.rows import Row

from tensorflow_ipu.configs.chips import MK2

ROUND = "MLPerf Training v9"
# Efficiencies that runs are made with, and how much longer mini-batches take than predicted.
LINKS, GATEWAYS = 0.3, 0.1
FACTORS = {RESNET: 1.2, BERT_LARGE: 0.9}
SIZES = {RESNET: (50_000_000,), BERT_LARGE: (140_000_000,)}


def config(model: str, replicas: int, count: int) -> Configuration:
    stages = 0 if model == RESNET else 8
    return Configuration(model, MK2, replicas, 2, count, 0, 1.0, stages)


def runs(noise: float = 0.0) -> list[scaling.Run]:
    """Runs on 16 to 256 IPUs, some with half the mini-batches of others."""
    made = []
    chip = dataclasses.replace(MK2, collective_efficiency=LINKS, gateway_efficiency=GATEWAYS)
    random = np.random.default_rng(1)
    for model, each in ((RESNET, 1), (BERT_LARGE, 8)):
        for ipus in (16, 64, 128, 256):
            for count in (4, 8):
                rest = 0.05 * count
                of = config(model, ipus // each, count)
                run = scaling.Run(of, ROUND, 0.0, rest, SIZES[model])
                seconds = FACTORS[model] * rest + run.sums(chip)
                seconds *= 1 + noise * random.standard_normal()
                made.append(run._replace(measured=seconds))
    return made


def fitted(monkeypatch, found: list[scaling.Run]) -> scaling.Fit | None:
    monkeypatch.setattr(scaling, "runs_of", lambda predictions, source: found)
    return scaling.fit([], (ROUND,))


def test_a_fit_finds_the_figures_of_runs(monkeypatch):
    found = fitted(monkeypatch, runs())
    assert found is not None and found.runs == 16
    assert found.values == pytest.approx((LINKS, GATEWAYS), rel=1e-3)
    assert found.factors == pytest.approx(
        {(model, ROUND): factor for model, factor in FACTORS.items()}, rel=1e-3
    )
    assert found.low == pytest.approx(found.high, rel=1e-3)


def test_spread_holds_the_figures_when_runs_are_noisy(monkeypatch):
    found = fitted(monkeypatch, runs(noise=0.01))
    assert found is not None
    for low, value, high in zip(found.low, found.values, found.high):
        assert low < value < high
    assert found.values == pytest.approx((LINKS, GATEWAYS), rel=0.2)


def test_runs_of_one_domain_say_nothing_of_gateways(monkeypatch):
    near = [run for run in runs() if not run.leaves_domain]
    found = fitted(monkeypatch, near)
    assert found is not None
    assert found.figures == ("collective_efficiency",)
    assert found.values == pytest.approx((LINKS,), rel=1e-3)


def test_too_few_runs_are_not_fitted(monkeypatch):
    assert fitted(monkeypatch, runs()[:2]) is None


def test_machines_are_told_apart_by_their_ipus():
    def prediction(pod: int, measured: float) -> Prediction:
        options = {f"pod{pod}": "", "gbs": str(20 * pod)}
        row = Row(
            1, "source", "table", "Bow", "ResNet-50", options, "throughput", measured, "items/s"
        )
        return Prediction(row, "ResNet-50, training throughput", MK2, 100.0)

    found = scaling.by_size([prediction(16, 110.0), prediction(16, 90.0), prediction(64, 50.0)])
    # Times are the inverse of rates.
    assert found == [("16", "2", "1.00"), ("64", "1", "0.50")]
