"""Tests of cuts that fit, and of the advice without one, against plans of all cuts."""

from __future__ import annotations

import itertools

import pytest

from tensorflow_ipu.cli import split as command
from tensorflow_ipu.configs import chips
from tensorflow_ipu.planner import planning
from tensorflow_ipu.planner.program import structure
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.tuning.stages import stage_fit
from tensorflow_ipu.tuning.stages.stage_split import Splitter
from tests.support.planner.layered_workloads import dense

WORKLOAD = dense([64] * 9, batch=1024)


def _splitter(tiles):
    settings = Settings(chip=chips.MK2.with_tiles(tiles))
    return Splitter(WORKLOAD, settings, structure.structure(WORKLOAD))


def _all(splitter, stages):
    cuts = itertools.combinations(range(1, splitter.layers), stages - 1)
    return [splitter.at([*cut, splitter.layers]) for cut in cuts]


@pytest.mark.parametrize("tiles", [5, 8])
def test_fitting_cut_is_found_if_fastest_fails(tiles):
    splitter = _splitter(tiles)
    fit = stage_fit.fitting(splitter, 2)
    assert splitter.split(2).plan.fits == (tiles == 8)
    assert fit.split.plan.fits
    assert fit.tried == (1 if tiles == 8 else 2)
    assert fit.ways == ()
    fastest = min(cut.plan.timeline.cycles for cut in _all(splitter, 2) if cut.plan.fits)
    assert fit.split.plan.timeline.cycles <= 1.01 * fastest


def test_missing_size_is_reported_without_fitting_cut():
    splitter = _splitter(4)
    fit = stage_fit.fitting(splitter, 2)
    assert not any(cut.plan.fits for cut in _all(splitter, 2))
    ways = {way.name: way for way in fit.ways}
    assert list(ways) == [
        "recomputation",
        "stashes in streaming memory",
        "both",
        "Sequential schedule",
        "4 stages",
        "8 stages",
    ]
    settings = fit.split.settings.replace(recompute=True, offload_activations=True)
    planned = planning.plan(fit.split.workload, settings)
    both = ways["both"]
    assert (both.worst_bytes, both.fits) == (planned.fullest.worst_bytes, planned.fits)
    assert both.cycles == planned.timeline.cycles
    assert ways["4 stages"].worst_bytes == splitter.split(4).plan.fullest.worst_bytes


def test_command_reports_tried_cuts_and_needs():
    fit = stage_fit.fitting(_splitter(4), 2)
    least = fit.split.plan.fullest
    said = command.text(fit)
    assert f"{fit.tried} cuts were tried and none fits: a tile holds {least.capacity:,} B" in said
    assert f"the fullest one has {least.worst_bytes:,} B." in said
    for way in fit.ways:
        assert f"{way.worst_bytes:,} B" in said
    data = command.to_dict(fit)
    assert [way["name"] for way in data["ways_to_fit"]] == [way.name for way in fit.ways]
    assert not data["fits"]
    assert data["bubble_share"] == fit.split.plan.timeline.bubble_share
